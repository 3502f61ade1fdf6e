import numpy as np
import pytest

from oelm.report.blocks import chosen_contrast, paired_contrast, pooled_contrast, residuals, variances_differ

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


def test_a_noisy_arm_is_judged_by_its_own_scatter_and_its_quiet_neighbour_is_not() -> None:
    y = losses((0.01, 0.2, 0.01, 0.01))
    noisy, differ = chosen_contrast(y, 1, 0)
    assert differ
    assert float(noisy.error) == pytest.approx(float(paired_contrast(y[1] - y[0]).error))
    quiet, differ = chosen_contrast(y, 2, 0)
    assert not differ
    assert float(quiet.freedom) == 9


def test_a_noisy_control_is_noticed_in_every_comparison() -> None:
    y = losses((0.2, 0.01, 0.01, 0.01))
    assert all(variances_differ(y, arm, 0) for arm in (1, 2, 3))


def test_many_experiments_at_once_are_as_one_by_one() -> None:
    several = np.stack([losses((0.01, 0.05, 0.02), seed) for seed in range(20)])
    together, differ = chosen_contrast(several, 1, 0)
    for index, one in enumerate(several):
        alone, differs = chosen_contrast(one, 1, 0)
        assert differ[index] == differs
        assert together.error[index] == pytest.approx(float(alone.error))
    assert differ.any()
    assert not differ.all()
