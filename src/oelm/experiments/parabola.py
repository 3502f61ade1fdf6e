"""The learning rate between grid values: the vertex of a parabola in log(rate)."""

import math
from collections.abc import Sequence

_DIGITS = 4
"""Significant digits of a refined rate: it is written the same everywhere, and more would be false precision."""


def vertex(rates: Sequence[float], scores: Sequence[float]) -> float | None:
    """Where the parabola through three points (log rate, score) is lowest; None if its curvature is not positive.

    With x = log(rate) relative to the middle one and f the score,
        f(x) = f_1 + b x + c x^2   and the vertex is   x* = -b / 2c.
    """
    left, middle, right = (math.log(rate) for rate in rates)
    a, b = left - middle, right - middle
    low, high = (scores[0] - scores[1]) / a, (scores[2] - scores[1]) / b
    curvature = (high - low) / (b - a)
    if not curvature > 0:
        return None
    slope = low - curvature * a
    return rounded(math.exp(middle - slope / (2 * curvature)))


def rounded(rate: float) -> float:
    """A rate with few digits."""
    return float(f"{rate:.{_DIGITS}g}")
