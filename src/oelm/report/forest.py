"""An interval drawn in characters: `├──●──┤` on a scale that all arms share, with 1 and the margin marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from oelm.report.statistics import Estimate


@dataclass(frozen=True)
class Axis:
    """Ratios from `low` to `high` over `width` characters."""

    low: float
    high: float
    margin: float
    width: int

    def column(self, ratio: float) -> int:
        """The character in which a ratio falls."""
        share = (min(max(ratio, self.low), self.high) - self.low) / (self.high - self.low)
        return round(share * (self.width - 1))


def shared_axis(estimates: Sequence[Estimate], margin: float, width: int) -> Axis:
    """Shows 1, the margin and all intervals; beyond a ratio of 2 they are cut off, to spare the rest."""
    ends = [end for found in estimates if found.interval for end in (found.interval.lower, found.interval.upper)]
    ratios = [1.0, margin, *ends, *(found.ratio for found in estimates)]
    return Axis(max(min(ratios), 0.5), min(max(ratios), max(2.0, margin)), margin, width)


def drawn_interval(estimate: Estimate | None, axis: Axis) -> str:
    """One line of `axis.width` characters."""
    cells = [" "] * axis.width
    cells[axis.column(axis.margin)] = "┆"
    cells[axis.column(1)] = "│"
    if estimate is not None and estimate.interval is not None:
        start, end = axis.column(estimate.interval.lower), axis.column(estimate.interval.upper)
        cells[start : end + 1] = "─" * (end + 1 - start)
        cells[start], cells[end] = "├", "┤"
    if estimate is not None:
        cells[axis.column(estimate.ratio)] = "●"
    return "".join(cells)
