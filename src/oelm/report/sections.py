"""The views as sections of the report: tables, plots and their remarks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from oelm.config.record import LayerGeometry, Record
from oelm.report import numerals
from oelm.report.arms import Arm, short_float
from oelm.report.axes import axis_around
from oelm.report.content import Cell, Column, Dot, Plot, Section, Table, Tick
from oelm.report.findings import Finding, mean_of
from oelm.report.groups import Group, Report
from oelm.report.reproduce import commands_of, data_of, prepare_command, token_folders
from oelm.report.sentences import (
    bound_sentences,
    confound_phrase,
    reported_sentence,
    slope_sentence,
    speed_sentences,
    trend_caveat,
)
from oelm.report.study_views import TuningTable
from oelm.report.texts import Texts
from oelm.report.views import GeometryRow

Colours = Mapping[str, int]
COMPARED_NUMBERS = ("estimate", "interval", "pairs")


def experiment_sections(group: Group, colours: Colours, say: Texts) -> tuple[Section, ...]:
    """The views of one experiment in which there is anything."""
    found = (
        _ablation(group, colours, say),
        _resources(group, colours, say),
        _speed(group, colours, say),
        _audit(group, colours, say),
        _geometry(group, colours, say),
    )
    return tuple(section for section in found if section is not None)


def report_sections(report: Report, command: str, say: Texts) -> tuple[Section, ...]:
    """What concerns all experiments."""
    found = (
        _trends(report, say),
        *_other_study(report, say),
        _reported(report, say),
        _tuning(report, say),
        _environment(report, say),
    )
    return (*(section for section in found if section is not None), _reproduce(report, command, say))


def _reproduce(report: Report, command: str, say: Texts) -> Section:
    """Comments between the commands say what they are for."""
    files = {each.study: each.file for each in report.studies if each.file}
    arms = [arm for group in report.groups for arm in group.arms if arm.source == "measured"]
    sources = data_of(files.values())
    data = [
        (prepare_command(sources[name], folder, name) if name in sources else None)
        or f"# {say('reproduce.tokens', folder=folder, digest=digest)}"
        for folder, name, digest in token_folders(arms)
    ]
    parts = {
        "study": ["oelm experiment run study.yaml"] if files else [],
        "data": data,
        "runs": commands_of(arms),
        "page": [command] if command else [],
    }
    lines = [line for part, each in parts.items() if each for line in (f"# {say(f'reproduce.{part}')}", *each)]
    listings = tuple((say("reproduce.file", study=study), file.strip()) for study, file in files.items())
    return Section("reproduce", say("reproduce"), say("reproduce.lead"), commands=tuple(lines), listings=listings)


def _other_study(report: Report, say: Texts) -> tuple[Section, ...]:
    """Loaded only where another study's records are: most reports have none."""
    if report.reported_study is None:
        return ()
    from oelm.report.reported_sections import claims_section, reported_sections

    is_beside_ours = any(group.source == "measured" for group in report.groups)  # else the claims open the page
    claims = (claims_section(report.reported_study, say),) if is_beside_ours else ()
    return *claims, *reported_sections(report.reported_study, say)


def table_of(
    rows: Sequence[Mapping[str, Cell]],
    say: Texts,
    numbers: Sequence[str],
    headings: Mapping[str, str] | None = None,
    title: str = "",
) -> Table:
    """A table from rows by column id; a heading is the text of that id, unless it is given."""
    given = headings or {}
    columns = tuple(Column(name, given.get(name) or say(name), name in numbers) for name in (rows[0] if rows else ()))
    return Table(columns, tuple(tuple(row.values()) for row in rows), title)


def compared_cells(found: Finding, say: Texts) -> dict[str, Cell]:
    """An arm against its control, in a row with others."""
    return {
        "estimate": Cell(numerals.estimated(found.estimate, found.measure)),
        "interval": Cell(numerals.interval(found.estimate, found.measure)),
        "pairs": Cell(str(found.pairs)),
        "verdict": Cell(say(f"verdict.{found.verdict}"), tone=found.verdict.replace(" ", "-")),
    }


def _name(arm: Arm, colours: Colours) -> Cell:
    return Cell(arm.label, is_name=True, colour=colours[arm.label])


def _of_arms(rows: list[dict[str, Cell]], say: Texts) -> tuple[Table, ...]:
    """One table of numbers by arm."""
    return (table_of(rows, say, numbers=[name for name in rows[0] if name not in ("arm", "unchanged", "moved")]),)


# --- one experiment ------------------------------------------------------------------------------------------------


def _ablation(group: Group, colours: Colours, say: Texts) -> Section | None:
    """control -> frozen orthogonal -> frozen random, one change per row."""
    measure = group.comparisons[0].measure if group.comparisons else None
    if measure is None or measure.scale is None or all(step.estimate is None for step in group.ablation):
        return None
    judged = {
        (found.control.label, found.arm.label): found.estimate
        for found in group.comparisons[0].findings
        if found.control is not None
    }
    shown = [(step, judged.get((step.start.label, step.end.label)) or step.estimate) for step in group.ablation]
    rows = [
        {
            "change": Cell(say(f"ablation.{step.change}")),
            "from_arm": _name(step.start, colours),
            "to_arm": _name(step.end, colours),
            "estimate": Cell(numerals.estimated(estimate, measure)),
            "interval": Cell(numerals.interval(estimate, measure)),
            "confounds": Cell("; ".join(confound_phrase(found, say) for found in step.confounds) or numerals.NOTHING),
        }
        for step, estimate in shown
        if estimate is not None
    ]
    heading = {"estimate": say(f"measure_estimate.{measure.scale}", measure=say.name(measure))}
    table = table_of(rows, say, numbers=("estimate", "interval"), headings=heading)
    return Section("ablation", say("ablation"), say("ablation.lead", measure=say.name(measure)), tables=(table,))


def _resources(group: Group, colours: Colours, say: Texts) -> Section | None:
    """What each arm reached, by the first measure, against what it used."""
    axes: tuple[tuple[str, Callable[[Record], float | None], Callable[[float], str]], ...] = (
        ("trained_query_key", lambda run: run.counts.trained_query_key_share, numerals.percent),
        ("training_time", lambda run: run.timing.training_seconds, numerals.duration),
    )
    findings = group.comparisons[0].findings if group.comparisons else ()
    plots = [
        _plot(findings, costs, say(name), written, colours, say)
        for name, used, written in axes
        if len(costs := _costs(findings, used)) > 1
    ]
    if not plots:
        return None
    legend = tuple(_name(arm, colours) for arm in group.arms)
    return Section("resources", say("resources"), say("resources.lead"), plots=tuple(plots), legend=legend)


def _costs(findings: Sequence[Finding], used: Callable[[Record], float | None]) -> dict[str, dict[int, float]]:
    """What every run used, by arm and seed, where it is known."""
    costs = {
        found.arm.label: {
            run.config.seed: cost
            for run in found.arm.records
            if (cost := used(run)) is not None and run.config.seed in found.by_seed
        }
        for found in findings
    }
    return {label: by_seed for label, by_seed in costs.items() if by_seed}


def _plot(
    findings: Sequence[Finding],
    costs: Mapping[str, Mapping[int, float]],
    label: str,
    written: Callable[[float], str],
    colours: Colours,
    say: Texts,
) -> Plot:
    shown = [found for found in findings if found.arm.label in costs]
    measure = shown[0].measure
    x = axis_around(cost for by_seed in costs.values() for cost in by_seed.values())
    y = axis_around(measure.factor * value for found in shown for value in found.by_seed.values())

    def dot(arm: str, which: str, cost: float, value: float, *, is_filled: bool) -> Dot:
        words = f"{arm}, {which}: {measure.written(value)}, {written(cost)}"
        return Dot(x.percent(cost), y.percent(measure.factor * value), colours[arm], words, is_filled)

    def dots(found: Finding) -> Iterator[Dot]:
        used = costs[found.arm.label]
        for seed, cost in used.items():
            yield dot(found.arm.label, say("seed", seed=seed), cost, found.by_seed[seed], is_filled=False)
        mean = mean_of([found.by_seed[seed] for seed in used], measure)
        if mean is not None:
            yield dot(found.arm.label, say("mean"), fmean(used.values()), mean, is_filled=True)

    every = [each for found in shown for each in dots(found)]
    return Plot(
        x_label=label,
        y_label=say.name(measure) + say.unit(measure),
        x_ticks=tuple(Tick(x.percent(tick), written(tick)) for tick in x.ticks(4)),
        y_ticks=tuple(Tick(y.percent(tick), f"{tick:g}") for tick in y.ticks(4)),
        dots=tuple(sorted(every, key=lambda each: each.is_filled)),
    )


def _speed(group: Group, colours: Colours, say: Texts) -> Section | None:
    """Time and memory next to what arithmetic allows."""
    if all(row.flops_saved_share is None and row.step_seconds is None for row in group.costs):
        return None
    rows = [
        {
            "arm": _name(row.arm, colours),
            "flops_bound": Cell(numerals.percent(row.flops_saved_share)),
            "time_saved": Cell(numerals.percent(row.time_saved_share)),
            "step_time": Cell(numerals.milliseconds(row.step_seconds)),
            "tokens_per_second": Cell(
                numerals.NOTHING if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
            ),
            "validation_share": Cell(numerals.percent(row.validation_share)),
            "peak_memory": Cell(numerals.memory(row.peak_bytes)),
            "memory_saved": Cell(numerals.percent(row.memory_saved_share)),
        }
        for row in group.costs
    ]
    return Section(
        "speed",
        say("speed"),
        say("speed.lead"),
        remarks=bound_sentences(group, say),
        tables=_of_arms(rows, say),
        brief=speed_sentences(group, say),
    )


def _audit(group: Group, colours: Colours, say: Texts) -> Section | None:
    """One row per arm that freezes anything."""

    def answer(value: bool | None) -> Cell:
        if value is None:
            return Cell(say("unknown"), tone="no-verdict")
        return Cell(say("yes"), tone="better") if value else Cell(say("no"), tone="inferior")

    rows = [
        {
            "arm": _name(row.arm, colours),
            "frozen": Cell(numerals.count(row.frozen_weights)),
            "frozen_tensors": Cell(numerals.whole(row.frozen_tensors)),
            "later_tensors": Cell(numerals.whole(row.later_tensors)),
            "trained_tensors": Cell(numerals.whole(row.trained_tensors)),
            "unchanged": answer(row.unchanged),
            "moved": answer(row.moved),
        }
        for row in group.audit
    ]
    return Section("audit", say("audit"), say("audit.lead"), tables=_of_arms(rows, say)) if rows else None


def _geometry(group: Group, colours: Colours, say: Texts) -> Section | None:
    """One row per arm, over its layers."""
    fields = [name for name in LayerGeometry.model_fields if name != "layer"]
    by_arm: dict[str, list[GeometryRow]] = {}
    for row in group.geometry:
        by_arm.setdefault(row.arm.label, []).append(row)
    rows = [
        {
            "arm": _name(layers[0].arm, colours),
            "layers": Cell(str(len(layers))),
            **{name: Cell(_range([getattr(layer, name) for layer in layers])) for name in fields},
        }
        for layers in by_arm.values()
    ]
    return Section("geometry", say("geometry"), say("geometry.lead"), tables=_of_arms(rows, say)) if rows else None


def _range(values: Sequence[float]) -> str:
    """One number where all agree in what is shown, else the lowest and the highest."""
    low, high = numerals.small(min(values)), numerals.small(max(values))
    return low if low == high else f"{low} – {high}"


# --- all experiments -----------------------------------------------------------------------------------------------


def _trends(report: Report, say: Texts) -> Section | None:
    """Each method that was compared on several data sets or sizes."""
    if not report.trends:
        return None
    tables, remarks = [], []
    for trend in report.trends:
        title = trend.method + ("" if trend.source == "measured" else f" ({say('theirs')})")
        rows = [
            {
                "data": Cell(row.data),
                "size": Cell(row.size),
                "stored_weights": Cell(numerals.count(row.weights)),
                "trained_tokens": Cell(numerals.count(row.trained_tokens)),
                **compared_cells(row.finding, say),
            }
            for row in trend.rows
        ]
        numbers = ("stored_weights", "trained_tokens", *COMPARED_NUMBERS)
        tables.append(table_of(rows, say, numbers, title=title))
        remarks += [f"{title}: {slope_sentence(slope, trend.measure, say)}" for slope in trend.slopes]
        if caveat := trend_caveat(trend, say):
            remarks.append(f"{title}: {caveat}")
    return Section("trends", say("trends"), say("trends.lead"), remarks=tuple(remarks), tables=tuple(tables))


def _reported(report: Report, say: Texts) -> Section | None:
    """Ours and theirs for one method on data of one name."""
    if not report.reported:
        return None

    def mean(found: Finding) -> Cell:
        return Cell(numerals.NOTHING if found.mean is None else found.measure.written(found.mean))

    rows = [
        {
            "arm": Cell(pair.ours.arm.label, is_name=True),
            "data": Cell(pair.ours.arm.config.data.name),
            "their_id": Cell(pair.id),
            "ours": mean(pair.ours),
            "theirs": mean(pair.theirs),
            "ours_relative": Cell(numerals.estimated(pair.ours.estimate, pair.ours.measure)),
            "theirs_relative": Cell(numerals.estimated(pair.theirs.estimate, pair.theirs.measure)),
            "differs": Cell(
                "; ".join(f"{name}: {ours}, {theirs}" for name, ours, theirs in pair.differs) or numerals.NOTHING
            ),
        }
        for pair in report.reported
    ]
    table = table_of(rows, say, numbers=("ours", "theirs", "ours_relative", "theirs_relative"))
    brief = tuple(reported_sentence(pair, say) for pair in report.reported)
    return Section("reported", say("reported"), say("reported.lead"), tables=(table,), brief=brief)


def _tuning(report: Report, say: Texts) -> Section | None:
    """The grid of every arm, those with one grid in one table."""
    if not report.tuning:
        return None
    alike: dict[tuple[str, str, int, int, tuple[float, ...]], list[TuningTable]] = {}
    for grid in report.tuning:
        key = (grid.study, grid.data, grid.seed, grid.steps, tuple(row.lr for row in grid.rows))
        alike.setdefault(key, []).append(grid)
    tables = []
    for (_, data, seed, steps, rates), grids in alike.items():
        measure = grids[0].measure
        columns = (Column("arm", say("arm")), *(Column(short_float(rate), short_float(rate), True) for rate in rates))
        rows = tuple((Cell(grid.arm, is_name=True), *_tuning_cells(grid, say)) for grid in grids)
        names = {"data": data, "measure": say.name(measure), "unit": say.unit(measure)}
        tables.append(Table(columns, rows, say("tuning_title", **names, seed=seed, steps=f"{steps:,}")))
    remarks = tuple(remark for grid in report.tuning for remark in _tuning_remarks(grid, say))
    return Section("tuning", say("tuning"), say("tuning.lead"), remarks=remarks, tables=tuple(tables))


def _tuning_cells(grid: TuningTable, say: Texts) -> Iterator[Cell]:
    for row in grid.rows:
        text = say("not_finished") if row.value is None else grid.measure.bare(row.value)
        yield Cell(f"✓ {text}", tone="better") if row.is_chosen else Cell(text)


def _tuning_remarks(grid: TuningTable, say: Texts) -> list[str]:
    remarks = [say("at_edge", arm=grid.arm)] if grid.at_edge else []
    if grid.vertex is not None:
        remarks.append(say("vertex", arm=grid.arm, rate=short_float(grid.vertex)))
    if grid.unlike_records:
        rates = ", ".join(short_float(rate) for rate in grid.unlike_records)
        remarks.append(say("unlike_records", arm=grid.arm, rates=rates))
    return remarks


def _environment(report: Report, say: Texts) -> Section | None:
    """What the runs were computed with."""

    def commit(name: str | None, is_dirty: bool | None) -> str:
        if name is None:
            return numerals.NOTHING
        return say("with_changes", commit=name[:12]) if is_dirty else name[:12]

    rows = [
        {
            "runs": Cell(str(row.runs)),
            "oelm": Cell(row.environment.oelm),
            "Python": Cell(row.environment.python),
            "PyTorch": Cell(" ".join(filter(None, (row.environment.torch, row.environment.preloaded)))),
            "device": Cell(row.environment.device),
            "threads": Cell(str(row.environment.threads)),
            "commit": Cell(commit(row.environment.git_commit, row.environment.git_dirty)),
        }
        for row in report.environments
    ]
    if not rows:
        return None
    names = {name: name for name in ("oelm", "Python", "PyTorch")}
    table = table_of(rows, say, numbers=("runs", "threads"), headings=names)
    return Section("environment", say("environment"), tables=(table,))
