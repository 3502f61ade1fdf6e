"""Perplexity ratios with their intervals, and the verdict against a margin. Pure functions of numbers.

A ratio is exp(mean of the paired differences of log losses); its interval is that of `blocks.py`, at the level of
`family.py`, in exponentials.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from oelm.base.errors import ConfigError
from oelm.report.blocks import Contrast

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


class IntervalKind(StrEnum):
    """Whose scatter an interval is made from; see `blocks.py`."""

    PAIRED = "paired"
    """That of the arm's own differences."""
    POOLED = "pooled"
    """That of all arms."""


@dataclass(frozen=True)
class Interval:
    """A two-sided interval of a perplexity ratio."""

    lower: float
    upper: float
    resolution: float
    """The smallest margin that could have been shown to be kept, had the arm come out equal to its control:
    the upper end around an estimate of 1. A larger observed ratio would have been measurably worse."""
    confidence: float = CONFIDENCE
    kind: IntervalKind = IntervalKind.PAIRED

    @property
    def is_adjusted(self) -> bool:
        """Whether it is wider than 95 % because several arms were tested."""
        return self.confidence > CONFIDENCE + 1e-9


@dataclass(frozen=True)
class Estimate:
    """Perplexity of an arm as a ratio to its control's. `interval` is None below two paired seeds."""

    ratio: float
    pairs: int
    interval: Interval | None
    beside: Interval | None = None
    """The interval of the other kind, for the reader's eye; the verdict does not use it."""

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


def ratio_interval(contrast: Contrast, confidence: float, kind: IntervalKind) -> Interval:
    """The t-interval of a mean difference of log losses, as a ratio: exp(mean ± half-width)."""
    mean, half_width = float(contrast.mean), float(contrast.half_width(confidence))
    lower, upper = exponential(mean - half_width), exponential(mean + half_width)
    return Interval(lower, upper, exponential(half_width), confidence, kind)


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
