import math

import numpy as np
import pytest
from scipy import stats

from oelm.base.errors import ConfigError
from oelm.report.blocks import paired_contrast
from oelm.report.statistics import (
    Estimate,
    Interval,
    IntervalKind,
    Verdict,
    check_margin,
    judge,
    paired_differences,
    ratio_interval,
)

ARM = {0: 2.61, 1: 2.66, 2: 2.57}
CONTROL = {0: 2.50, 1: 2.54, 2: 2.47}


def with_interval(lower: float, upper: float, pairs: int = 3) -> Estimate:
    return Estimate(math.sqrt(lower * upper), pairs, Interval(lower, upper, math.sqrt(upper / lower)))


def test_interval_by_hand() -> None:
    # Differences 0.11, 0.12, 0.10: mean 0.11, sd 0.01, t(2) = 4.302653, half-width 4.302653 * 0.01 / sqrt(3).
    contrast = paired_contrast(np.array(paired_differences(ARM, CONTROL)))
    interval = ratio_interval(contrast, 0.95, IntervalKind.PAIRED)
    assert interval.lower == pytest.approx(math.exp(0.11 - 0.0248414), rel=1e-6)
    assert interval.upper == pytest.approx(math.exp(0.11 + 0.0248414), rel=1e-6)
    assert interval.resolution == pytest.approx(math.exp(0.0248414), rel=1e-6)
    assert not interval.is_adjusted
    assert ratio_interval(contrast, 0.975, IntervalKind.PAIRED).is_adjusted


@pytest.mark.parametrize("pairs", [2, 3, 5, 12])
def test_interval_agrees_with_scipy(pairs: int) -> None:
    differences = np.random.default_rng(pairs).normal(0.02, 0.05, pairs)
    expected = stats.ttest_1samp(differences, 0)
    contrast = paired_contrast(differences)
    interval = ratio_interval(contrast, 0.9, IntervalKind.PAIRED)
    assert np.log([interval.lower, interval.upper]) == pytest.approx(expected.confidence_interval(0.9))
    assert float(contrast.p_value(0.0)) == pytest.approx(expected.pvalue)


def test_pairing_uses_common_seeds_in_order_and_nothing_else() -> None:
    arm, control = {2: 3.0, 0: 1.0, 7: 9.0}, {0: 0.5, 2: 2.0, 5: 1.0}
    assert paired_differences(arm, control) == (0.5, 1.0)
    assert paired_differences({0: 1.0}, {1: 1.0}) == ()


def test_pairing_narrows_the_interval() -> None:
    paired = float(paired_contrast(np.array(paired_differences(ARM, CONTROL))).half_width(0.95))
    unpaired = stats.ttest_ind(list(ARM.values()), list(CONTROL.values())).confidence_interval(0.95)
    assert (unpaired.high - unpaired.low) / 2 > 3 * paired
    mispaired = float(paired_contrast(np.array([2.61 - 2.54, 2.66 - 2.47, 2.57 - 2.50])).half_width(0.95))
    assert mispaired > 3 * paired


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (0.90, 0.999, Verdict.BETTER),
        (0.90, 1.000, Verdict.NON_INFERIOR),
        (0.90, 1.050, Verdict.NON_INFERIOR),
        (0.90, 1.051, Verdict.UNDECIDED),
        (1.01, 1.040, Verdict.NON_INFERIOR),
        (1.050, 1.10, Verdict.UNDECIDED),
        (1.051, 1.10, Verdict.INFERIOR),
    ],
)
def test_verdicts_and_their_neighbours(lower: float, upper: float, verdict: Verdict) -> None:
    assert judge(with_interval(lower, upper)) is verdict


def test_the_margin_decides() -> None:
    estimate = with_interval(1.06, 1.09)
    assert judge(estimate, 1.05) is Verdict.INFERIOR
    assert judge(estimate, 1.07) is Verdict.UNDECIDED
    assert judge(estimate, 1.10) is Verdict.NON_INFERIOR


def test_below_three_pairs_there_is_no_verdict() -> None:
    assert judge(with_interval(0.8, 0.9, pairs=3)) is Verdict.BETTER
    assert judge(with_interval(0.8, 0.9, pairs=2)) is Verdict.NO_VERDICT
    assert judge(Estimate(0.8, 1, None)) is Verdict.NO_VERDICT
    assert judge(None) is Verdict.NO_VERDICT


@pytest.mark.parametrize(("lower", "worse"), [(1.001, True), (1.0, False), (0.99, False)])
def test_measurably_worse(lower: float, worse: bool) -> None:
    assert with_interval(lower, 1.04).measurably_worse is worse


def test_measurably_worse_needs_an_interval() -> None:
    assert not Estimate(1.5, 1, None).measurably_worse


def test_equal_runs_are_non_inferior_not_better() -> None:
    contrast = paired_contrast(np.zeros(3))
    assert float(contrast.p_value(math.log(1.05))) == 0
    estimate = Estimate(1.0, 3, ratio_interval(contrast, 0.95, IntervalKind.PAIRED))
    assert judge(estimate) is Verdict.NON_INFERIOR


@pytest.mark.parametrize("margin", [1.0, 0.95, math.inf, math.nan])
def test_a_margin_that_is_no_ratio_above_one_is_refused(margin: float) -> None:
    with pytest.raises(ConfigError, match="Fix: give the largest ratio"):
        check_margin(margin)
