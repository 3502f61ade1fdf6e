import math

from hypothesis import given
from hypothesis import strategies as st

from oelm.report.axes import Axis, axis_around


def test_ends_and_middle() -> None:
    assert [Axis(1, 3).percent(value) for value in (1, 2, 3)] == [0, 50, 100]


def test_what_lies_outside_is_moved_to_the_end() -> None:
    assert Axis(1, 2).percent(5) == 100
    assert Axis(1, 2).percent(math.inf) == 100


def test_ticks_are_round() -> None:
    assert Axis(0.88, 1.17).ticks() == (0.9, 1.0, 1.1)
    assert Axis(0, 400).ticks(4) == (0, 100, 200, 300, 400)


@given(values=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5), count=st.integers(2, 8))
def test_all_values_are_on_the_axis_and_all_ticks_too(values: list[float], count: int) -> None:
    axis = axis_around(values)
    assert all(axis.low <= value <= axis.high for value in values)
    ticks = axis.ticks(count)
    assert len(ticks) <= 20
    assert all(-1e-6 <= axis.percent(tick) <= 100 for tick in ticks)


def test_nothing_to_show_is_still_an_axis() -> None:
    assert axis_around([math.inf, math.nan]).percent(1.5) == 50
