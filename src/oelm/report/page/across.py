"""Sections that concern several experiments: trends, another study's figures, tuning, environment."""

from oelm.report.accuracy import AccuracyFinding
from oelm.report.comparison import Finding
from oelm.report.differences import short_float
from oelm.report.numerals import written_count, written_perplexity
from oelm.report.page.answers import tone
from oelm.report.page.content import Cell, Column, Section, Table
from oelm.report.page.readings import headline_of, reading_of, readings_of
from oelm.report.page.words import Words
from oelm.report.report import Report
from oelm.report.sentences import trend_caveat
from oelm.report.texts import Texts
from oelm.report.tuning import TuningTable


def overview_section(report: Report, texts: Texts, words: Words) -> Section | None:
    """The answer of each experiment in one row, where there are several."""
    if len(report.groups) < 2:
        return None
    columns = (
        Column(words.data),
        Column(words.size),
        Column(words.arm),
        Column(words.estimate, number=True),
        Column(words.interval, number=True),
        Column(words.pairs, number=True),
        Column(words.by_seed),
        Column(words.verdict),
    )
    rows = []
    for place, group in enumerate(report.groups):
        reading = headline_of(readings_of(group))
        if reading is None:
            continue
        source = "" if group.source == "measured" else f" ({words.theirs})"
        rows.append(
            (
                Cell(group.data + source, link=f"verdict-{place}"),
                Cell(group.size),
                Cell(reading.arm.label, name=True),
                Cell(reading.written_value),
                Cell(reading.written_interval),
                Cell(str(reading.pairs)),
                Cell("", parts=tuple(reading.bare(value) for value in reading.by_seed.values())),
                Cell(texts.verdict_names[reading.verdict], tone=tone(reading)),
            )
        )
    return Section("overview", words.overview, tables=(Table(columns, tuple(rows)),))


def trends_section(report: Report, texts: Texts, words: Words) -> Section | None:
    """Each method that was compared on several data sets or sizes."""
    if not report.trends:
        return None
    columns = (
        Column(words.data),
        Column(words.size),
        Column(words.stored_weights, number=True),
        Column(words.trained_tokens, number=True),
        Column(words.estimate, number=True),
        Column(words.interval, number=True),
        Column(words.pairs, number=True),
        Column(words.verdict),
    )
    tables, remarks = [], []
    for trend in report.trends:
        rows = []
        for row in trend.rows:
            reading = reading_of(row.finding)
            rows.append(
                (
                    Cell(row.data),
                    Cell(row.size),
                    Cell(written_count(row.weights)),
                    Cell("–" if row.trained_tokens is None else written_count(row.trained_tokens)),
                    Cell(reading.written_value),
                    Cell(reading.written_interval),
                    Cell(str(reading.pairs)),
                    Cell(texts.verdict_names[reading.verdict], tone=tone(reading)),
                )
            )
        source = "" if trend.source == "measured" else f" ({words.theirs})"
        tables.append(Table(columns, tuple(rows), title=trend.method + source))
        if caveat := trend_caveat(trend, texts):
            remarks.append(f"{trend.method}{source}: {caveat}")
    return Section("trends", words.trends, words.trends_lead, remarks=tuple(remarks), tables=tuple(tables))


def beside_section(report: Report, words: Words) -> Section | None:
    """Ours and theirs for one method on data of one name."""
    if not report.beside:
        return None
    columns = (
        Column(words.arm),
        Column(words.data),
        Column(words.their_id),
        Column(words.ours, number=True),
        Column(words.theirs, number=True),
        Column(f"{words.ours}: {words.estimate}", number=True),
        Column(f"{words.theirs}: {words.estimate}", number=True),
        Column(words.differs),
    )
    rows = tuple(
        (
            Cell(row.ours.arm.label, name=True),
            Cell(row.ours.arm.config.data.name),
            Cell(row.id),
            Cell(_figure(row.ours)),
            Cell(_figure(row.theirs)),
            Cell(reading_of(row.ours).written_value),
            Cell(reading_of(row.theirs).written_value),
            Cell("; ".join(f"{name}: {ours}, {theirs}" for name, ours, theirs in row.differs) or "–"),
        )
        for row in report.beside
    )
    return Section("beside", words.beside, words.beside_lead, tables=(Table(columns, rows),))


def tuning_section(report: Report, words: Words) -> Section | None:
    """The grid of every arm, those with one grid in one table."""
    if not report.tuning:
        return None
    alike: dict[tuple[str, str, int, int, tuple[float, ...]], list[TuningTable]] = {}
    for grid in report.tuning:
        key = (grid.study, grid.data, grid.seed, grid.steps, tuple(row.lr for row in grid.rows))
        alike.setdefault(key, []).append(grid)
    tables = []
    for (_, data, seed, steps, rates), grids in alike.items():
        heading = words.accuracy if grids[0].measure == "accuracy" else words.loss
        columns = (Column(words.arm), *(Column(short_float(rate), number=True) for rate in rates))
        rows = tuple((Cell(grid.method, name=True), *_tuning_cells(grid, words)) for grid in grids)
        title = words.tuning_title.format(data=data, measure=heading, seed=seed, steps=f"{steps:,}")
        tables.append(Table(columns, rows, title=title))
    remarks = tuple(remark for grid in report.tuning for remark in _tuning_remarks(grid, words))
    return Section("tuning", words.tuning, words.tuning_lead, remarks=remarks, tables=tuple(tables))


def _tuning_remarks(grid: TuningTable, words: Words) -> list[str]:
    remarks = [words.at_edge.format(arm=grid.method)] if grid.at_edge else []
    if grid.vertex is not None:
        remarks.append(words.vertex.format(arm=grid.method, rate=short_float(grid.vertex)))
    if grid.unlike_records:
        rates = ", ".join(short_float(rate) for rate in grid.unlike_records)
        remarks.append(words.unlike_records.format(arm=grid.method, rates=rates))
    return remarks


def environment_section(report: Report, words: Words) -> Section | None:
    """What the runs were computed with."""
    if not report.environment:
        return None
    columns = (
        Column(words.runs, number=True),
        Column("oelm"),
        Column("Python"),
        Column("PyTorch"),
        Column(words.device),
        Column(words.threads, number=True),
        Column(words.commit),
    )
    rows = tuple(
        (
            Cell(str(row.runs)),
            Cell(row.oelm),
            Cell(row.python),
            Cell(row.torch),
            Cell(row.device),
            Cell(str(row.threads)),
            Cell(_commit(row.git_commit, row.git_dirty, words)),
        )
        for row in report.environment
    )
    return Section("environment", words.environment, tables=(Table(columns, rows),))


def _figure(found: Finding | AccuracyFinding) -> str:
    if isinstance(found, AccuracyFinding):
        return f"{100 * found.mean:.2f} %"
    return written_perplexity(found.arm.mean_perplexity) if found.arm.losses else "–"


def _tuning_cells(grid: TuningTable, words: Words) -> tuple[Cell, ...]:
    cells = []
    for row in grid.rows:
        value = row.accuracy if grid.measure == "accuracy" else row.loss
        if value is None:
            text = words.not_finished
        else:
            text = f"{100 * value:.2f}" if grid.measure == "accuracy" else f"{value:.4f}"
        cells.append(Cell(f"✓ {text}" if row.is_chosen else text, tone="better" if row.is_chosen else ""))
    return tuple(cells)


def _commit(commit: str | None, dirty: bool | None, words: Words) -> str:
    if commit is None:
        return "–"
    return words.with_changes.format(commit=commit[:12]) if dirty else commit[:12]
