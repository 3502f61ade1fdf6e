"""The content of the page as Markdown: the same sentences and tables, without drawings."""

from collections.abc import Iterable, Iterator

from oelm.report.page.content import Cell, Content, Experiment, Forest, Section, Table
from oelm.report.page.words import Words

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\|*_<[#"})


def as_markdown(content: Content, words: Words) -> str:
    """One language of the page."""
    return "\n\n".join(part for part in _parts(content, words) if part) + "\n"


def _parts(content: Content, words: Words) -> Iterator[str]:
    yield f"# {_escaped(content.title)}"
    yield _escaped(content.facts)
    if content.overview:
        yield from _section(content.overview)
    for experiment in content.experiments:
        yield from _experiment(experiment, words)
    for section in content.sections:
        yield from _section(section)
    yield "---"
    yield _listed(content.footnotes)


def _experiment(experiment: Experiment, words: Words) -> Iterator[str]:
    verdict = experiment.verdict
    yield f"## {_escaped(experiment.title)}" if experiment.title else ""
    yield f"**{_escaped(verdict.sentence)}**"
    if verdict.beside:
        yield _escaped(verdict.beside_heading)
        yield _listed(verdict.beside)
    if experiment.forest:
        yield from _forest(experiment.forest, words)
    for section in (*experiment.before, *experiment.after):
        yield from _section(section)


def _forest(forest: Forest, words: Words) -> Iterator[str]:
    headings = (words.arm, forest.title, words.interval, words.by_seed, words.verdict)
    for group in forest.groups:
        yield _escaped(group.heading)
        rows = [
            (_code(lane.label), lane.estimate, lane.interval, " ".join(mark.text for mark in lane.seeds), lane.verdict)
            for lane in group.lanes
        ]
        yield _rows(headings, rows)


def _section(section: Section) -> Iterator[str]:
    yield f"## {_escaped(section.title)}"
    yield _escaped(section.lead)
    for table in section.tables:
        yield f"### {_escaped(table.title)}" if table.title else ""
        yield _table(table)
    yield _listed(" ".join((statement.text, *statement.remarks)) for statement in section.statements)
    yield _listed(section.remarks)
    if section.commands:
        yield "\n".join(("```bash", *section.commands, "```"))


def _table(table: Table) -> str:
    return _rows((column.heading for column in table.columns), (map(_cell, row) for row in table.rows))


def _cell(cell: Cell) -> str:
    if cell.name:
        return _code(cell.text)
    return _escaped(" ".join(cell.parts) or cell.text)


def _rows(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(headings)
    lines = [titles, tuple("---" for _ in titles), *map(tuple, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _code(name: str) -> str:
    """A name as code; what would end the code or the cell is taken out of it."""
    return f"`{name.replace('`', chr(39)).replace('|', '¦')}`"


def _escaped(text: str) -> str:
    """Text that Markdown takes as it is; commands between backticks stay code."""
    pieces = text.split("`")
    return "`".join(piece if place % 2 else piece.translate(_SPECIAL) for place, piece in enumerate(pieces))
