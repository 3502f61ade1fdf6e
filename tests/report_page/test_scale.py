import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oelm.report.page.scale import Scale, scale_around


def test_ends_and_middle() -> None:
    assert [Scale(1, 3).percent(value) for value in (1, 2, 3)] == [0, 50, 100]
    assert [Scale(1, 100, True).percent(value) for value in (1, 10, 100)] == [0, 50, 100]


def test_what_lies_outside_is_moved_to_the_end() -> None:
    assert Scale(1, 2).percent(5) == 100
    assert Scale(1, 2).percent(math.inf) == 100
    assert not Scale(1, 2).shows(5)


def test_ticks_are_round() -> None:
    assert Scale(0.88, 1.17).ticks() == (0.9, 1.0, 1.1)
    assert Scale(0, 400).ticks(4) == (0, 100, 200, 300, 400)
    assert Scale(5e3, 2e6, True).ticks() == (1e4, 1e5, 1e6)


@pytest.mark.parametrize("logarithmic", [False, True])
@given(values=st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=5), count=st.integers(2, 8))
def test_all_values_are_on_the_scale_and_all_ticks_too(logarithmic: bool, values: list[float], count: int) -> None:
    scale = scale_around(values, logarithmic=logarithmic)
    assert all(scale.shows(value) for value in values)
    ticks = scale.ticks(count)
    assert len(ticks) <= 20
    assert all(-1e-6 <= scale.percent(tick) <= 100 for tick in ticks)


def test_nothing_to_show_is_still_a_scale() -> None:
    assert scale_around([math.inf, math.nan]).percent(1.5) == 50
