import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from oelm.config.measure import ACCURACY, PERPLEXITY, Better, Bilingual, CompareScale, Measure
from oelm.report.contrasts import crossed_contrast, draw, is_not_additive, paired_contrast
from oelm.report.verdicts import (
    Estimates,
    Judgement,
    Question,
    Sample,
    Verdict,
    blocks_of,
    holm_divisors,
    judge,
    judge_all,
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


def levels(*p_values: float) -> list[int]:
    return holm_divisors(np.array(p_values)).tolist()


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
        excludes = {index for index, by in enumerate(holm_divisors(p_values)) if p_values[index] <= 0.05 / by}
        assert excludes == rejected_by_holm(p_values)


def test_many_experiments_at_once_are_as_one_by_one() -> None:
    p_values = np.random.default_rng(1).uniform(0, 0.1, (50, 3))
    together = holm_divisors(p_values)
    assert all((together[index] == holm_divisors(one)).all() for index, one in enumerate(p_values))


SPREAD = np.array([[0.0, 0.0, 0.0], [0.003, -0.003, 0.0], [0.002, 0.001, -0.003], [-0.004, 0.002, 0.002]])


def question(*shifts: float, primary: int | None = None, study: str = "s", **more) -> Question:
    """A control and arms so far above it."""
    losses = np.array(CONTROL) + np.array([0.0, *shifts])[:, None] + SPREAD[: 1 + len(shifts)]
    return Question(Sample(losses), [None, *[0] * len(shifts)], PERPLEXITY, 1.05, primary, study, **more)


def divisors(*questions: Question) -> list[list[float]]:
    found = [[each for each in row if each is not None] for row in judge_all(questions)]
    return [[round(0.05 / (1 - float(each.estimate.confidence)), 6) for each in row] for row in found]


NEAR = math.log(1.05)
"""Never decided."""


def test_the_primary_arm_is_uncorrected_and_does_not_count_among_the_others() -> None:
    assert divisors(question(NEAR, NEAR, NEAR, primary=2)) == [[2, 1, 2]]
    assert divisors(question(NEAR, NEAR, NEAR)) == [[3, 3, 3]]
    assert divisors(question(NEAR, primary=1)) == [[1]]


def test_all_arms_of_a_report_are_one_family() -> None:
    assert divisors(question(NEAR, NEAR), question(NEAR, NEAR, NEAR)) == [[5, 5], [5, 5, 5]]
    two = divisors(question(NEAR, NEAR, primary=1, study="a"), question(NEAR, NEAR, primary=1, study="b"))
    assert two == [[1, 2], [1, 2]], "each study has its own question"


def test_a_primary_arm_on_several_data_sets_is_uncorrected_where_it_is_non_inferior_on_all_of_them() -> None:
    passed = question(0.0, NEAR, primary=1)
    assert divisors(passed, passed) == [[1, 2], [1, 2]]
    assert divisors(passed, question(NEAR, NEAR, primary=1)) == [[4, 3], [3, 3]], "else it is one of the family"
    assert divisors(passed, replace(passed, absent=1))[0][0] > 1, "all of them: also those that are missing"


def test_planned_arms_without_a_result_count_and_the_one_that_must_fail_does_not() -> None:
    assert divisors(question(NEAR, NEAR, absent=3)) == [[5, 5]]
    assert divisors(question(NEAR, NEAR, 1.0, negatives=(3,))) == [[2, 2, 1]]


def test_every_look_has_its_share_of_the_level() -> None:
    assert divisors(question(NEAR, NEAR, NEAR, primary=1, looks=3)) == [[3, 6, 6]]


def test_the_scatter_of_the_arm_that_must_fail_is_not_pooled() -> None:
    runs = np.array([CONTROL, ARM, ARM, ARM])
    blocks = blocks_of(runs, left_out=(2,))
    assert blocks is not None
    assert blocks.arms == (0, 1, 3)


def test_nothing_is_pooled_where_seeds_move_some_arms_more_than_others() -> None:
    seeds = np.array([-1.0, 0.0, 1.0])
    additive = np.array([[1.0], [1.1], [1.2], [1.3], [1.4]]) + 0.01 * seeds
    noise = np.random.default_rng(0).normal(0, 0.001, additive.shape)
    growing = additive + noise + 0.02 * np.arange(5)[:, None] * seeds
    assert not is_not_additive(additive + noise)
    assert is_not_additive(growing)
    found = judge(Sample(growing), [None, 0, 0, 0, 0], PERPLEXITY, 1.05)
    assert {str(each.model) for each in found if each is not None} == {"paired"}


def test_an_interval_of_accuracies_is_at_no_level_narrower_than_that_of_the_seeds_alone() -> None:
    generator = np.random.default_rng(1)
    control = (generator.random((3, 400)) < 0.8).astype(float)
    arm = np.where(generator.random((3, 400)) < 0.05, 1 - control, control)
    contrast = crossed_contrast(arm, control, lambda one, other: one - other, draw(3, 400))
    by_seed = paired_contrast(arm.mean(axis=1) - control.mean(axis=1))
    for confidence in (0.9, 0.95, 0.99, 0.995, 0.999):
        assert contrast.half_width(confidence) >= by_seed.half_width(confidence)
    for truth in (-0.05, 0.01, 0.03):
        p_value = float(contrast.p_value(truth))
        touching = abs(float(contrast.mean) - truth)
        assert float(contrast.half_width(1 - p_value)) == pytest.approx(touching), "interval and test agree"
