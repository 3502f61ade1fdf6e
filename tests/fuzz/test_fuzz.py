"""The part of the fuzz that continuous integration does; `make fuzz` does all of it."""

from pathlib import Path

import pytest

from fuzz.called import CRASHED, called
from fuzz.corruptions import Attack
from fuzz.fuzzing import Found, fuzzed, try_attack
from fuzz.places import World, new_world
from oelm.cli import methods
from oelm.train import checkpoint


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return new_world(tmp_path_factory.mktemp("fuzz") / "world")


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "files"), [(60, 0), (0, 25)])
def test_nothing_gets_through(lines: int, files: int) -> None:
    found = fuzzed(lines, files, number=0)
    assert found.bad == 0, "\n\n".join(found.problems)
    assert found.command_lines >= lines
    assert found.corrupted_files >= files // 2


WEIGHTS = "runs/unfinished/checkpoint/step-00000002/model.safetensors"


@pytest.mark.parametrize(("damage", "is_checked"), [("flipped", True), ("zeroed", True), ("zeroed", False)])
def test_what_is_accepted_in_silence_is_found(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, is_checked: bool
) -> None:
    """The twin: without the digests of checkpoints weights that became zero get through, and are counted.

    (A single flipped bit may be one that no result shows: which one it is, the machine's own rounding decides.)
    """
    if not is_checked:
        monkeypatch.setattr(checkpoint, "damage_of", lambda _folder: None)
    found = Found()
    try_attack(world, tmp_path, Attack(WEIGHTS, damage, 0.5, b"", "resume"), {}, found)
    assert found.corrupted_files == 1
    assert found.silently_accepted == (0 if is_checked else 1), found.problems


def test_a_traceback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(methods, "SUMMARIES")
    ended, found = called("methods"), Found()
    assert ended.code == CRASHED
    found.note(ended, "methods")
    assert (found.tracebacks, found.bad) == (1, 1)
