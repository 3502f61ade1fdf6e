"""What the checks cost when a run starts and when it is resumed: CPU seconds of the command, with them and without.

Each round starts `oelm train` anew with every check, and again with digests neither checked nor written, in turns; the
ratio is within rounds. CPU time, because other work on the machine does not change it as it changes the time on the
clock. Twice: a first start, which reads all token files, and a resumption, which remembers them as whole and reads the
checkpoint and the events.

python -m fuzz.startup --rounds 11 --add-to results/reliability/startup.json     (make startup)
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from oelm import __version__
from oelm.bench.statistics import ratio_of
from oelm.config.manifest import TokenizerKind
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Files
from oelm.data.verified import VERIFIED_FILE
from train.toys import toy_text

SENTENCES = 320_000
"""About as many tokens as 16 MB hold: the size of TinyStories' token file in our studies."""
STEPS = 2
MOST = 1.1
BEGIN = """
import sys
from oelm.cli.main import main
from oelm.experiments import assemble, subjects
from oelm.train import audit, checkpoint
"""
WITHOUT = """
subjects.require_whole = lambda data: None
checkpoint.damage_of = lambda folder: None
checkpoint._write_digests = lambda folder: None
checkpoint.has_events = assemble.has_events = lambda path, length, digest: True
audit.restore_start = lambda path, fresh, expected: []
audit.start_digest = lambda path: ""
"""
"""Both ways import the same."""
END = "main()\n"


def cpu_seconds(code: str, arguments: list[str]) -> float:
    """User and system time of a process that succeeds."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return used.ru_utime + used.ru_stime


def prepared(folder: Path) -> Path:
    """Token files of a usual size."""
    (folder / "text.txt").write_text(toy_text(SENTENCES))
    request = PrepareRequest(source=Files(paths=(str(folder / "text.txt"),)), tokenizer=TokenizerKind.BYTES)
    prepare(request, folder / "tokens")
    return folder / "tokens"


def first_start(tokens: Path, run: Path, code: str) -> float:
    """A run whose token files were never looked at."""
    (tokens / VERIFIED_FILE).unlink(missing_ok=True)
    shutil.rmtree(run, ignore_errors=True)
    return cpu_seconds(code, _command(tokens, run))


def resumption(tokens: Path, run: Path, code: str) -> float:
    """The same run, killed behind its last checkpoint but one."""
    (run / "record.json").unlink()
    shutil.rmtree(run / "checkpoint" / f"step-{STEPS:08d}")
    return cpu_seconds(code, [*_command(tokens, run), "--resume"])


def _command(tokens: Path, run: Path) -> list[str]:
    settings = {"data": tokens, "out-dir": run, "size": "tiny", "seq-len": 64, "batch-size": 2, "steps": STEPS}
    settings |= {"save-every": 1, "validate-every": 1, "validation-sequences": 2, "device": "cpu"}
    return ["train", *(f"--{name}={value}" for name, value in settings.items()), "--no-tensorboard"]


def measured(tokens: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each moment, with and without, by round; who goes first alternates."""
    codes = {"with": BEGIN + END, "without": BEGIN + WITHOUT + END}
    found = {moment: {name: list[float]() for name in codes} for moment in ("first_start", "resumption")}
    for number in range(rounds + 1):
        for name in list(codes)[:: -1 if number % 2 else 1]:
            run = tokens.with_name(name)
            seconds = first_start(tokens, run, codes[name]), resumption(tokens, run, codes[name])
            if number:  # the first round fills the caches of the system
                for moment, spent in zip(found.values(), seconds, strict=True):
                    moment[name].append(round(spent, 3))
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--add-to", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="oelm-startup-") as temporary:
        tokens = prepared(Path(temporary))
        token_bytes = sum(file.stat().st_size for file in tokens.glob("*.bin"))
        found = measured(tokens, given.rounds)
    ratios = {moment: ratio_of(by["with"], by["without"]) for moment, by in found.items()}
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "rounds": given.rounds,
        "token_bytes": token_bytes,
        "left_out": WITHOUT.strip().splitlines(),
        "ratio": {moment: ratio.model_dump() for moment, ratio in ratios.items()},
        "cpu_seconds": found,
    }
    print(json.dumps(record, indent=2))
    if given.add_to:
        given.add_to.parent.mkdir(parents=True, exist_ok=True)
        given.add_to.write_text(json.dumps(record, indent=2) + "\n")
    return int(any(ratio.median > MOST for ratio in ratios.values()))


if __name__ == "__main__":
    raise SystemExit(main())
