"""The part of the fuzz that continuous integration does; `make fuzz` does all of it."""

import pytest

from fuzz.fuzzing import fuzzed


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "files"), [(150, 0), (0, 30)])
def test_nothing_gets_through(lines: int, files: int) -> None:
    found = fuzzed(lines, files, number=0)
    assert found.bad == 0, "\n\n".join(found.problems)
    assert found.command_lines >= lines
    assert found.corrupted_files >= files // 2
