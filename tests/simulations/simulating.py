"""Simulated studies through the public path, counted: `python -m simulations.simulating --studies 100 --seed 1`."""

import argparse
import json
import math
import platform
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from oelm import __version__

from .designs import HELD, NOT_HELD, Design

ALL = HELD | NOT_HELD


def wrong(design: Design, studies: int, seed: Sequence[int]) -> int:
    """In how many of so many studies the report makes a wrong claim."""
    generator, count = np.random.default_rng(seed), 0
    for _ in range(studies):
        with TemporaryDirectory(prefix="oelm-simulated-") as folder:
            count += design(Path(folder), generator)
    return count


def most(studies: int) -> float:
    """5 % and three standard errors of it."""
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def add_to(path: Path, name: str, studies: int, count: int, seed: int) -> None:
    """The record, with what earlier pieces have counted."""
    values = json.loads(path.read_text()) if path.is_file() else {"designs": {}}
    before = values["designs"].get(name, {"seeds": [], "studies": 0, "wrong": 0})
    if seed in before["seeds"]:
        raise SystemExit(f"{path} has these studies already. Fix: give another --seed.")
    designs = values["designs"] | {
        name: {
            "seeds": [*before["seeds"], seed],
            "studies": before["studies"] + studies,
            "wrong": before["wrong"] + count,
        }
    }
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "designs": {each: designs[each] for each in ALL if each in designs},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=100, help="Of each design.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add-to", type=Path)
    given = parser.parse_args()
    failed = []
    for place, (name, design) in enumerate(ALL.items()):
        count = wrong(design, given.studies, (given.seed, place))
        print(f"{count} of {given.studies} wrong: {name}", flush=True)
        if given.add_to:
            add_to(given.add_to, name, given.studies, count, given.seed)
        if name in HELD and count / given.studies > most(given.studies):
            failed.append(name)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
