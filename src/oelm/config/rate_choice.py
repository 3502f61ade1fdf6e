"""The rule by which a learning rate is chosen from trials: the best, or with `refine` the vertex of a parabola.

Studies choose by it, and a record that says what was tried is held against it.
"""

import math
from collections.abc import Sequence

from oelm.base.errors import CheckpointError
from oelm.config.measure import Measure
from oelm.config.study_role import Choice, ChosenBy, Trial

_DIGITS = 4
"""Significant digits of a refined rate: it is written the same everywhere, and more would be false precision."""


def choose(cell: str, trials: Sequence[Trial], measure: Measure, *, refine: bool) -> Choice:
    """The learning rate that the rule chooses from these trials, which are sorted by rate."""
    best = best_place(trials, measure)
    if trials[best].loss is None:
        raise CheckpointError(f"every learning rate of {cell} diverged", "add smaller ones to tuning.grid")
    at_edge = best in (0, len(trials) - 1)
    rate, by = trials[best].lr, ChosenBy.BEST
    if refine:
        rate, by = (rate, ChosenBy.BEST_AT_EDGE) if at_edge else _refined(trials[best - 1 : best + 2], measure)
    return Choice(cell=cell, lr=rate, at_edge=at_edge, trials=tuple(trials), best=trials[best].lr, by=by)


def _refined(three: Sequence[Trial], measure: Measure) -> tuple[float, ChosenBy]:
    """The best trial between its neighbours."""
    best = three[1].lr
    if any(trial.loss is None for trial in three):
        return best, ChosenBy.BEST_BESIDE_DIVERGED
    found = vertex([trial.lr for trial in three], [trial.badness(measure)[0] for trial in three])
    return (best, ChosenBy.BEST_WITHOUT_CURVATURE) if found is None else (found, ChosenBy.VERTEX)


def best_place(trials: Sequence[Trial], measure: Measure) -> int:
    """The place of the best; where all diverged, the lowest rate."""
    return min(range(len(trials)), key=lambda place: trials[place].badness(measure))


def vertex(rates: Sequence[float], scores: Sequence[float]) -> float | None:
    """Where the parabola through three points (log rate, score) has its minimum; None if it has none.

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
