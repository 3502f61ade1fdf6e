"""The vertex is where the parabola says, on any spacing; without a minimum there is none."""

import math

import pytest

from oelm.experiments.parabola import vertex


@pytest.mark.parametrize("rates", [(1e-3, 2e-3, 4e-3), (1e-4, 5e-4, 1e-3)])
@pytest.mark.parametrize("lowest", [3e-4, 7e-4, 2e-3])
def test_the_vertex_of_a_true_parabola_is_found(rates: tuple[float, ...], lowest: float) -> None:
    scores = [3 + 0.7 * math.log(rate / lowest) ** 2 for rate in rates]
    assert vertex(rates, scores) == pytest.approx(lowest, rel=1e-3)


def test_a_score_in_the_rate_itself_has_another_vertex() -> None:
    """The twin: a parabola in the rate, not in its logarithm, is not met."""
    rates = (1e-3, 2e-3, 4e-3)
    assert vertex(rates, [(rate / 2.4e-3 - 1) ** 2 for rate in rates]) != pytest.approx(2.4e-3, rel=1e-2)


@pytest.mark.parametrize("scores", [(1.0, 1.0, 1.0), (3.0, 2.0, 1.0), (1.0, 2.0, 1.0)])
def test_without_a_minimum_there_is_none(scores: tuple[float, ...]) -> None:
    assert vertex((1e-3, 2e-3, 4e-3), scores) is None
