"""CONTRIBUTING names files and floors that are there."""

import re

import pytest

from .source import PACKAGE, REPOSITORY
from .test_layers import LEVELS

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_0-9]+/[a-z_/0-9]+\.py)`", TEXT)))


@pytest.mark.parametrize("name", NAMED)
def test_a_named_file_exists(name: str) -> None:
    assert (PACKAGE / name).is_file() or (REPOSITORY / name).is_file()


def test_the_drawing_shows_every_room_on_its_floor() -> None:
    drawn = re.findall(r"^  (\d)(.*)$", TEXT, re.MULTILINE)
    shown = {(room, int(floor)) for floor, line in drawn for room in LEVELS if re.search(rf"│ {room}\b", line)}
    assert shown == set(LEVELS.items())
