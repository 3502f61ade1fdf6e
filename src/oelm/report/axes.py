"""Where a number stands along an axis, in percent of its length: so that drawings stretch with the page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high`."""

    low: float
    high: float

    def percent(self, value: float) -> float:
        """0 at `low`, 100 at `high`; what lies outside is moved to the end."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        """About so many round numbers on the axis."""
        step = _round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(round(place * step, 12) for place in range(first, last + 1))


def axis_around(values: Iterable[float]) -> Axis:
    """An axis that shows all of these numbers, with some room at both ends."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=1.0), max(finite, default=2.0)
    if low == high:
        low, high = low - (abs(low) or 1) / 10, high + (abs(high) or 1) / 10
    room = 0.06 * (high - low)
    return Axis(low - room, high + room)


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, the first that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
