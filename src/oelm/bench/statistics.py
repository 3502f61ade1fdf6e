"""Ratios of times that were measured in turns: the median, and an interval that assumes no distribution.

A slow moment of the machine hits all contestants of a round alike, so times are compared within rounds. Each round's
ratio lies above the true median with probability 1/2, whatever its distribution. The k-th smallest and k-th largest
of n ratios therefore enclose the median with probability 1 - 2 P(Binomial(n, 1/2) < k): the sign interval.
"""

import math
from collections.abc import Sequence
from statistics import median

from oelm.bench.bench_record import Ratio

CONFIDENCE = 0.95


def ratio_of(times: Sequence[float], reference: Sequence[float]) -> Ratio:
    """The ratio to the reference, paired by round."""
    ratios = sorted(time / other for time, other in zip(times, reference, strict=True))
    rank = interval_rank(len(ratios))
    if rank is None:
        return Ratio(median=median(ratios), low=None, high=None, coverage=None)
    return Ratio(
        median=median(ratios), low=ratios[rank - 1], high=ratios[-rank], coverage=sign_coverage(len(ratios), rank)
    )


def interval_rank(rounds: int) -> int | None:
    """The largest k for which the k-th smallest and k-th largest cover the median with 95 %; None if there is none."""
    fitting = [rank for rank in range(1, rounds // 2 + 1) if sign_coverage(rounds, rank) >= CONFIDENCE]
    return max(fitting, default=None)


def sign_coverage(rounds: int, rank: int) -> float:
    """1 - 2 P(Binomial(n, 1/2) < k)."""
    outside: float = 2 * sum(math.comb(rounds, below) for below in range(rank)) / 2**rounds
    return 1 - outside
