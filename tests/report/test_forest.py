from oelm.report.forest import Axis, drawn_interval, shared_axis
from oelm.report.statistics import Estimate, Interval

AXIS = Axis(low=0.9, high=1.1, margin=1.05, width=21)


def test_an_interval_is_drawn_to_scale() -> None:
    assert drawn_interval(Estimate(0.95, 3, Interval(0.92, 0.98, 1.03)), AXIS) == "  ├──●──┤ │    ┆     "


def test_without_an_interval_there_is_a_point_and_without_a_pair_only_the_marks() -> None:
    assert drawn_interval(Estimate(0.95, 1, None), AXIS) == "     ●    │    ┆     "
    assert drawn_interval(None, AXIS) == "          │    ┆     "


def test_the_axis_holds_one_the_margin_and_all_ends_but_nothing_wild() -> None:
    axis = shared_axis([Estimate(0.95, 3, Interval(0.92, 0.98, 1.03))], margin=1.05, width=10)
    assert (axis.low, axis.high) == (0.92, 1.05)
    wild = shared_axis([Estimate(40.0, 1, None)], margin=1.05, width=10)
    assert wild.high == 2.0
    assert drawn_interval(Estimate(40.0, 1, None), wild)[-1] == "●"
