"""From a report to its content in one language: the verdict, the rows and the remarks of every experiment."""

from collections.abc import Mapping, Sequence

from oelm.config.measure import BITS_PER_BYTE, Measure
from oelm.report import numerals
from oelm.report.arms import Arm, short_float
from oelm.report.attention_drawing import drawing
from oelm.report.content import (
    About,
    Answer,
    Cell,
    Content,
    Experiment,
    Rows,
    Section,
    SeedMark,
    Statement,
    Table,
)
from oelm.report.findings import Comparison, Finding
from oelm.report.groups import Group, Report
from oelm.report.intervals import forest, pairs_of, price, tone_of
from oelm.report.record_files import Registration
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
    plain_sentence,
)
from oelm.report.texts import Language, Texts

COLOURS = 12
"""In `style.css`; the first is the control's."""


def compose(report: Report, language: Language, command: str) -> Content:
    """All that the report says in one language; `command` is the one that writes it, for the reader to repeat."""
    say = Texts(language)
    return Content(
        title=_title(report),
        facts=_facts(report, say),
        openings=_openings(report, say),
        experiments=tuple(_experiment(report, place, say) for place in range(len(report.groups))),
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


def _openings(report: Report, say: Texts) -> tuple[Section, ...]:
    """What another study claims, where only that is shown; then one line per experiment, where there are several."""
    overview = (_overview(report, say),) if len(report.groups) > 1 else ()
    if report.reported_study is None or any(group.source == "measured" for group in report.groups):
        return overview
    from oelm.report.reported_sections import claims_section

    return claims_section(report.reported_study, say), *overview


def _overview(report: Report, say: Texts) -> Section:
    """The answer of each experiment in one row; figures of one seed have neither interval nor verdict."""
    rows = [
        {
            "data": Cell(
                group.data + ("" if group.source == "measured" else f" ({say('theirs')})"), link=f"verdict-{place}"
            ),
            "size": Cell(group.size),
            "arm": Cell(found.arm.label, is_name=True),
            "by_seed": Cell("", parts=tuple(each.text for each in pairs_of(found).values())),
            "result": Cell(f"{say.name(found.measure)} {numerals.bare(found.mean, found.measure)}"),
            **compared_cells(found, say),
        }
        for place, group in enumerate(report.groups)
        if (found := group.headline) is not None
    ]
    table = table_of(rows, say, COMPARED_NUMBERS)
    if all(group.source == "reported" for group in report.groups):
        table = table.only(("data", "size", "arm", "result", "estimate"))
    return Section("overview", say("overview"), tables=(table,))


def _experiment(report: Report, place: int, say: Texts) -> Experiment:
    group, is_one_of_many = report.groups[place], len(report.groups) > 1
    colours = colours_of(group.arms)
    is_first = all(other.study != group.study for other in report.groups[:place])
    rows = tuple(_rows(each, group, index, colours, say) for index, each in enumerate(group.comparisons))
    remarks = group_remarks(group, say)
    statements = tuple(statement for each in rows for statement in each.statements)
    says_more = len(statements) > 1 or remarks  # else the one there is opens the page
    return Experiment(
        anchor=str(place),
        title=group_title(group, say) if is_one_of_many or group.source == "reported" else "",
        about=_about(report, group, say) if is_first else None,
        verdict=_answer(group, say),
        price=price(group.comparisons[0], colours, say) if group.comparisons else None,
        drawings=tuple(drawing(arm, colours[arm.label], say) for arm in _headline_first(group)),
        rows=rows,
        remarks=remarks,
        comparisons=Section("comparisons", say("comparisons"), say("comparisons.lead"), statements, remarks)
        if says_more
        else None,
        legend=tuple(Cell(arm.label, is_name=True, colour=colours[arm.label]) for arm in group.arms)
        if any(record.curve for arm in group.arms for record in arm.records)
        else (),
        curve_choices=_curve_choices(group, say),
        answered=_answered(group, colours, say),
        views=experiment_sections(group, colours, say),
    )


def _about(report: Report, group: Group, say: Texts) -> About:
    """The study's own words where there are any; whether it was registered in any case."""
    text = next((each for each in report.studies if each.study == group.study), None)
    found = [each for each in report.registrations if each.study == group.study]
    kind = say(f"kind.{'reported' if group.source == 'reported' else _registered(found)}")
    if text is None:
        return About("", "", kind)
    return About(text.title, text.question or "", f"{text.kind} · {kind}" if text.kind else kind)


def _registered(found: Sequence[Registration]) -> str:
    """Whether what a study judges was fixed before its runs, as far as the files that are here show it."""
    planned = [each for each in found if each.plan]
    if not planned:
        return "exploratory"
    if any(each.missing is None for each in planned):
        return "plan_not_here"
    return "registered_late" if any(each.plan and each.plan.runs_before for each in planned) else "registered"


def _answered(group: Group, colours: Mapping[str, int], say: Texts) -> tuple[Section, ...]:
    """Loaded only where models were asked anything: most are not."""
    if not (group.samples or group.heads or group.text_differences):
        return ()
    from oelm.report.answered_sections import answered_sections

    return answered_sections(group, colours, say)


def _headline_first(group: Group) -> list[Arm]:
    """All arms, for a drawing each."""
    first = group.headline.arm if group.headline else None
    return sorted(group.arms, key=lambda arm: arm is not first)


def _answer(group: Group, say: Texts) -> Answer:
    found = group.headline
    if found is None:
        lone = [
            finding_sentence(each, comparison.criterion, say)
            for comparison in group.comparisons
            for each in comparison.findings
            if not each.arm.is_reference
        ]
        alone = lone[0] if lone else say("nothing_compared")
        return Answer(alone, alone, "no-verdict", (), (), ())
    measure, scale = found.measure, found.measure.scale
    comparison = next(each for each in group.comparisons if found in each.findings)
    remarks = finding_remarks(found, say)
    return Answer(
        plain=plain_sentence(found, comparison.criterion, say),
        sentence=finding_sentence(found, comparison.criterion, say),
        tone=tone_of(found),
        figures=(
            (
                say(f"measure_estimate.{scale}", measure=say.name(measure)),
                numerals.estimated(found.estimate, found.measure),
            ),
            (say("interval"), numerals.interval(found.estimate, measure)),
            *([(say("other_text"), numerals.text_scatter(found.text))] if found.text else []),
            (say("pairs"), str(found.pairs)),
            (say(f"limit.{scale}"), str(numerals.on_axis(comparison.criterion, measure))),
        ),
        seeds=tuple(SeedMark(seed, str(text)) for seed, text in pairs_of(found).items()),
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
    controls = [found.control.label for found in comparison.findings if found.control is not None]
    return Rows(
        title=say(f"title.{measure.scale}", measure=f"{name}{on}", criterion=criterion),
        figures=Section(f"measured-{place}" if place else "measured", *titles, tables=(figures,)),
        forest=forest(comparison, colours, say),
        statements=tuple(
            Statement(found.arm.label, finding_sentence(found, comparison.criterion, say), finding_remarks(found, say))
            for found in comparison.findings
            if not found.arm.is_reference and (found.control is not None or found.arm.label not in controls)
        ),
    )


def _figures(comparison: Comparison, group: Group, colours: Mapping[str, int], say: Texts) -> Table:
    """Every column that any writer shows."""
    measure = comparison.measure
    declared = {each.name: each for arm in group.arms for record in arm.records for each in record.declared}
    also = [each for name, each in declared.items() if any(name in found.also for found in comparison.findings)]
    rows = [_figure_cells(found, also, colours, say) for found in comparison.findings]
    if len({found.control.label for found in comparison.findings if found.control}) < 2:  # one for all needs no column
        rows = [{name: cell for name, cell in row.items() if name != "control"} for row in rows]
    headings = {
        "by_seed": say("measure_by_seed", measure=say.name(measure), unit=say.unit(measure)),
        "shown": say("points_to_control" if measure.percent else "to_control"),
        "estimate": say(f"estimate.{measure.scale}"),
        **{f"also.{each.name}": say.name(each) + say.unit(each) for each in also},
    }
    texts = ("arm", "by_seed", "control", "verdict")
    return table_of(rows, say, [name for name in rows[0] if name not in texts], headings)


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
        "control": Cell(found.control.label if found.control else "", is_name=found.control is not None),
        "shown": Cell(shown if found.shown else ""),
        "estimate": Cell(numerals.estimated(found.estimate, measure) if has_estimate else ""),
        "interval": Cell(numerals.interval(found.estimate, measure) if has_estimate else ""),
        "other_text": Cell(numerals.text_scatter(found.text)),
        "verdict": Cell(say(f"verdict.{found.verdict}"), tone=tone_of(found)) if found.control else Cell(""),
        "flops_saved": Cell(numerals.percent(arm.flops_saved_share)),
        "step_time": Cell(numerals.milliseconds(arm.step_seconds)),
    }
