import numpy as np
import pytest

from oelm.report.resampling import draw, resample


def answers(seeds: int, examples: int, accuracy: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((seeds, examples)) < accuracy


def test_draws_are_those_of_a_crossed_bootstrap_and_always_the_same() -> None:
    draws = draw(3, 50, replicates=400)
    assert draws.seeds_RS.shape == (400, 3)
    assert draws.examples_RE.sum(axis=1) == pytest.approx(np.ones(400))
    assert np.array_equal(draws.examples_RE, draw(3, 50, replicates=400).examples_RE)
    counts = draws.examples_RE * 50
    assert counts == pytest.approx(counts.round())
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.05)  # binomial(50, 1/50)


def test_large_draws_are_made_in_parts() -> None:
    assert draw(3, 5000, replicates=500).examples_RE.sum(axis=1) == pytest.approx(np.ones(500))


def test_estimates_are_the_plain_ones() -> None:
    arm, control = answers(3, 200, 0.8), answers(3, 200, 0.9, seed=1)
    found = resample(arm, control, draw(3, 200))
    assert float(found.points.mean) == pytest.approx(100 * (arm.mean() - control.mean()))
    assert float(found.share.mean) == pytest.approx(arm.mean() / control.mean())


def test_without_scatter_between_seeds_it_is_the_bootstrap_over_examples() -> None:
    one, other = answers(1, 400, 0.8), answers(1, 400, 0.85, seed=1)
    found = resample(np.repeat(one, 3, axis=0), np.repeat(other, 3, axis=0), draw(3, 400))
    differences = 100 * (one[0].astype(float) - other[0])
    assert float(found.points.error) == pytest.approx(differences.std() / 20, rel=0.05)
    assert float(found.points.freedom) == pytest.approx(399, rel=0.1)


def test_where_seeds_decide_it_is_the_paired_t_interval() -> None:
    accuracies = (0.70, 0.80, 0.90)
    arm = np.array([[index < 2000 * accuracy for index in range(2000)] for accuracy in accuracies])
    control = np.array([[index < 1600 for index in range(2000)]] * 3)
    found = resample(arm, control, draw(3, 2000))
    assert float(found.points.freedom) == pytest.approx(2, abs=0.2)
    assert float(found.points.error) == pytest.approx(10 / 3**0.5, rel=0.1)  # sd 10 points over 3 seeds


def test_equal_arms_have_no_scatter() -> None:
    arm = answers(3, 100, 0.8)
    found = resample(arm, arm, draw(3, 100))
    assert float(found.points.half_width(0.95)) == 0
    assert float(found.share.mean) == 1
