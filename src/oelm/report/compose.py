"""From a report to its content in one language: the verdict, the rows and the remarks of every experiment."""

from collections.abc import Mapping, Sequence

from oelm.config.measure import BITS_PER_BYTE, CompareScale, Measure
from oelm.report import numerals
from oelm.report.arms import Arm, short_float
from oelm.report.axes import Axis, axis_around
from oelm.report.content import (
    Answer,
    Cell,
    Content,
    Experiment,
    Forest,
    Lane,
    LaneGroup,
    Rows,
    Section,
    SeedMark,
    Statement,
    Table,
    Tick,
)
from oelm.report.findings import Comparison, Finding
from oelm.report.groups import Group, Report
from oelm.report.sections import (
    COMPARED_NUMBERS,
    compared_cells,
    experiment_sections,
    report_sections,
    table_of,
)
from oelm.report.sentences import (
    finding_remarks,
    finding_sentence,
    footnotes,
    group_remarks,
    group_title,
    notes,
)
from oelm.report.texts import Language, Texts

COLOURS = 12
"""In `style.css`; the first is the control's."""
WIDEST_RATIO = 2.0
"""Ratios beyond this, and shares below its inverse, are drawn at the edge to spare the rest."""


def compose(report: Report, language: Language, command: str) -> Content:
    """All that the report says in one language; `command` is the one that writes it, for the reader to repeat."""
    say = Texts(language)
    return Content(
        title=_title(report),
        facts=_facts(report, say),
        overview=_overview(report, say) if len(report.groups) > 1 else None,
        experiments=tuple(
            _experiment(group, str(place), len(report.groups) > 1, say) for place, group in enumerate(report.groups)
        ),
        sections=report_sections(report, command, say),
        notes=notes(report, say),
        footnotes=footnotes(report, say),
    )


def colours_of(arms: Sequence[Arm]) -> dict[str, int]:
    """By label, in the order of the arms: the control's is grey, the others take turns."""
    others = [arm.label for arm in arms if not arm.is_reference]
    coloured = {label: 1 + place % (COLOURS - 1) for place, label in enumerate(others)}
    return {arm.label: coloured.get(arm.label, 0) for arm in arms}


def _title(report: Report) -> str:
    """Our studies by name, or else their data; those of others only where there is none of ours."""
    groups = [group for group in report.groups if group.source == "measured"] or report.groups
    studies = dict.fromkeys(group.study for group in groups if group.study)
    return ", ".join(studies or dict.fromkeys(f"{group.data} · {group.size}" for group in groups))


def _facts(report: Report, say: Texts) -> str:
    groups = [group for group in report.groups if group.source == "measured"] or report.groups
    arms = [arm for group in groups for arm in group.arms]
    seeds = [str(seed) for seed in sorted({seed for arm in arms for seed in arm.seeds})]
    steps = sorted({arm.config.train.steps for arm in arms})
    return say(
        "facts",
        runs=sum(len(arm.records) for arm in arms),
        arms=len(arms),
        seeds=", ".join(seeds) if len(seeds) <= 6 else f"{seeds[0]}, {seeds[1]}, … {seeds[-1]}",
        steps=" – ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))),
    )


def _overview(report: Report, say: Texts) -> Section:
    """The answer of each experiment in one row."""
    rows = [
        {
            "data": Cell(
                group.data + ("" if group.source == "measured" else f" ({say('theirs')})"), link=f"verdict-{place}"
            ),
            "size": Cell(group.size),
            "arm": Cell(found.arm.label, is_name=True),
            "by_seed": Cell("", parts=tuple(each.text for each in _pairs(found).values())),
            **compared_cells(found, say),
        }
        for place, group in enumerate(report.groups)
        if (found := group.headline) is not None
    ]
    return Section("overview", say("overview"), tables=(table_of(rows, say, COMPARED_NUMBERS),))


def _experiment(group: Group, anchor: str, is_one_of_many: bool, say: Texts) -> Experiment:
    colours = colours_of(group.arms)
    rows = tuple(_rows(comparison, group, place, colours, say) for place, comparison in enumerate(group.comparisons))
    remarks = group_remarks(group, say)
    statements = tuple(statement for each in rows for statement in each.statements)
    says_more = len(statements) > 1 or remarks  # else the one there is opens the page
    return Experiment(
        anchor=anchor,
        title=group_title(group, say) if is_one_of_many or group.source == "reported" else "",
        verdict=_answer(group, say),
        rows=rows,
        remarks=remarks,
        comparisons=Section("comparisons", say("comparisons"), say("comparisons.lead"), statements, remarks)
        if says_more
        else None,
        legend=tuple(Cell(arm.label, is_name=True, colour=colours[arm.label]) for arm in group.arms)
        if any(record.curve for arm in group.arms for record in arm.records)
        else (),
        curve_choices=_curve_choices(group, say),
        views=experiment_sections(group, colours, say),
    )


def _answer(group: Group, say: Texts) -> Answer:
    found = group.headline
    if found is None:
        lone = [
            finding_sentence(each, comparison.criterion, say)
            for comparison in group.comparisons
            for each in comparison.findings
            if not each.arm.is_reference
        ]
        return Answer(lone[0] if lone else say("nothing_compared"), "no-verdict", (), (), ())
    measure, scale = found.measure, found.measure.scale
    comparison = next(each for each in group.comparisons if found in each.findings)
    remarks = finding_remarks(found, say)
    return Answer(
        sentence=finding_sentence(found, comparison.criterion, say),
        tone=_tone(found),
        figures=(
            (
                say(f"measure_estimate.{scale}", measure=say.name(measure)),
                numerals.estimated(found.estimate, found.measure),
            ),
            (say("interval"), numerals.interval(found.estimate, measure)),
            (say("pairs"), str(found.pairs)),
            (say(f"limit.{scale}"), str(numerals.on_axis(comparison.criterion, measure))),
        ),
        seeds=tuple(SeedMark(seed, str(text)) for seed, text in _pairs(found).items()),
        explanations=remarks if found.confounds else (say("no_confounds"), *remarks),
    )


def _curve_choices(group: Group, say: Texts) -> tuple[tuple[str, str], ...]:
    """Curves are losses; where a measure's logarithm is the loss they can also show it, and ratios to the control."""
    choices = [("loss", say("curve.loss"))]
    of_loss = [each.measure for each in group.comparisons if each.measure.logarithm == "loss"]
    if of_loss:
        choices.append(("perplexity", say.name(of_loss[0])))
        if any(arm.record.bytes_per_token for arm in group.arms):
            choices.append(("bits", say.name(BITS_PER_BYTE)))
        choices.append(("ratio", say("curve.ratio")))
    return tuple(choices)


def _rows(comparison: Comparison, group: Group, place: int, colours: Mapping[str, int], say: Texts) -> Rows:
    measure = comparison.measure
    name, on = say.name(measure), say("on_set", set=comparison.on) if comparison.on else ""
    criterion = numerals.criterion(comparison.criterion, measure, say)
    titles = say("measured"), say("measured.lead", measure=name[:1].upper() + name[1:], on=on)
    if group.source == "reported":
        titles = say("reported_figures"), say("note.reported")
    figures = _figures(comparison, group, colours, say)
    return Rows(
        title=say(f"title.{measure.scale}", measure=f"{name}{on}", criterion=criterion),
        figures=Section(f"measured-{place}" if place else "measured", *titles, tables=(figures,)),
        forest=_forest(comparison, colours, say),
        statements=tuple(
            Statement(found.arm.label, finding_sentence(found, comparison.criterion, say), finding_remarks(found, say))
            for found in comparison.findings
            if not found.arm.is_reference
        ),
    )


def _figures(comparison: Comparison, group: Group, colours: Mapping[str, int], say: Texts) -> Table:
    """Every column that any writer shows."""
    measure = comparison.measure
    declared = {each.name: each for arm in group.arms for record in arm.records for each in record.declared}
    also = [each for name, each in declared.items() if any(name in found.also for found in comparison.findings)]
    rows = [_figure_cells(found, also, colours, say) for found in comparison.findings]
    headings = {
        "by_seed": say("measure_by_seed", measure=say.name(measure), unit=say.unit(measure)),
        "shown": say("points_to_control" if measure.percent else "to_control"),
        "estimate": say(f"estimate.{measure.scale}"),
        **{f"also.{each.name}": say.name(each) + say.unit(each) for each in also},
    }
    return table_of(rows, say, [name for name in rows[0] if name not in ("arm", "by_seed", "verdict")], headings)


def _figure_cells(found: Finding, also: Sequence[Measure], colours: Mapping[str, int], say: Texts) -> dict[str, Cell]:
    arm, counts, measure = found.arm, found.arm.record.counts, found.measure
    shown, has_estimate = numerals.estimated(found.shown, measure), found.estimate is not None
    if found.shown is not None and found.shown.ends is not None:
        shown += f" ({numerals.interval(found.shown, measure)})"
    return {
        "arm": Cell(arm.label, is_name=True, colour=colours[arm.label]),
        "learning_rate": Cell(short_float(arm.config.optim.lr)),
        "trained": Cell(numerals.count(arm.ever_trained)),
        "frozen": Cell(numerals.count(counts.frozen - counts.later)),
        "absent": Cell(numerals.count(counts.absent)),
        "by_seed": Cell("", parts=tuple(map(measure.bare, found.by_seed.values()))),
        "mean": Cell(numerals.bare(found.mean, measure)),
        **{f"also.{each.name}": Cell(numerals.bare(found.also.get(each.name), each)) for each in also},
        "best_checkpoint": Cell(numerals.bare(found.best_mean, measure)),
        "shown": Cell(shown if found.shown else ""),
        "estimate": Cell(numerals.estimated(found.estimate, measure) if has_estimate else ""),
        "interval": Cell(numerals.interval(found.estimate, measure) if has_estimate else ""),
        "verdict": Cell(say(f"verdict.{found.verdict}"), tone=_tone(found)) if found.control else Cell(""),
        "flops_saved": Cell(numerals.percent(arm.flops_saved_share)),
        "step_time": Cell(numerals.milliseconds(arm.step_seconds)),
    }


def _forest(comparison: Comparison, colours: Mapping[str, int], say: Texts) -> Forest | None:
    """Every compared arm with its interval and its seeds; None without any."""
    compared = [found for found in comparison.findings if found.control is not None]
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
        ticks=tuple(Tick(axis.percent(tick), _tick(tick, measure)) for tick in axis.ticks()),
        equal=axis.percent(measure.scale.neutral),
        margin=axis.percent(comparison.criterion),
        caption=say("forest_caption", margin=numerals.on_axis(comparison.criterion, measure)),
        explained_in="verdict" if len(compared) == 1 else "comparisons",
    )


def _tick(value: float, measure: Measure) -> str:
    text = numerals.on_axis(value, measure)
    return f"{text.text}{text.after}"


def _lane(found: Finding, axis: Axis, colours: Mapping[str, int], say: Texts) -> Lane:
    def place(value: float | None) -> float | None:
        return None if value is None else axis.percent(value)

    estimate, count = found.estimate, len(found.confounds)
    return Lane(
        label=found.arm.label,
        colour=colours[found.arm.label],
        is_primary=found.is_primary,
        tone=_tone(found),
        verdict=say(f"verdict.{found.verdict}"),
        estimate=numerals.estimated(found.estimate, found.measure),
        interval=numerals.interval(estimate, found.measure),
        confounds=say("confound_count", count=count) if count else "",
        middle=place(estimate.value) if estimate else None,
        lower=place(estimate.lower) if estimate else None,
        upper=place(estimate.upper) if estimate else None,
        seeds=tuple(
            SeedMark(seed, text.text, place(found.pairs_by_seed[seed])) for seed, text in _pairs(found).items()
        ),
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


def _pairs(found: Finding) -> dict[int, numerals.Quantity]:
    """The estimate of each pair, by seed."""
    measure = found.measure
    assert measure.scale is not None
    return {seed: numerals.on_scale(value, measure.scale, measure) for seed, value in found.pairs_by_seed.items()}


def _tone(found: Finding) -> str:
    """The class of a verdict in `style.css`."""
    return found.verdict.replace(" ", "-")
