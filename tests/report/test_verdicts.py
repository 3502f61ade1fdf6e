import math

import numpy as np
import pytest
from scipy import stats

from oelm.config.measure import ACCURACY, PERPLEXITY, Better, Bilingual, CompareScale, Measure
from oelm.report.contrasts import paired_contrast
from oelm.report.verdicts import (
    Estimates,
    Judgement,
    Sample,
    Verdict,
    blocks_of,
    family_confidences,
    holm_confidences,
    judge,
    verdict_of,
)

ARM = (2.61, 2.66, 2.57)
CONTROL = (2.50, 2.54, 2.47)
POINTS = Measure(
    name="toy",
    title=Bilingual(english="toy", chinese="玩具"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
)
NAN = math.nan


def two(arm: tuple[float, ...], control: tuple[float, ...] = CONTROL, measure: Measure = PERPLEXITY) -> Judgement:
    """One arm and its control, nothing else."""
    assert measure.criterion is not None
    found = judge(Sample(np.array([control, arm])), [None, 0], measure, measure.criterion)[1]
    assert found is not None
    return found


def test_interval_by_hand() -> None:
    # Differences 0.11, 0.12, 0.10: mean 0.11, sd 0.01, t(2) = 4.302653, half-width 4.302653 * 0.01 / sqrt(3).
    found = two(ARM)
    assert float(found.estimate.lower) == pytest.approx(math.exp(0.11 - 0.0248414), rel=1e-6)
    assert float(found.estimate.upper) == pytest.approx(math.exp(0.11 + 0.0248414), rel=1e-6)
    assert float(found.smallest_criterion) == pytest.approx(math.exp(0.0248414), rel=1e-6)
    assert float(found.estimate.confidence) == 0.95


@pytest.mark.parametrize("pairs", [2, 3, 5, 12])
def test_interval_agrees_with_scipy(pairs: int) -> None:
    differences = np.random.default_rng(pairs).normal(0.02, 0.05, pairs)
    expected = stats.ttest_1samp(differences, 0)
    contrast = paired_contrast(differences)
    ends = float(contrast.mean) + float(contrast.half_width(0.9)) * np.array([-1, 1])
    assert ends == pytest.approx(expected.confidence_interval(0.9))
    assert float(contrast.p_value(0.0)) == pytest.approx(expected.pvalue)


def test_pairing_uses_common_seeds_and_nothing_else() -> None:
    found = two((1.0, NAN, 3.0, 9.0), (0.5, 1.0, 2.0, NAN))
    assert int(found.pairs) == 2
    assert math.log(float(found.estimate.value)) == pytest.approx(0.75)
    assert judge(Sample(np.array([[NAN, 1.0], [1.0, NAN]])), [None, 0], PERPLEXITY, 1.05) == [None, None]


def test_pairing_narrows_the_interval() -> None:
    def half_width(arm: tuple[float, ...]) -> float:
        found = two(arm).estimate
        return math.log(float(found.upper / found.lower)) / 2

    unpaired = stats.ttest_ind(ARM, CONTROL).confidence_interval(0.95)
    assert (unpaired.high - unpaired.low) / 2 > 3 * half_width(ARM)
    assert half_width((2.57, 2.61, 2.66)) > 3 * half_width(ARM)  # the same losses, other pairs


def at(lower: float, upper: float, measure: Measure = PERPLEXITY, criterion: float = 1.05) -> str:
    interval = Estimates(np.asarray(math.nan), np.asarray(lower), np.asarray(upper), np.asarray(0.95))
    return str(verdict_of(interval, measure, criterion))


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
def test_verdicts_and_their_neighbours_where_lower_is_better(lower: float, upper: float, verdict: Verdict) -> None:
    assert at(lower, upper) == verdict


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (1.001, 1.02, Verdict.BETTER),
        (1.0, 1.02, Verdict.NON_INFERIOR),
        (0.95, 0.99, Verdict.NON_INFERIOR),
        (0.949, 0.99, Verdict.UNDECIDED),
        (0.90, 0.95, Verdict.UNDECIDED),
        (0.90, 0.949, Verdict.INFERIOR),
    ],
)
def test_verdicts_and_their_neighbours_where_higher_is_better(lower: float, upper: float, verdict: Verdict) -> None:
    assert at(lower, upper, ACCURACY, 0.95) == verdict


def test_differences_are_judged_against_points() -> None:
    assert at(0.1, 3.0, POINTS, -2.0) == Verdict.BETTER
    assert at(-2.0, 1.0, POINTS, -2.0) == Verdict.NON_INFERIOR
    assert at(-2.1, 1.0, POINTS, -2.0) == Verdict.UNDECIDED
    assert at(-9.0, -2.1, POINTS, -2.0) == Verdict.INFERIOR
    assert two((80.0, 81.0, 79.0), (80.5, 81.4, 79.6), POINTS).verdict == Verdict.NON_INFERIOR


def test_the_margin_decides() -> None:
    assert [at(1.06, 1.09, criterion=margin) for margin in (1.05, 1.07, 1.10)] == [
        Verdict.INFERIOR,
        Verdict.UNDECIDED,
        Verdict.NON_INFERIOR,
    ]


def test_below_three_pairs_there_is_no_verdict_and_below_two_no_interval() -> None:
    assert two((2.1, 2.2, 2.0)).verdict == Verdict.BETTER
    assert two((2.1, 2.2, NAN)).verdict == Verdict.NO_VERDICT
    assert two((2.1, 2.2, NAN)).estimate.lower > 0
    assert two((2.1, NAN, NAN)).verdict == Verdict.NO_VERDICT
    assert np.isnan(two((2.1, NAN, NAN)).estimate.lower)


def test_equal_runs_are_non_inferior_not_better() -> None:
    assert float(paired_contrast(np.zeros(3)).p_value(math.log(1.05))) == 0
    assert two(CONTROL).verdict == Verdict.NON_INFERIOR


def test_a_loss_gone_wild_is_infinitely_worse() -> None:
    assert float(two((5000.0, 5000.0, 5000.0)).estimate.value) == math.inf


def test_only_arms_with_enough_seeds_are_pooled_over_the_seeds_that_all_of_them_have() -> None:
    runs = np.array([[1.0, 2, 3, 4], [1, 2, 3, NAN], [1, 2, 3, 5], [1, 2, NAN, NAN]])
    blocks = blocks_of(runs)
    assert blocks is not None
    assert (blocks.arms, blocks.seeds) == ((0, 1, 2), (0, 1, 2))
    assert blocks_of(runs[:2]) is None


# --- several arms --------------------------------------------------------------------------------------------------


def levels(*p_values: float) -> list[float]:
    return [round(0.05 / (1 - confidence), 6) for confidence in holm_confidences(np.array(p_values))]


def test_each_rejection_lowers_the_divisor_of_the_next_and_the_first_failure_stops_it() -> None:
    assert levels(0.001, 0.01, 0.04) == [3, 2, 1]
    assert levels(0.04, 0.001, 0.01) == [1, 3, 2]
    assert levels(0.001, 0.03, 0.04) == [3, 2, 2]
    assert levels(0.02, 0.9, 0.8) == [3, 3, 3]
    assert levels(0.9) == [1]


def rejected_by_holm(p_values: np.ndarray, alpha: float = 0.05) -> set[int]:
    """The textbook procedure, one by one."""
    rejected: set[int] = set()
    for place, index in enumerate(np.argsort(p_values)):
        if p_values[index] > alpha / (len(p_values) - place):
            break
        rejected.add(int(index))
    return rejected


def test_an_interval_excludes_the_margin_if_and_only_if_holm_rejects() -> None:
    generator = np.random.default_rng(0)
    for _ in range(500):
        p_values = generator.uniform(0, 0.08, 4)
        excludes = {index for index, level in enumerate(holm_confidences(p_values)) if p_values[index] <= 1 - level}
        assert excludes == rejected_by_holm(p_values)


def test_many_experiments_at_once_are_as_one_by_one() -> None:
    p_values = np.random.default_rng(1).uniform(0, 0.1, (50, 3))
    together = holm_confidences(p_values)
    assert all(together[index] == pytest.approx(holm_confidences(one)) for index, one in enumerate(p_values))


def test_the_primary_arm_is_uncorrected_and_does_not_count_among_the_others() -> None:
    p_values = np.array([0.9, 0.001, 0.9])
    assert family_confidences(p_values, primary=1) == pytest.approx([0.975, 0.95, 0.975])
    assert family_confidences(p_values, primary=None) == pytest.approx([1 - 0.05 / 2, 1 - 0.05 / 3, 1 - 0.05 / 2])
    assert family_confidences(np.array([0.5]), primary=0) == pytest.approx([0.95])
