"""Another study's figures as sections of the report: every number that it printed."""

from collections.abc import Sequence

from oelm.config.measure import CompareScale
from oelm.report import numerals
from oelm.report.arms import short_float
from oelm.report.content import Cell, Column, Section, Statement, Table
from oelm.report.reported_study import Course, CoursePoint, ReportedRun, ReportedStudy
from oelm.report.texts import Texts


def reported_sections(study: ReportedStudy, say: Texts) -> tuple[Section, ...]:
    """Every table that can be made of what was reported."""
    found = (
        _runs(study, say),
        _times(study, say),
        _courses(study, say),
        _training(study, say),
        _targets(study, say),
        _efficiency(study, say),
        _sources(study, say),
        Section(
            "contradictions",
            say("contradictions"),
            say("contradictions.lead"),
            remarks=tuple(say.of(each) for each in study.contradictions),
        ),
        _wishes(study, say),
    )
    return tuple(section for section in found if section.tables or section.remarks)


def claims_section(study: ReportedStudy, say: Texts) -> Section:
    """The study's own claims, each with what stands in its way."""
    claims = tuple(Statement("", say.of(each.claim), (say.of(each.doubt),)) for each in study.claims)
    return Section("claims", say("claims"), say("claims.lead"), statements=claims)


def _table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], title: str = "", texts: int = 1
) -> Table:
    """The first `texts` columns hold text, all others numbers."""
    headings = tuple(Column(name, heading, place >= texts) for place, (name, heading) in enumerate(columns))
    return Table(headings, tuple(tuple(row) for row in rows), title)


def _named(names: Sequence[str], say: Texts) -> list[tuple[str, str]]:
    return [(name, say(name)) for name in names]


# --- all runs ------------------------------------------------------------------------------------------------------


def _runs(study: ReportedStudy, say: Texts) -> Section:
    """Language models and classifiers in one table."""
    texts = ("their_id", "data", "arm", "their_name")
    numbers = ("learning_rate", "steps", "epochs", "result", "loss", "against_control")
    counts = ("stored_weights", "trained", "frozen")
    rows = [
        (
            Cell(run.id),
            Cell(run.data),
            Cell(run.arm.label, is_name=True),
            Cell(run.model_type or numerals.NOTHING, is_name=run.model_type is not None),
            Cell(short_float(run.lr)),
            Cell(f"{run.steps:,}"),
            Cell(numerals.NOTHING if run.epochs is None else f"{run.epochs:.2f}"),
            Cell(_result(run, say)),
            Cell(numerals.NOTHING if run.loss is None else f"{run.loss:g}"),
            Cell(_relative(run)),
            *(Cell(f"{count:,}") for count in (run.stored, run.trained)),
            Cell(f"{run.frozen:,} ({numerals.percent(run.frozen / run.stored)})" if run.frozen else numerals.NOTHING),
        )
        for run in study.runs
    ]
    table = _table(_named((*texts, *numbers, *counts), say), rows, texts=len(texts))
    lead, brief = say("reported_runs.lead"), (say("reported_in_full"),)
    return Section("reported-runs", say("reported_runs"), lead, tables=(table,), brief=brief)


def _result(run: ReportedRun, say: Texts) -> str:
    if run.value is None:
        return numerals.NOTHING
    return f"{say.name(run.measure)} {run.measure.written(run.value)}"


def _relative(run: ReportedRun) -> str:
    """`+9.8 %` of a perplexity; `98.0 % (-1.84)` of an accuracy, kept and in points."""
    if run.estimate is None:
        return numerals.NOTHING
    if run.estimate.scale is CompareScale.RATIO:
        return f"{100 * (run.estimate.value - 1):+.1f} %"
    points = f" ({run.shown.value:+.2f})" if run.shown else ""
    return f"{100 * run.estimate.value:.1f} %{points}"


def _times(study: ReportedStudy, say: Texts) -> Section:
    names = ("their_id", "wall_time", "step_seconds", "median_step_seconds", "measured_steps", "validation_time")
    rows = [
        (
            Cell(run.id),
            Cell(run.wall_time or numerals.NOTHING),
            *(Cell(_plain(value)) for value in (run.mean_step_seconds, run.median_step_seconds)),
            Cell(numerals.whole(run.measured_steps)),
            Cell(numerals.NOTHING if run.validation_seconds is None else f"{_plain(run.validation_seconds)} s"),
            Cell(numerals.NOTHING if run.converged_epochs is None else f"{run.converged_epochs:.1f}"),
        )
        for run in study.runs
        if run.wall_time is not None
    ]
    table = _table(_named((*names, "converged_epochs"), say), rows)
    return Section("reported-times", say("reported_times"), say("reported_times.lead"), tables=(table,) if rows else ())


def _plain(value: float | None) -> str:
    """All digits that were printed: `16,287.72`, `0.083659`."""
    if value is None:
        return numerals.NOTHING
    return f"{value:,.6f}".rstrip("0").rstrip(".")


# --- how runs went -------------------------------------------------------------------------------------------------


def _courses(study: ReportedStudy, say: Texts) -> Section:
    tables = tuple(_course(course, say) for course in study.courses)
    return Section("reported-courses", say("reported_courses"), say("reported_courses.lead"), tables=tables)


def _course(course: Course, say: Texts) -> Table:
    """For every run: loss, perplexity, and the improvement since the row before; then each against the first."""
    columns = [("step", say("step"))]
    for run in course.ids:
        columns += [(f"{run}.{name}", f"{run}: {say(name)}") for name in ("loss", "perplexity", "improvement")]
    first, *others = course.ids
    columns += [(f"{run}.against", say("loss_against", run=run, other=first)) for run in others]
    rows = []
    for point in course.validation:
        cells = [Cell(f"{point.step:,}" if point.until is None else f"{point.step:,}–{point.until:,}")]
        for run in course.ids:
            loss = _fixed(point.losses.get(run), 4)
            cells += [Cell(loss), Cell(_perplexity(point, run)), Cell(numerals.percent(point.improvements.get(run)))]
        for run in others:
            both = run in point.losses and first in point.losses
            cells.append(Cell(numerals.percent(point.losses[run] / point.losses[first] - 1 if both else None)))
        rows.append(cells)
    return _table(columns, rows, f"{course.data}: {', '.join(course.ids)}", texts=0)


def _training(study: ReportedStudy, say: Texts) -> Section:
    tables = []
    for course in study.courses:
        columns = [("step", say("step")), ("learning_rate", say("learning_rate"))]
        for run in course.ids:
            columns += [(f"{run}.{name}", f"{run}: {say(name)}") for name in ("training_loss", "training_perplexity")]
        rows = [
            [
                Cell(f"{row.step:,}"),
                Cell(f"{row.lr:.2e}"),
                *(
                    Cell(text)
                    for run in course.ids
                    for text in (_fixed(row.losses.get(run), 4), _fixed(row.perplexities.get(run), 2))
                ),
            ]
            for row in course.training
        ]
        if rows:
            tables.append(_table(columns, rows, f"{course.data}: {', '.join(course.ids)}", texts=0))
    lead = say("reported_training.lead")
    return Section("reported-training", say("reported_training"), lead, tables=tuple(tables))


def _fixed(value: float | None, digits: int) -> str:
    return numerals.NOTHING if value is None else f"{value:.{digits}f}"


def _perplexity(point: CoursePoint, run: str) -> str:
    """`4.51`, or `~5.3` where that was printed."""
    if run in point.about:
        return f"~{point.perplexities[run]:.1f}"
    return _fixed(point.perplexities.get(run), 2)


def _targets(study: ReportedStudy, say: Texts) -> Section:
    tables = []
    for course in study.courses:
        columns = [("loss", say("loss"))]
        for run in course.ids:
            columns += [(f"{run}.{name}", f"{run}: {say(name)}") for name in ("steps", "epochs")]
        rows = [
            [
                Cell(f"{row.loss:.1f}"),
                *(
                    Cell(text)
                    for run in course.ids
                    for text in (
                        numerals.whole(row.steps.get(run)),
                        f"{row.epochs[run]:.2f}" if run in row.epochs else numerals.NOTHING,
                    )
                ),
            ]
            for row in course.targets
        ]
        if rows:
            tables.append(_table(columns, rows, f"{course.data}: {', '.join(course.ids)}", texts=0))
    return Section("reported-targets", say("reported_targets"), say("reported_targets.lead"), tables=tuple(tables))


# --- cost and sources ----------------------------------------------------------------------------------------------


def _efficiency(study: ReportedStudy, say: Texts) -> Section:
    rows = [
        (
            Cell(run.id),
            Cell(_result(run, say)),
            Cell(f"{run.per_weight:.2e}"),
            Cell(numerals.NOTHING if run.per_hour is None else f"{run.per_hour:.3f}"),
        )
        for run in study.runs
        if run.per_weight is not None
    ]
    table = _table(_named(("their_id", "result", "per_weight", "per_hour"), say), rows)
    lead = say("reported_efficiency.lead")
    return Section("reported-efficiency", say("reported_efficiency"), lead, tables=(table,) if rows else ())


def _sources(study: ReportedStudy, say: Texts) -> Section:
    rows = [
        (
            Cell(setting.name),
            Cell(", ".join(setting.runs)),
            Cell(setting.value),
            Cell(say(f"source.{setting.source.replace(' ', '_')}")),
        )
        for setting in study.settings
    ]
    table = _table(_named(("setting", "their_id", "value", "source"), say), rows, texts=4)
    return Section("reported-settings", say("reported_settings"), say("reported_settings.lead"), tables=(table,))


def _wishes(study: ReportedStudy, say: Texts) -> Section:
    """What it wanted next, and where that is asked here."""
    remarks = tuple(
        say("wish", what=say.of(each.what), where=", ".join(f"`{place}`" for place in each.where))
        for each in study.wishes
    )
    return Section("wishes", say("wishes"), say("wishes.lead"), remarks=remarks)
