"""What the checks cost when a run starts and when it is resumed: their share of the CPU time of the command.

The seconds inside of every check are taken, and those of the whole process: two commands, with checks and without,
differ by a tenth by themselves on a machine that has other work. A first start reads all token files; a resumption
remembers them as whole, and reads the checkpoint and the events.

python -m fuzz.startup --rounds 10 --add-to results/reliability/startup.json     (make startup)
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
"""Of them 16 MB of token files are made: the size of TinyStories' in our studies."""
STEPS = 2
MOST = 1.1


def cpu_seconds(arguments: list[str], told: Path) -> tuple[float, float]:
    """User and system time of a command that succeeds: all of it, and without the checks."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fuzz.timed_start", str(told), *arguments], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    checks: dict[str, float] = json.loads(told.read_text())
    assert "require_whole" in checks, checks
    return used.ru_utime + used.ru_stime, used.ru_utime + used.ru_stime - sum(checks.values())


def prepared(folder: Path) -> Path:
    """Token files of a usual size."""
    (folder / "text.txt").write_text(toy_text(SENTENCES))
    request = PrepareRequest(source=Files(paths=(str(folder / "text.txt"),)), tokenizer=TokenizerKind.BYTES)
    prepare(request, folder / "tokens")
    return folder / "tokens"


def first_start(tokens: Path, run: Path) -> tuple[float, float]:
    """A run whose token files were never looked at."""
    (tokens / VERIFIED_FILE).unlink(missing_ok=True)
    shutil.rmtree(run, ignore_errors=True)
    return cpu_seconds(_command(tokens, run), tokens.with_name("told"))


def resumption(tokens: Path, run: Path) -> tuple[float, float]:
    """The same run, killed behind its last checkpoint but one."""
    (run / "record.json").unlink()
    shutil.rmtree(run / "checkpoint" / f"step-{STEPS:08d}")
    return cpu_seconds([*_command(tokens, run), "--resume"], tokens.with_name("told"))


def _command(tokens: Path, run: Path) -> list[str]:
    settings = {"data": tokens, "out-dir": run, "size": "tiny", "seq-len": 64, "batch-size": 2, "steps": STEPS}
    settings |= {"save-every": 1, "validate-every": 1, "validation-sequences": 2, "device": "cpu"}
    return ["train", *(f"--{name}={value}" for name, value in settings.items()), "--no-tensorboard"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--add-to", type=Path)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"first_start": [], "resumption": []}
    with TemporaryDirectory(prefix="oelm-startup-") as temporary:
        tokens = prepared(Path(temporary))
        token_bytes = sum(file.stat().st_size for file in tokens.glob("*.bin"))
        for _ in range(given.rounds):
            found["first_start"].append(first_start(tokens, tokens.with_name("run")))
            found["resumption"].append(resumption(tokens, tokens.with_name("run")))
    ratios = {moment: ratio_of(*zip(*seconds, strict=True)) for moment, seconds in found.items()}
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "rounds": given.rounds,
        "token_bytes": token_bytes,
        "ratio": {moment: ratio.model_dump() for moment, ratio in ratios.items()},
        "cpu_seconds_all_and_without_checks": found,
    }
    print(json.dumps(record, indent=2))
    if given.add_to:
        given.add_to.parent.mkdir(parents=True, exist_ok=True)
        given.add_to.write_text(json.dumps(record, indent=2) + "\n")
    return int(any((ratio.high or ratio.median) > MOST for ratio in ratios.values()))


if __name__ == "__main__":
    raise SystemExit(main())
