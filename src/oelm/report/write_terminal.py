"""The report in a terminal: tables, intervals drawn in characters, and sentences, made for 80 columns and wider."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from oelm.report.compose import compose
from oelm.report.content import Experiment, Forest, Lane, Rows, Statement
from oelm.report.groups import Report
from oelm.report.texts import Language, Texts

COLUMNS = ("arm", "trained", "by_seed", "mean", "also", "flops_saved", "step_time")
"""What fits into 80 columns."""
FOREST_WIDTH = 17
LABEL_WIDTH = 22
"""What the narrowest supported terminal, 80 columns, leaves for the name of an arm."""
STYLES = {"better": "bold green", "non-inferior": "green", "inferior": "red", "undecided": "yellow"}


def print_report(report: Report, console: Console, language: Language = Language.ENGLISH) -> None:
    """The short report: verdicts, rows and remarks of every experiment; views only where they hold something."""
    said, say = compose(report, language, ""), Texts(language)
    for statement in (each for section in said.openings for each in section.statements):
        console.print(_statement(statement))
    for experiment in said.experiments:
        if len(said.experiments) > 1:
            console.rule(Text(experiment.title), align="left")
        for part in _experiment(experiment, say):
            console.print(part)
    brief = [line for section in said.sections for line in section.brief]
    for line in (*brief, *said.notes):
        console.print(Text(line))
    for line in said.footnotes:
        console.print(Text(line, style="dim"))


def _experiment(experiment: Experiment, say: Texts) -> Iterable[RenderableType]:
    yield Text(experiment.verdict.plain, style="bold")
    if experiment.about:
        about = experiment.about
        yield from (Text(text, style="dim") for text in (about.title, about.question, about.kind) if text)
    for rows in experiment.rows:
        yield _figures(rows)
        if rows.forest is not None:
            yield _forest(rows.forest, rows.title, say)
        yield from map(_statement, rows.statements)
    brief = [line for section in experiment.views for line in section.brief]
    yield from (Padding(Text(line), (0, 0, 1, 0)) for line in (*experiment.remarks, *brief))


def _empty(title: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), header_style="bold")
    table.title, table.title_justify = Text(title, style="bold"), "left"
    return table


def _figures(rows: Rows) -> Table:
    shown, table = rows.figures.tables[0].only(COLUMNS), _empty(rows.figures.title)
    for column in shown.columns:
        # A number is never broken; its heading may be, between words.
        heading = column.heading.replace(" ", "\n").replace("/", "/\n") if column.is_number else column.heading
        style = {"arm": "cyan", "mean": "bold"}.get(column.id, "")
        is_text = column.id in ("arm", "by_seed")
        table.add_column(
            heading, justify="right" if column.is_number else "left", no_wrap=not is_text, overflow="fold", style=style
        )
    for row in shown.rows:
        table.add_row(
            *(Text(_foldable(cell.text) if cell.is_name else " ".join(cell.parts) or cell.text) for cell in row)
        )
    return table


def _forest(forest: Forest, title: str, say: Texts) -> Table:
    table = _empty(title)
    table.add_column(say("arm"), overflow="fold", style="cyan")
    table.add_column(say("estimate"), justify="right", no_wrap=True, style="bold")
    table.add_column(say("interval"), justify="right", no_wrap=True)
    table.add_column(say("forest_marks"), no_wrap=True)
    table.add_column(say("verdict"), no_wrap=True)
    for group in forest.groups:
        table.add_row(Text(group.heading, style="dim italic"))
        for lane in group.lanes:
            style = STYLES.get(lane.tone, "dim")
            table.add_row(
                Text(_foldable(f"  {lane.label}")),
                Text(lane.estimate),
                Text(lane.interval),
                Text(drawn_interval(lane, forest), style=style),
                Text(lane.verdict, style=style),
            )
        table.add_section()
    return table


def drawn_interval(lane: Lane, forest: Forest) -> str:
    """`├──●──┤` on the axis that all arms share, with no difference and the margin marked."""

    def column(place: float) -> int:
        return round(place / 100 * (FOREST_WIDTH - 1))

    cells = [" "] * FOREST_WIDTH
    cells[column(forest.margin)] = "┆"
    cells[column(forest.equal)] = "│"
    if lane.lower is not None and lane.upper is not None:
        start, end = column(lane.lower), column(lane.upper)
        cells[start : end + 1] = "─" * (end + 1 - start)
        cells[start], cells[end] = "├", "┤"
    if lane.middle is not None:
        cells[column(lane.middle)] = "●"
    return "".join(cells)


def _foldable(label: str) -> str:
    """A label too long for its column, broken where a reader would break it."""
    return label if len(label) <= LABEL_WIDTH else label.replace("+", "\n   +")


def _statement(statement: Statement) -> RenderableType:
    text = Text(statement.text)
    text.stylize("cyan", 0, len(statement.arm))
    remarks = [Padding(Text(remark), (0, 0, 0, 2), expand=False) for remark in statement.remarks]
    return Padding(Group(text, *remarks), (0, 0, 1, 0), expand=False)
