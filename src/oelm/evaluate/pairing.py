"""Means with intervals over what was asked, and two models paired question by question."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from oelm.base.errors import ConfigError

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_CONFIDENCE = 0.95
_SEVERAL = 2


@dataclass(frozen=True)
class Outcomes:
    """One value for each token or item; `keys` say what was asked, so that only the same is paired."""

    measure: str
    keys: Ids
    values: Floats
    block: int = 1
    """So many in a row are taken as one: neighbouring tokens are alike."""


class Paired(NamedTuple):
    """The mean of one model's values minus another's."""

    difference: float
    lower: float | None
    upper: float | None


def paired(one: Outcomes, other: Outcomes) -> Paired:
    """Value by value; the interval is over blocks."""
    if not np.array_equal(one.keys, other.keys):
        raise ConfigError(
            "the two models were not asked the same: they read the text as other tokens, or other items",
            "compare their bits per byte, which is fair for any tokenizer, or give one file of items for both",
        )
    differences = one.values - other.values
    return Paired(float(differences.mean()), *(interval(differences, one.block) or (None, None)))


def interval(values: Floats, block: int) -> tuple[float, float] | None:
    """95 % of the mean, by t over blocks of so many values in a row.

    The remainder behind the last whole block is in the mean, not in its error. None with fewer than two blocks.
    """
    whole = len(values) // block
    if whole < _SEVERAL:
        return None
    means = values[: whole * block].reshape(whole, block).mean(1)
    half = stats.t.ppf((1 + _CONFIDENCE) / 2, whole - 1) * means.std(ddof=1) / math.sqrt(whole)
    return float(values.mean() - half), float(values.mean() + half)


def share_interval(right: int, count: int) -> tuple[float, float]:
    """95 % of a share by Wilson: also where all or none are right, it does not shrink to a point."""
    z = float(stats.norm.ppf((1 + _CONFIDENCE) / 2))
    share, extra = right / count, z * z / count
    middle = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(share * (1 - share) / count + extra / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)
