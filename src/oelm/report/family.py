"""Several arms in one experiment: who is tested at which level, so that the verdicts together err rarely.

The primary arm was named before the runs and is tested at 5 %, uncorrected. All others are tested by Holm's procedure
on p_i, the p-values of "the ratio is the margin": sorted upwards, the j-th of m is held against 0.05 / (m - j + 1)
until one fails; that one and all after it stay undecided at its level.

**Intervals that agree.** The interval of an arm is shown at the level at which Holm judged it, 1 - 0.05 / k with the
divisor k of its step. By the duality of test and t-interval it excludes the margin if and only if Holm rejects, so the
reader and the verdict see the same thing. The claims about the margin (non-inferior, inferior) then err in at most 5 %
of experiments for the primary arm and in at most 5 % for all secondary arms together, half of each on either side:
wrong *non-inferior* anywhere is at most 2.5 % + 2.5 %. What is read off the same intervals about a ratio of 1 (better,
measurably worse) is not what Holm tests; in simulations it errs as rarely (`tests/report/test_simulations.py`).
"""

import numpy as np

from oelm.report.blocks import Floats

ALPHA = 0.05


def holm_confidences(p_values: Floats, alpha: float = ALPHA) -> Floats:
    """The confidence of each interval, elementwise over experiments: p_values has shape (..., m)."""
    tests = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1, kind="stable")
    ascending = np.take_along_axis(p_values, order, axis=-1)
    divisors = tests - np.arange(tests)
    rejected = np.logical_and.accumulate(ascending <= alpha / divisors, axis=-1)
    steps = np.minimum(
        rejected.sum(axis=-1, keepdims=True), np.arange(tests)
    )  # after the first failure nobody moves on
    confidences = np.empty_like(p_values)
    np.put_along_axis(confidences, order, 1 - alpha / divisors[steps], axis=-1)
    return confidences


def family_confidences(p_values: Floats, primary: int | None, alpha: float = ALPHA) -> Floats:
    """Holm's confidences, with the one at place `primary` left uncorrected; None where no arm was singled out."""
    if primary is None:
        return holm_confidences(p_values, alpha)
    secondary = [place for place in range(p_values.shape[-1]) if place != primary]
    confidences = np.full_like(p_values, 1 - alpha)
    if secondary:
        confidences[..., secondary] = holm_confidences(p_values[..., secondary], alpha)
    return confidences
