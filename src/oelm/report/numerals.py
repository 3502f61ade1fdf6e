"""How numbers are written, alike in every format: a text, with its unit beside it and not in it."""

import math
from dataclasses import dataclass

from oelm.config.measure import CompareScale, Measure
from oelm.report.findings import Estimate, TextScatter
from oelm.report.texts import Texts

NOTHING = "–"
"""Where there is no number."""


@dataclass(frozen=True)
class Quantity:
    """A number as text, and what stands before and after it where it stands alone."""

    text: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.text}{self.after}"


def on_scale(value: float, scale: CompareScale, measure: Measure) -> Quantity:
    """An arm relative to its control: `×1.082`, `97.9 %`, `-1.66`."""
    match scale:
        case CompareScale.RATIO:
            return Quantity(f"{value:.3f}" if value < 100 else f"{value:.3g}", before="×")
        case CompareScale.SHARE:
            return Quantity(f"{100 * value:.1f}", after=" %")
        case CompareScale.DIFFERENCE:
            return Quantity(f"{value:+.{measure.decimals}f}")


def bare(value: float | None, measure: Measure) -> str:
    """A value of a measure without its unit; a dash where there is none."""
    return NOTHING if value is None else measure.bare(value)


def estimated(estimate: Estimate | None, measure: Measure) -> str:
    """The estimate with its unit; a dash where there is none."""
    return NOTHING if estimate is None else str(on_scale(estimate.value, estimate.scale, measure))


def interval(estimate: Estimate | None, measure: Measure) -> str:
    """`0.97 – 1.02`, with the unit once; a dash where there is none."""
    if estimate is None or estimate.ends is None:
        return NOTHING
    lower, upper = (on_scale(end, estimate.scale, measure) for end in estimate.ends)
    return f"{lower.text} – {upper.text}{upper.after}"


def text_scatter(found: TextScatter | None) -> str:
    """`±1.2 %`, `±0.034 %`; a dash where it is not known."""
    if found is None:
        return NOTHING
    return f"±{100 * found.share:.2g} %" if found.share < 0.01 else f"±{rough_percent(found.share)}"


def criterion(limit: float, measure: Measure, say: Texts) -> str:
    """As it is said: a ratio of 1.05 is a margin of `5 %`, a share of 0.95 is `95 %`."""
    match measure.scale:
        case CompareScale.RATIO:
            return f"{100 * abs(limit - 1):.4g} %"
        case CompareScale.SHARE:
            return f"{100 * limit:.4g} %"
    return points(f"{abs(limit):g}", measure, say)


def points(size: str, measure: Measure, say: Texts) -> str:
    """A size on the scale of differences, with its unit: `1 point`, `1.8 points`; a measure without % has none."""
    return say("point" if size == "1" else "points", value=size) if measure.percent else size


def on_axis(value: float, measure: Measure) -> Quantity:
    """On an axis, as short as it can be: `1.05`, `95 %`, `-2`."""
    if measure.scale is CompareScale.SHARE:
        return Quantity(f"{100 * value:.4g}", after=" %")
    return Quantity(f"{value:g}", before="×" if measure.scale is CompareScale.RATIO else "")


def count(number: float | None) -> str:
    """Three digits and a unit: 1,092,352 is `1.09M`."""
    if number is None:
        return NOTHING
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        # 999,600 rounds to four digits of K, so a unit begins a little below its size.
        if number >= size * 0.9995:
            return f"{_three_digits(number / size)}{unit}"
    return f"{number:.0f}"


def whole(number: float | None) -> str:
    """All digits before the point."""
    return NOTHING if number is None else f"{number:,.0f}"


def percent(share: float | None) -> str:
    """A share in percent, one decimal; no sign on a zero."""
    return NOTHING if share is None else f"{round(100 * share, 1) + 0.0:.1f} %"


def rough_percent(share: float) -> str:
    """A share in percent for a sentence: `12 %`, `6.4 %`, `5 %`."""
    if not math.isfinite(share):
        return "∞ %"
    shown = 100 * share
    return f"{shown:,.0f} %" if shown >= 9.95 else f"{shown:.1f}".removesuffix(".0") + " %"


def probability(share: float | None) -> str:
    """A probability in percent; nothing that is measured is certain."""
    if share is None or 0.0005 <= share < 0.9995:
        return percent(share)
    return "< 0.1 %" if share < 0.5 else "> 99.9 %"


def milliseconds(seconds: float | None) -> str:
    """Three digits of milliseconds."""
    return NOTHING if seconds is None else _three_digits(1000 * seconds)


def duration(seconds: float) -> str:
    """In the unit that a reader would choose."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def memory(size: int | None) -> str:
    """In binary units."""
    if size is None:
        return NOTHING
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def small(value: float) -> str:
    """Three decimals, or one digit and a power of ten where that would be nothing."""
    if value == 0 or abs(value) >= 1e-3 or not math.isfinite(value):
        return f"{value:.3f}"
    return f"{value:.0e}".replace("e-0", "e-")


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
