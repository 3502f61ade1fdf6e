"""Kill training runs, at every operation on a file and at random instants, and see that nothing is lost.

A run is killed (SIGKILL) before its n-th operation on a file (open to write, rename, remove, truncate, new folder), or
after a random time. It is started again with --resume, and perhaps killed again. When it has ended, its weights, events
and record must be those of a run that nobody disturbed, byte for byte but for times.

python -m fuzz.faults --kills 100 --seed 1 --add-to results/reliability/faults.json     (make faults: 500)
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oelm import __version__
from oelm.train.folder import RunFolder
from train.processes import Ended, Running, running
from train.toys import flags, last_weights, timeless_events, timeless_record

METHODS = ["oelm", "baseline", "oelm+every=3", "oelm+until=0.5"]
SETTINGS = {"steps": 30, "save_every": 6, "validate_every": 5, "log_every": 2}
OPERATIONS = {"os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "os.chmod"}
_STRIDE = 11
MOST_IN_A_RUN = 6
"""Kills; after that it is left in peace."""


def train_until(folder: Path, arguments: list[str], last: int) -> None:
    """`oelm train` up to its operation number `last` on a file of the run; how many there were is written down."""
    done = 0

    def count(event: str, details: tuple[Any, ...]) -> None:
        nonlocal done
        writes = event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in OPERATIONS) and str(folder) in str(details[0]):
            done += 1
            if done == last:
                os.kill(os.getpid(), signal.SIGKILL)

    from oelm.cli.main import main

    sys.addaudithook(count)
    sys.argv = ["oelm", *arguments]
    try:
        main()
    finally:
        folder.with_name("operations").write_text(str(done))


def started_run(folder: Path, method: str, last: int = 0) -> Running:
    """The same command every time."""
    return running(train_until, folder, [*flags(**SETTINGS, method=method, out_dir=folder), "--resume"], last)


def state_of(folder: Path) -> dict[str, object]:
    """What must not depend on kills."""
    return {
        "weights": last_weights(folder),
        "events": timeless_events(folder),
        "record": timeless_record(folder),
        "checkpoints": sorted(path.name for path in (folder / "checkpoint").iterdir()),
    }


def undisturbed(folder: Path, method: str) -> tuple[dict[str, object], int, float]:
    """The state of a run that nobody kills, how many operations it has, and how long it takes."""
    began = time.monotonic()
    ended = started_run(folder, method).ended()
    assert ended.code == 0, ended
    return state_of(folder), int(folder.with_name("operations").read_text()), time.monotonic() - began


def killed_run(folder: Path, method: str, dice: random.Random, operations: int, seconds: float, first: int) -> int:
    """Kill a run again and again, the first time before its operation `first`; returns how often."""
    kills = 0
    while kills < MOST_IN_A_RUN:
        by_time = kills > 0 and dice.random() < 0.5
        last = 0 if by_time else first if kills == 0 else dice.randint(1, operations)
        run = started_run(folder, method, last)
        if by_time:
            run.process.join(dice.uniform(0, seconds))
            run.killed()
        run.process.join()
        if run.process.exitcode == 0:
            return kills
        assert run.process.exitcode == -signal.SIGKILL, run.ended()
        kills += 1
        if RunFolder(folder).finished:  # killed between its record and its end
            return kills
    ended: Ended = started_run(folder, method).ended()
    assert ended.code == 0, ended
    return kills


def injected(kills: int, number: int) -> dict[str, Any]:
    """At least so many kills; the first one of each run is before another operation, until all have had their turn."""
    dice, found = random.Random(number), {"kills": 0, "runs": 0, "operations": set[int](), "lost": list[str]()}
    with TemporaryDirectory(prefix="oelm-faults-") as temporary:
        root, whole = Path(temporary), dict[str, tuple[dict[str, object], int, float]]()
        first = _STRIDE * 25 * number  # a piece of fifty kills has about 25 runs
        while found["kills"] < kills:
            method = METHODS[found["runs"] % len(METHODS)]
            if method not in whole:
                (root / method).mkdir()
                whole[method] = undisturbed(root / method / "run", method)
            expected, operations, seconds = whole[method]
            first = (first + _STRIDE) % operations
            (root / "killed").mkdir()
            found["kills"] += killed_run(root / "killed" / "run", method, dice, operations, seconds, first + 1)
            found["runs"] += 1
            found["operations"].add(first + 1)
            now = state_of(root / "killed" / "run")
            if differing := [part for part in expected if now[part] != expected[part]]:
                where = f"{method}, first killed before operation {first + 1} of {operations}"
                found["lost"].append(f"{where}: {', '.join(differing)} differ")
            shutil.rmtree(root / "killed")
    return found


def add_to(path: Path, found: dict[str, Any], number: int) -> None:
    """The record, with what earlier pieces have found."""
    values = json.loads(path.read_text()) if path.is_file() else {}
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "seeds": sorted({*values.get("seeds", []), number}),
        "methods": METHODS,
        "kills": values.get("kills", 0) + found["kills"],
        "runs": values.get("runs", 0) + found["runs"],
        "first_killed_before_operations": sorted(
            {*values.get("first_killed_before_operations", []), *found["operations"]}
        ),
        "runs_that_differ": values.get("runs_that_differ", 0) + len(found["lost"]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add-to", type=Path)
    given = parser.parse_args()
    found = injected(given.kills, given.seed)
    print("\n".join(found["lost"]))
    print({name: len(value) if isinstance(value, set | list) else value for name, value in found.items()})
    if given.add_to:
        add_to(given.add_to, found, given.seed)
    return int(bool(found["lost"]))


if __name__ == "__main__":
    raise SystemExit(main())
