"""Train for a long time and see that nothing grows: memory, open files, threads, checkpoints.

A run of 20,000 steps is looked at while it trains; a second one of the same settings is killed a few times on its way
and must end in the same bytes.

python -m fuzz.soak --steps 20000 --add-to results/reliability/soak.json     (make soak)
"""

import argparse
import json
import os
import platform
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.faults import state_of
from oelm import __version__
from oelm.train.folder import RunFolder
from train.processes import Running, started
from train.toys import flags

KILLS = 5
LOOKS = 40


def begun(folder: Path, steps: int) -> Running:
    """The same command every time."""
    settings = {"save_every": 500, "validate_every": 500, "log_every": 50, "method": "oelm+until=0.5"}
    return started([*flags(steps=steps, **settings, out_dir=folder), "--resume"])


def steps_of(folder: Path) -> int:
    """How far the run has come, by its state file."""
    try:
        return int(json.loads((folder / "state.json").read_text())["step"])
    except (FileNotFoundError, ValueError, KeyError):
        return 0


def looked_at(process: int, folder: Path) -> dict[str, int]:
    """What could grow, now."""
    of = Path("/proc") / str(process)
    memory = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
    return {
        "step": steps_of(folder),
        "resident_kb": int(memory["VmRSS"].split()[0]),
        "threads": int(memory["Threads"]),
        "open_files": len(list((of / "fd").iterdir())),
        "checkpoints": len(list((folder / "checkpoint").glob("step-*"))),
    }


def watched(folder: Path, steps: int) -> list[dict[str, int]]:
    """A whole run, looked at about every fortieth of its steps."""
    run, looks = begun(folder, steps), list[dict[str, int]]()
    while run.process.is_alive():
        time.sleep(0.2)
        if steps_of(folder) >= (len(looks) + 1) * steps // LOOKS and run.process.pid is not None:
            try:
                looks.append(looked_at(run.process.pid, folder))
            except (FileNotFoundError, ProcessLookupError, KeyError):
                break  # it ended meanwhile
    assert run.ended().code == 0, run.ended()
    return looks


def killed(folder: Path, steps: int, dice: random.Random) -> int:
    """The same run, killed on its way; returns how often."""
    for kills, at in enumerate(sorted(dice.randrange(steps) for _ in range(KILLS))):
        run = begun(folder, steps)
        while run.process.is_alive() and steps_of(folder) < at:
            time.sleep(0.05)
        run.killed()
        if RunFolder(folder).finished:  # it was quicker
            return kills
    run = begun(folder, steps)
    run.process.join()
    assert run.ended().code == 0, run.ended()
    return KILLS


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--add-to", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="oelm-soak-") as temporary:
        whole, again = Path(temporary) / "whole" / "run", Path(temporary) / "killed" / "run"
        looks = watched(whole, given.steps)
        kills = killed(again, given.steps, random.Random(0))
        differing = [part for part, value in state_of(whole).items() if state_of(again)[part] != value]
    settled = [look for look in looks if look["step"] >= given.steps // 10]  # caches are full by then
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "steps": given.steps,
        "looks": len(settled),
        **{f"{what}_first_and_last": [settled[0][what], settled[-1][what]] for what in settled[0]},
        "kills_of_the_second_run": kills,
        "parts_that_differ": differing,
    }
    print(json.dumps(record, indent=2))
    if given.add_to:
        given.add_to.parent.mkdir(parents=True, exist_ok=True)
        given.add_to.write_text(json.dumps(record, indent=2) + os.linesep)
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
