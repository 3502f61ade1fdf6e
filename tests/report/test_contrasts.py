import numpy as np
import pytest

from oelm.config.measure import PERPLEXITY
from oelm.report.contrasts import (
    crossed_contrast,
    draw,
    paired_contrast,
    pooled_contrast,
    residuals,
    variances_differ,
)
from oelm.report.verdicts import Judgement, Model, Sample, judge

SEEDS = np.array([0.0, 0.3, -0.2, 0.1])


def losses(sd: tuple[float, ...], seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, 1, (len(sd), len(SEEDS))) * np.array(sd)[:, None]
    return 2.5 + np.arange(len(sd))[:, None] / 10 + SEEDS + noise


def test_pooled_is_the_least_squares_fit_of_arms_and_seeds() -> None:
    y = losses((0.02,) * 4)
    arms, seeds = y.shape
    design = np.array([[float(a == i) for i in range(arms)] + [float(s == j) for j in range(1, seeds)]
                       for a in range(arms) for s in range(seeds)])  # fmt: skip
    coefficients, rss, rank, _ = np.linalg.lstsq(design, y.ravel(), rcond=None)
    freedom = arms * seeds - rank
    error = np.sqrt(rss[0] / freedom * 2 / seeds)
    contrast = pooled_contrast(y, 2, 0)
    assert float(contrast.mean) == pytest.approx(coefficients[2] - coefficients[0])
    assert float(contrast.freedom) == freedom == (arms - 1) * (seeds - 1)
    assert float(contrast.error) == pytest.approx(error)


def test_seeds_that_shift_all_arms_leave_nothing_behind() -> None:
    assert np.abs(residuals(losses((0.0,) * 3))).max() < 1e-12
    assert np.abs(residuals(losses((0.02,) * 3))).max() > 1e-3


def test_with_two_arms_both_are_the_same() -> None:
    y = losses((0.02, 0.02))
    pooled, paired = pooled_contrast(y, 1, 0), paired_contrast(y[1] - y[0])
    assert (float(pooled.error), float(pooled.freedom)) == pytest.approx((float(paired.error), float(paired.freedom)))
    assert not variances_differ(y, 1, 0)


def judged(y: np.ndarray, arm: int) -> Judgement:
    found = judge(Sample(y), [None, *[0] * (y.shape[-2] - 1)], PERPLEXITY, 1.05, primary=arm)[arm]
    assert found is not None
    return found


def test_a_noisy_arm_is_judged_by_its_own_scatter_and_its_quiet_neighbour_is_not() -> None:
    y = losses((0.01, 0.2, 0.01, 0.01))
    noisy, quiet = judged(y, 1), judged(y, 2)
    assert (str(noisy.model), str(quiet.model)) == (Model.PAIRED, Model.POOLED)
    paired = paired_contrast(y[1] - y[0])
    assert np.log(noisy.estimate.upper) == pytest.approx(float(paired.mean + paired.half_width(0.95)))


def test_a_noisy_control_is_noticed_in_every_comparison() -> None:
    y = losses((0.2, 0.01, 0.01, 0.01))
    assert all(variances_differ(y, arm, 0) for arm in (1, 2, 3))


def test_many_experiments_at_once_are_as_one_by_one() -> None:
    several = np.stack([losses((0.01, 0.05, 0.02), seed) for seed in range(20)])
    together = judged(several, 1)
    for index, one in enumerate(several):
        alone = judged(one, 1)
        assert together.model[index] == str(alone.model)
        assert together.verdict[index] == str(alone.verdict)
        assert together.estimate.lower[index] == pytest.approx(float(alone.estimate.lower))
    assert set(together.model) == {Model.PAIRED, Model.POOLED}


# --- values per example ---------------------------------------------------------------------------------------


def outcomes(seeds: int, examples: int, accuracy: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random((seeds, examples)) < accuracy).astype(float)


def points(arm: np.ndarray, control: np.ndarray) -> np.ndarray:
    return 100 * (arm - control)


def share(arm: np.ndarray, control: np.ndarray) -> np.ndarray:
    return arm / control


def test_draws_are_those_of_a_crossed_bootstrap_and_always_the_same() -> None:
    draws = draw(3, 50, replicates=400)
    assert draws.seeds_RS.shape == (400, 3)
    assert set(draws.examples_RE.sum(axis=1)) == {50}
    assert np.array_equal(draws.examples_RE, draw(3, 50, replicates=400).examples_RE)
    assert draws.examples_RE.var() == pytest.approx(1 - 1 / 50, rel=0.05)  # binomial(50, 1/50)


def test_large_draws_are_made_in_parts() -> None:
    draws = draw(3, 5000, replicates=500)
    assert set(draws.examples_RE.sum(axis=1)) == {5000}
    arm, control = outcomes(3, 5000, 0.8), outcomes(3, 5000, 0.9, seed=1)
    whole = 100 * (draws.examples_RE @ (arm - control).mean(axis=0)) / 5000
    assert crossed_contrast(arm, control, points, draws).lasting == pytest.approx(whole.var())


def test_estimates_are_the_plain_ones() -> None:
    arm, control = outcomes(3, 200, 0.8), outcomes(3, 200, 0.9, seed=1)
    found = [crossed_contrast(arm, control, statistic, draw(3, 200)) for statistic in (points, share)]
    assert float(found[0].mean) == pytest.approx(100 * (arm.mean() - control.mean()))
    assert float(found[1].mean) == pytest.approx(arm.mean() / control.mean())


def test_without_scatter_between_seeds_it_is_the_bootstrap_over_examples() -> None:
    one, other = outcomes(1, 400, 0.8), outcomes(1, 400, 0.85, seed=1)
    found = crossed_contrast(np.repeat(one, 3, axis=0), np.repeat(other, 3, axis=0), points, draw(3, 400))
    differences = 100 * (one[0] - other[0])
    assert float(found.error) == pytest.approx(differences.std() / 20, rel=0.05)
    assert float(found.freedom) == pytest.approx(399, rel=0.1)


def test_where_seeds_decide_it_is_the_paired_t_interval() -> None:
    accuracies = (0.70, 0.80, 0.90)
    arm = np.array([[index < 2000 * accuracy for index in range(2000)] for accuracy in accuracies], float)
    control = np.array([[index < 1600 for index in range(2000)]] * 3, float)
    found = crossed_contrast(arm, control, points, draw(3, 2000))
    assert float(found.freedom) == pytest.approx(2, abs=0.2)
    assert float(found.error) == pytest.approx(10 / 3**0.5, rel=0.1)  # sd 10 points over 3 seeds


def test_equal_arms_have_no_scatter() -> None:
    arm = outcomes(3, 100, 0.8)
    assert float(crossed_contrast(arm, arm, points, draw(3, 100)).half_width(0.95)) == 0
    assert float(crossed_contrast(arm, arm, share, draw(3, 100)).mean) == 1
