import numpy as np
import pytest

from oelm.report.family import family_confidences, holm_confidences


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
