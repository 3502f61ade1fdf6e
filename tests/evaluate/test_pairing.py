"""Intervals that cover what they promise, and pairs that take out what both models have in common."""

import numpy as np
import pytest

from oelm.base.errors import ConfigError
from oelm.evaluate.pairing import Outcomes, interval, paired, share_interval


def test_the_interval_covers() -> None:
    """Blocks whose neighbours are alike: 95 of 100 intervals hold the mean; one over single tokens holds far fewer."""
    random = np.random.Generator(np.random.PCG64(1))

    def covered(block: int) -> int:
        found = 0
        for _ in range(200):
            losses = (random.normal(size=40)[:, None] + random.normal(size=(40, 16))).ravel()
            ends = interval(losses, block)
            assert ends is not None
            found += ends[0] < 0 < ends[1]
        return found

    assert 180 <= covered(16) <= 198
    assert covered(1) < 150
    assert interval(np.zeros(20), 16) is None


@pytest.mark.parametrize(("share", "count"), [(0.5, 30), (0.9, 40), (0.99, 200)])
def test_the_interval_of_a_share_covers(share: float, count: int) -> None:
    random = np.random.Generator(np.random.PCG64(2))
    found = [share_interval(int(right), count) for right in random.binomial(count, share, size=400)]
    assert sum(lower <= share <= upper for lower, upper in found) / 400 > 0.92
    lower, upper = share_interval(count, count)
    assert 0 < lower < upper <= 1


def test_two_models_are_paired_value_by_value() -> None:
    """Every block of eight is alike: paired, the scatter of the values themselves is gone."""
    keys, values = np.arange(60), np.random.Generator(np.random.PCG64(3)).normal(size=60)
    one = Outcomes("loss", keys, values, block=8)
    other = Outcomes("loss", keys, values + np.where(keys % 4 == 0, -0.5, 0.1), block=8)
    assert paired(one, other) == pytest.approx((0.05, 0.05, 0.05))
    with pytest.raises(ConfigError, match=r"not asked the same.*bits per byte"):
        paired(one, Outcomes("loss", keys[::-1], values, block=8))
