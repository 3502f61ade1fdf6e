"""Perplexity ratios on seed-paired log losses, and the verdict against a margin. Pure functions of numbers.

The interval is the two-sided paired t-interval of one arm against its control: with
d_s = loss_s(arm) - loss_s(control) over S paired seeds, exp(mean(d) ± t(S-1) sd(d) / sqrt(S)).
It is not corrected for there being several arms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from oelm.base.errors import ConfigError

CONFIDENCE = 0.95
DEFAULT_MARGIN = 1.05
SEEDS_FOR_INTERVAL = 2
SEEDS_FOR_VERDICT = 3


class Verdict(StrEnum):
    """Where the interval of the ratio lies, seen from 1 and from the margin."""

    BETTER = "better"
    """Upper end below 1."""
    NON_INFERIOR = "non-inferior"
    """Upper end at or below the margin."""
    INFERIOR = "inferior"
    """Lower end above the margin."""
    UNDECIDED = "undecided"
    """The margin lies inside the interval."""
    NO_VERDICT = "no verdict"
    """Too few paired seeds to say."""


@dataclass(frozen=True)
class Interval:
    """A two-sided interval of a perplexity ratio."""

    lower: float
    upper: float
    resolution: float
    """The smallest margin that could have been shown to be kept, had the arm come out equal to its control:
    the upper end around an estimate of 1. A larger observed ratio would have been measurably worse."""


@dataclass(frozen=True)
class Estimate:
    """Perplexity of an arm as a ratio to its control's. `interval` is None below two paired seeds."""

    ratio: float
    pairs: int
    interval: Interval | None

    @property
    def measurably_worse(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.interval is not None and self.interval.lower > 1


def exponential(value: float) -> float:
    """exp, and infinity where a float overflows (the loss of a run gone wild)."""
    return math.exp(value) if value < 700 else math.inf


def paired_differences(arm: Mapping[int, float], control: Mapping[int, float]) -> tuple[float, ...]:
    """loss(arm) - loss(control) for each seed that both have, in the order of the seeds."""
    return tuple(arm[seed] - control[seed] for seed in sorted(arm.keys() & control.keys()))


def estimate_ratio(differences: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """The perplexity ratio of paired log-loss differences; None without a pair."""
    pairs = len(differences)
    if pairs == 0:
        return None
    mean = float(np.mean(differences))
    if pairs < SEEDS_FOR_INTERVAL:
        return Estimate(exponential(mean), pairs, None)
    half_width = float(half_widths(np.asarray(differences), confidence))
    interval = Interval(exponential(mean - half_width), exponential(mean + half_width), exponential(half_width))
    return Estimate(exponential(mean), pairs, interval)


def half_widths(differences: NDArray[np.float64], confidence: float = CONFIDENCE) -> NDArray[np.float64]:
    """Half-width of the t-interval of the mean along the last axis: t(S-1) sd / sqrt(S)."""
    from scipy.special import (
        stdtrit,
    )  # here, because scipy takes longer to import than `oelm --help` may take

    pairs = differences.shape[-1]
    quantile = stdtrit(pairs - 1, (1 + confidence) / 2)
    return np.asarray(quantile * differences.std(axis=-1, ddof=1) / math.sqrt(pairs))


def judge(estimate: Estimate | None, margin: float = DEFAULT_MARGIN) -> Verdict:
    """The verdict that the interval allows."""
    if estimate is None or estimate.interval is None or estimate.pairs < SEEDS_FOR_VERDICT:
        return Verdict.NO_VERDICT
    if estimate.interval.upper < 1:
        return Verdict.BETTER
    if estimate.interval.upper <= margin:
        return Verdict.NON_INFERIOR
    if estimate.interval.lower > margin:
        return Verdict.INFERIOR
    return Verdict.UNDECIDED


def check_margin(margin: float) -> None:
    """Refuse a margin that is not a perplexity ratio above 1."""
    if not (math.isfinite(margin) and margin > 1):
        raise ConfigError(
            f"margin {margin:g} is not a perplexity ratio above 1",
            f"give the largest ratio to accept, such as {DEFAULT_MARGIN}",
        )
