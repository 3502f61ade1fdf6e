"""How numbers are written, alike in every rendering."""

import math


def written_count(number: int) -> str:
    """Three digits and a unit: 1,092,352 is `1.09M`."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        # 999,600 rounds to four digits of K, so a unit begins a little below its size.
        if number >= size * 0.9995:
            return f"{_three_digits(number / size)}{unit}"
    return str(number)


def written_perplexity(value: float) -> str:
    """Two decimals while they mean something."""
    if not math.isfinite(value) or value >= 1e6:
        return f"{value:.2g}"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def written_bits(value: float | None) -> str:
    """Bits per byte, or a dash where they are not known."""
    return "-" if value is None else f"{value:.3f}"


def written_ratio(value: float) -> str:
    """A perplexity ratio: three decimals, as margins are given in percent."""
    return f"{value:.3f}" if value < 100 else f"{value:.3g}"


def written_percent(share: float | None) -> str:
    """A share in percent, one decimal; no sign on a zero; a dash where it is not known."""
    return "-" if share is None else f"{round(100 * share, 1) + 0.0:.1f} %"


def written_points(points: float) -> str:
    """A difference of accuracies in hundredths, with its sign."""
    return f"{points:+.2f}"


def written_margin(margin: float) -> str:
    """The margin as the percentage by which perplexity may grow: 1.05 is `5 %`."""
    return f"{100 * (margin - 1):.4g} %"


def written_milliseconds(seconds: float | None) -> str:
    """Three digits of milliseconds, or a dash."""
    return "-" if seconds is None else _three_digits(1000 * seconds)


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
