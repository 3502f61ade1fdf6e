"""Every arm's interval on one axis: below each other as a forest, and against what each arm saves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from oelm.config.measure import CompareScale, Measure
from oelm.report import numerals
from oelm.report.arms import Arm, weights_saved
from oelm.report.axes import Axis, axis_around
from oelm.report.content import Cell, Dot, DotLabel, Forest, Lane, LaneGroup, Plot, Section, SeedMark, Tick
from oelm.report.findings import Comparison, Finding
from oelm.report.texts import Texts

WIDEST_RATIO = 2.0
"""Ratios beyond this, and shares below its inverse, are drawn at the edge to spare the rest."""
PLOT_SIZE = (1050, 300)
"""Pixels of the picture on a wide page, for which labels are placed; a narrow one has a key instead."""
_APART = 2.2
"""Percent of the width by which dots over one place are moved apart, so that no interval hides another."""
_LINE, _LETTER = 15.0, 7.7
"""Height and mean width of a letter of a label in pixels."""


def forest(comparison: Comparison, colours: Mapping[str, int], say: Texts) -> Forest | None:
    """Every compared arm with its interval and its seeds, the primary arm first; None without any."""
    compared = _compared(comparison)
    if not compared:
        return None
    measure = comparison.measure
    assert measure.scale is not None
    axis = _shared_axis(compared, comparison.criterion, measure)
    controls = dict.fromkeys(found.control.label for found in compared if found.control)
    on = say("on_set", set=comparison.on) if comparison.on else ""
    return Forest(
        title=say(f"measure_estimate.{measure.scale}", measure=say.name(measure)) + on,
        groups=tuple(
            LaneGroup(
                say("against", control=control),
                tuple(
                    _lane(found, axis, colours, say)
                    for found in compared
                    if found.control and found.control.label == control
                ),
            )
            for control in controls
        ),
        ticks=_ticks(axis, measure),
        equal=axis.percent(measure.scale.neutral),
        margin=axis.percent(comparison.criterion),
        caption=say("forest_caption", margin=numerals.on_axis(comparison.criterion, measure)),
        explained_in="verdict" if len(compared) == 1 else "comparisons",
    )


def pairs_of(found: Finding) -> dict[int, numerals.Quantity]:
    """The estimate of each pair, by seed."""
    measure = found.measure
    assert measure.scale is not None
    return {seed: numerals.on_scale(value, measure.scale, measure) for seed, value in found.pairs_by_seed.items()}


def tone_of(found: Finding) -> str:
    """The class of a verdict in `style.css`."""
    return found.verdict.replace(" ", "-")


def _compared(comparison: Comparison) -> list[Finding]:
    found = [each for each in comparison.findings if each.control is not None]
    return sorted(found, key=lambda each: not each.is_primary)


def _ticks(axis: Axis, measure: Measure) -> tuple[Tick, ...]:
    texts = [(tick, numerals.on_axis(tick, measure)) for tick in axis.ticks()]
    return tuple(Tick(axis.percent(tick), f"{text.text}{text.after}") for tick, text in texts)


def _lane(found: Finding, axis: Axis, colours: Mapping[str, int], say: Texts) -> Lane:
    def place(value: float | None) -> float | None:
        return None if value is None else axis.percent(value)

    estimate, count = found.estimate, len(found.confounds)
    return Lane(
        label=found.arm.label,
        colour=colours[found.arm.label],
        is_primary=found.is_primary,
        tone=tone_of(found),
        verdict=say(f"verdict.{found.verdict}"),
        estimate=numerals.estimated(found.estimate, found.measure),
        interval=numerals.interval(estimate, found.measure),
        confounds=say("confound_count", count=count) if count else "",
        middle=place(estimate.value) if estimate else None,
        lower=place(estimate.lower) if estimate else None,
        upper=place(estimate.upper) if estimate else None,
        seeds=tuple(
            SeedMark(seed, text.text, place(found.pairs_by_seed[seed])) for seed, text in pairs_of(found).items()
        ),
        other_text=say("other_text_by", by=numerals.text_scatter(found.text)) if found.text else "",
    )


def _shared_axis(findings: Sequence[Finding], criterion: float, measure: Measure) -> Axis:
    assert measure.scale is not None
    estimates = [found.estimate for found in findings if found.estimate]
    ends = [end for each in estimates for end in (each.value, each.lower, each.upper) if end is not None]
    values = [measure.scale.neutral, criterion, *ends, *(v for each in findings for v in each.pairs_by_seed.values())]
    if measure.scale is CompareScale.DIFFERENCE:
        return axis_around(values)
    widest = max(WIDEST_RATIO, criterion)
    return axis_around(min(max(value, 1 / WIDEST_RATIO), widest) for value in values)


# --- against what is saved -----------------------------------------------------------------------------------------


def price(comparison: Comparison, colours: Mapping[str, int], say: Texts) -> Section | None:
    """The same estimates against arithmetic and trained weights saved; None where there are not two, or nothing is."""
    findings = [found for found in _compared(comparison) if found.estimate is not None]
    savings: tuple[tuple[str, Callable[[Arm, Arm], float | None]], ...] = (
        ("arithmetic_saved", lambda arm, _: arm.flops_saved_share),
        ("weights_saved", weights_saved),
    )
    plots = [
        _plot(comparison, shares, say(name), colours, say)
        for name, saved in savings
        if len(shares := _shares(findings, saved)) > 1 and max(shares.values()) > 0
    ]
    if not plots:
        return None
    lead = say("price.lead" if comparison.measure.sign > 0 else "price.lead_higher")
    names = tuple(Cell(found.arm.label, is_name=True, colour=colours[found.arm.label]) for found in findings)
    return Section("price", say("price"), lead, plots=tuple(plots), legend=names)


def _shares(findings: Sequence[Finding], saved: Callable[[Arm, Arm], float | None]) -> dict[str, float]:
    shares = {found.arm.label: saved(found.arm, found.control) for found in findings if found.control is not None}
    return {label: share for label, share in shares.items() if share is not None}


def _plot(
    comparison: Comparison, shares: Mapping[str, float], label: str, colours: Mapping[str, int], say: Texts
) -> Plot:
    measure = comparison.measure
    assert measure.scale is not None
    findings = [found for found in _compared(comparison) if found.arm.label in shares]
    x, y = (
        axis_around((0.0, *(1.15 * share for share in shares.values()))),
        _shared_axis(findings, comparison.criterion, measure),
    )
    dots = []
    for found, across in zip(findings, _moved_apart([x.percent(shares[f.arm.label]) for f in findings]), strict=True):
        assert found.estimate is not None
        ends = found.estimate.ends
        figures = f"{numerals.estimated(found.estimate, measure)} ({numerals.interval(found.estimate, measure)})"
        dots.append(
            Dot(
                across,
                y.percent(found.estimate.value),
                colours[found.arm.label],
                f"{found.arm.label}: {figures}, {label} {numerals.percent(shares[found.arm.label])}",
                ends=(y.percent(ends[0]), y.percent(ends[1])) if ends else None,
            )
        )
    names = [_name(found, y) for found in findings]
    return Plot(
        x_label=label,
        y_label=say(f"measure_estimate.{measure.scale}", measure=say.name(measure)),
        x_ticks=tuple(Tick(x.percent(tick), f"{100 * tick:g} %") for tick in x.ticks()),
        y_ticks=_ticks(y, measure),
        dots=_labelled(dots, names),
        equal=y.percent(measure.scale.neutral),
        margin=y.percent(comparison.criterion),
    )


def _name(found: Finding, axis: Axis) -> str:
    """An arm's label; where its place is beyond the axis, and its dot at the end of it, with the figure."""
    assert found.estimate is not None
    name = f"★ {found.arm.label}" if found.is_primary else found.arm.label
    if axis.low <= found.estimate.value <= axis.high:
        return name
    arrow = "↑" if found.estimate.value > axis.high else "↓"
    return f"{name} {arrow} {numerals.estimated(found.estimate, found.measure)}"


def _moved_apart(places: Sequence[float]) -> list[float]:
    """Places that nearly coincide, side by side around where they belong."""
    moved, clusters = list(places), list[list[int]]()
    for index in sorted(range(len(places)), key=places.__getitem__):
        if clusters and places[index] - places[clusters[-1][-1]] < _APART:
            clusters[-1].append(index)
        else:
            clusters.append([index])
    for cluster in clusters:
        middle, wide = sum(places[index] for index in cluster) / len(cluster), (len(cluster) - 1) * _APART
        start = min(max(middle - wide / 2, _APART), 100 - _APART - wide)
        for rank, index in enumerate(cluster):
            moved[index] = round(start + rank * _APART, 2)
    return moved


_Area = tuple[float, float, float, float]
"""Left, right, top, bottom in pixels."""


def _labelled(dots: Sequence[Dot], names: Sequence[str]) -> tuple[Dot, ...]:
    """Every dot with its name where there is room: right or left of it, or some lines further up or down."""
    taken: list[_Area] = []
    labelled = []
    for dot, name in zip(dots, names, strict=True):
        choices = [DotLabel(name, _LINE * line, side) for side in (False, True) for line in range(-7, 8)]
        bars = [_bar(other) for other in dots if other is not dot]
        best = min(choices, key=lambda label: _cost(dot, label, taken, bars))
        taken.append(_area(dot, best))
        labelled.append(replace(dot, label=best))
    return tuple(labelled)


def _cost(dot: Dot, label: DotLabel, taken: Sequence[_Area], bars: Sequence[_Area]) -> float:
    """How bad a place is: outside the plot, on another label, on another interval, or far from its dot."""
    area, (width, height) = _area(dot, label), PLOT_SIZE
    is_outside = area[0] < 0 or area[1] > width or area[2] < 0 or area[3] > height
    on_labels, on_bars = (sum(_overlap(area, other) for other in others) for others in (taken, bars))
    return 1000 * is_outside + 100 * on_labels + 60 * on_bars + abs(label.down) + 5 * label.is_left


def _area(dot: Dot, label: DotLabel) -> _Area:
    (x, y), wide = _pixels(dot.x, dot.y), len(label.text) * _LETTER
    start, middle = x + (-10 if label.is_left else 10), y + label.down
    left, right = (start - wide, start) if label.is_left else (start, start + wide)
    return left, right, middle - _LINE / 2, middle + _LINE / 2


def _bar(dot: Dot) -> _Area:
    low, high = dot.ends or (dot.y, dot.y)
    (x, bottom), (_, top) = _pixels(dot.x, low), _pixels(dot.x, high)
    return x - 4, x + 4, top - 4, bottom + 4


def _pixels(x: float, y: float) -> tuple[float, float]:
    return x / 100 * PLOT_SIZE[0], (1 - y / 100) * PLOT_SIZE[1]


def _overlap(one: _Area, other: _Area) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
