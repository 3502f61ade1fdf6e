"""Where a number stands along an axis, in percent of its length: so that drawings stretch with the page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high`, evenly or by their logarithms."""

    low: float
    high: float
    logarithmic: bool = False

    def percent(self, value: float) -> float:
        """0 at `low`, 100 at `high`; what lies outside is moved to the end."""
        place, low, high = (self._along(number) for number in (value, self.low, self.high))
        share = (place - low) / (high - low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def shows(self, value: float) -> bool:
        """Whether a number lies on the axis."""
        return self.low <= value <= self.high

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        """About so many round numbers on the axis; on a narrow logarithmic one they are evenly spaced."""
        if self.logarithmic and self.high / self.low >= 30:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            return tuple(10.0**power for power in powers if self.shows(10.0**power))
        step = _round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(round(place * step, 12) for place in range(first, last + 1))

    def _along(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def scale_around(values: Iterable[float], *, logarithmic: bool = False, room: float = 0.06) -> Scale:
    """A scale that shows all of these numbers, with some room at both ends."""
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)]
    low, high = min(finite, default=1.0), max(finite, default=2.0)
    if low == high:
        low, high = (low / 2, high * 2) if logarithmic else (low - (abs(low) or 1) / 10, high + (abs(high) or 1) / 10)
    if logarithmic:
        stretch = (high / low) ** room
        return Scale(low / stretch, high * stretch, True)
    return Scale(low - room * (high - low), high + room * (high - low))


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, the first that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
