"""The fuzz: every command line and every damaged file ends in success or in one line, in time.

python -m fuzz.fuzzing --lines 1000 --files 400 --seed 1 --add-to results/reliability/fuzz.json   (make fuzz: all of it)
"""

import argparse
import json
import os
import platform
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz.called import CRASHED, HUNG, called
from fuzz.command_lines import command_lines
from fuzz.corruptions import MAY_DIFFER, TARGETS, Attack, admitted, asked, attacks, clear, damage, results
from fuzz.places import World, new_world
from oelm import __version__
from train.processes import Ended

_QUIET = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "200"}


@dataclass
class Found:
    """What was tried, and what got through."""

    command_lines: int = 0
    corrupted_files: int = 0
    tracebacks: int = 0
    hangs: int = 0
    silently_accepted: int = 0
    exit_codes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note(self, ended: Ended, what: object) -> None:
        """A command that ended; how it must not end is written down."""
        self.exit_codes[str(ended.code)] += 1
        if ended.code == HUNG:
            self.hangs += 1
            self.problems.append(f"hang: {what}")
        elif ended.code == CRASHED or "Traceback (most recent call last)" in ended.err:
            self.tracebacks += 1
            self.problems.append(f"traceback: {what}\n{ended.err[-1500:]}")
        elif ended.code == 2 and not ("error" in ended.err.lower() or "Usage" in ended.err):
            self.tracebacks += 1
            self.problems.append(f"no reason: {what}\n{ended.err[-500:]}")

    @property
    def bad(self) -> int:
        return self.tracebacks + self.hangs + self.silently_accepted


def try_command_lines(world: World, count: int, number: int, found: Found) -> None:
    """So many command lines, all in one copy of the world."""

    def attempt(words: list[str]) -> None:
        found.command_lines += 1
        found.note(called(*words, cwd=world.root), [word[:80] for word in words])

    _drawn(command_lines(), attempt, count, number)


def try_corruptions(world: World, root: Path, count: int, number: int, found: Found) -> None:
    """So many damaged files."""
    whole: dict[str, object] = {}
    _drawn(attacks(), lambda attack: try_attack(world, root, attack, whole, found), count, number)


def try_attack(world: World, root: Path, attack: Attack, whole: dict[str, object], found: Found) -> None:
    """One damaged file in a copy of the world; `whole` keeps what commands give without damage."""
    copy = world.copied(root / "damaged")
    try:
        if not damage(copy.root, attack):
            return
        found.corrupted_files += 1
        ended = asked(copy, attack.command)
        found.note(ended, attack)
        if ended.code != 0 or attack.command in MAY_DIFFER or admitted(copy, ended):
            return
        if attack.command not in whole:
            whole[attack.command] = _undisturbed(world, root, attack.command)
        if results(copy, attack.command, ended) != whole[attack.command]:
            found.silently_accepted += 1
            found.problems.append(f"silently accepted: {attack}")
    finally:
        clear(copy.root)


def _undisturbed(world: World, root: Path, command: str) -> object:
    copy = world.copied(root / "whole")
    try:
        return results(copy, command, asked(copy, command))
    finally:
        clear(copy.root)


def _drawn(strategy: SearchStrategy[Any], attempt: Any, count: int, number: int) -> None:
    plain = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=False,
    )
    seed(number)(plain(given(strategy)(lambda drawn: attempt(drawn))))()


def fuzzed(lines: int, files: int, number: int) -> Found:
    """Both parts, in a world of their own."""
    os.environ.update(_QUIET)
    found = Found()
    with TemporaryDirectory(prefix="oelm-fuzz-") as folder:
        world = new_world(Path(folder) / "world")
        if files:
            try_corruptions(world, Path(folder), files, number, found)
        if lines:
            _with_traps(world.root)
            try_command_lines(world, lines, number, found)
    return found


def _with_traps(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("missing")


def add_to(path: Path, found: Found, number: int) -> None:
    """The record, with what earlier pieces of the same version have found."""
    values = json.loads(path.read_text()) if path.is_file() else {}
    counts = ("command_lines", "corrupted_files", "tracebacks", "hangs", "silently_accepted")
    record = {
        "oelm": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "seeds": sorted({*values.get("seeds", []), number}),
        **{name: values.get(name, 0) + getattr(found, name) for name in counts},
        "exit_codes": dict(sorted((Counter(values.get("exit_codes", {})) + found.exit_codes).items())),
        "commands_on_damaged_files": sorted(TARGETS),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add-to", type=Path)
    given_values = parser.parse_args()
    found = fuzzed(given_values.lines, given_values.files, given_values.seed)
    for problem in found.problems:
        print(problem, end="\n\n")
    print({name: value for name, value in vars(found).items() if name != "problems"})
    if given_values.add_to:
        add_to(given_values.add_to, found, given_values.seed)
    return int(bool(found.bad))


if __name__ == "__main__":
    raise SystemExit(main())
