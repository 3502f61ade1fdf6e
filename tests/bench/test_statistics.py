"""Median and sign interval on rounds whose answer is known."""

import random

import pytest

from oelm.bench.bench_record import Decision, Ratio
from oelm.bench.statistics import interval_rank, ratio_of, sign_coverage


def test_ratios_are_taken_within_rounds():
    reference = [1.0, 10.0, 100.0, 1.0, 10.0, 100.0]  # the machine was slow at times, for both
    ratio = ratio_of([0.9 * seconds for seconds in reference], reference)
    assert ratio.median == pytest.approx(0.9)
    assert (ratio.low, ratio.high) == (pytest.approx(0.9), pytest.approx(0.9))
    assert ratio.decision is Decision.FASTER


def test_unpaired_rounds_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        ratio_of([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("rounds", "rank"), [(5, None), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (100, 40)])
def test_ranks_of_the_textbook(rounds, rank):
    """The order statistics of the 95 % sign interval, as tables of the sign test give them."""
    assert interval_rank(rounds) == rank
    if rank is not None:
        assert sign_coverage(rounds, rank) >= 0.95 > sign_coverage(rounds, rank + 1)


def test_the_interval_is_the_third_smallest_to_the_third_largest_of_twelve():
    shuffled = random.Random(1).sample(range(1, 13), 12)
    ratio = ratio_of([float(value) for value in shuffled], [1.0] * 12)
    assert (ratio.median, ratio.low, ratio.high) == (6.5, 3.0, 10.0)
    assert ratio.coverage == pytest.approx(1 - 2 * 79 / 4096)


def test_it_covers_the_median_as_often_as_it_says():
    draw, hits, trials = random.Random(0), 0, 4000
    for _ in range(trials):
        times = [draw.expovariate(1.0) for _ in range(12)]  # skewed: the median is ln 2, the mean is 1
        ratio = ratio_of(times, [0.6931471805599453] * 12)
        hits += ratio.low <= 1 <= ratio.high
    assert hits / trials == pytest.approx(sign_coverage(12, 3), abs=0.01)


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (0.90, 0.99, Decision.FASTER),
        (1.01, 1.20, Decision.SLOWER),
        (0.90, 1.01, Decision.NOT_DECIDED),
        (1.00, 1.20, Decision.NOT_DECIDED),
        (0.90, 1.00, Decision.NOT_DECIDED),
        (None, None, Decision.NOT_DECIDED),
    ],
)
def test_decided_only_where_the_interval_leaves_1_out(low, high, decision):
    assert Ratio(median=0.95, low=low, high=high, coverage=None).decision is decision


def test_five_rounds_decide_nothing():
    ratio = ratio_of([0.5] * 5, [1.0] * 5)
    assert ratio.low is None
    assert ratio.decision is Decision.NOT_DECIDED
