"""The report as Markdown: the same sentences and tables, without drawings. Short for a README, or whole."""

from collections.abc import Iterable, Iterator

from oelm.report.compose import compose
from oelm.report.content import Cell, Content, Experiment, Forest, Lane, Section, Statement, Table
from oelm.report.groups import Report
from oelm.report.texts import Language, Texts

SHORT = ("arm", "trained", "by_seed", "mean", "also", "best_checkpoint", "control", "shown",
         "estimate", "interval", "other_text", "verdict", "flops_saved", "step_time")  # fmt: skip
"""The columns of the one table of a short report."""
_FIGURES = ("arm", "learning_rate", "trained", "frozen", "absent", "by_seed", "mean", "best_checkpoint", "shown")
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\|*_<[#"})


def as_markdown(
    report: Report, language: Language = Language.ENGLISH, command: str = "", *, whole: bool = False
) -> str:
    """One language; `whole` adds the views, and `command` is the one that writes it."""
    said, say = compose(report, language, command), Texts(language)
    parts = _whole(said, say) if whole else _short(said)
    return "\n\n".join(part for part in parts if part) + "\n"


def _short(said: Content) -> Iterator[str]:
    yield _listed(_in_one_line(each) for section in said.openings for each in section.statements)
    for experiment in said.experiments:
        yield f"### {_escaped(experiment.title)}" if len(said.experiments) > 1 else ""
        yield _escaped(experiment.verdict.plain)
        for rows in experiment.rows:
            yield f"**{_escaped(rows.title)}**"
            yield _table(rows.figures.tables[0].only(SHORT))
            yield _listed(map(_in_one_line, rows.statements))
        brief = [line for section in experiment.views for line in section.brief]
        yield _listed((*experiment.remarks, *brief))
    yield _listed(line for section in said.sections for line in section.brief)
    yield _listed((*said.notes, *said.footnotes))


def _whole(said: Content, say: Texts) -> Iterator[str]:
    yield f"# {_escaped(said.title)}"
    yield _escaped(said.facts)
    for section in said.openings:
        yield from _section(section)
    for experiment in said.experiments:
        yield from _experiment(experiment, say)
    for section in said.sections:
        yield from _section(section)
    yield "---"
    yield _listed((*said.notes, *said.footnotes))


def _experiment(experiment: Experiment, say: Texts) -> Iterator[str]:
    yield f"## {_escaped(experiment.title)}" if experiment.title else ""
    yield f"**{_escaped(experiment.verdict.plain)}**"
    if experiment.about:
        about = experiment.about
        yield " ".join(f"{_escaped(text)}  \n" for text in (about.title, about.question, about.kind) if text).strip()
    yield _escaped(experiment.verdict.sentence)
    if experiment.verdict.explanations:
        yield _escaped(say("confounds_heading"))
        yield _listed(experiment.verdict.explanations)
    for rows in experiment.rows:
        if rows.forest:
            yield f"## {_escaped(rows.title)}"
            yield from _forest(rows.forest, say)
        yield f"## {_escaped(rows.figures.title)}"
        yield _escaped(rows.figures.lead)
        others = [column.id for column in rows.figures.tables[0].columns if column.id.startswith("also.")]
        yield _table(rows.figures.tables[0].only((*_FIGURES, *others)))
    for section in (*experiment.answered, experiment.comparisons, *experiment.views):
        if section is not None:
            yield from _section(section)


def _forest(forest: Forest, say: Texts) -> Iterator[str]:
    headings = (say("arm"), forest.title, say("interval"), say("by_seed"), say("verdict"))
    for group in forest.groups:
        yield _escaped(group.heading)
        rows = [
            (
                _code(lane.label),
                lane.estimate,
                _interval(lane),
                " ".join(mark.text for mark in lane.seeds),
                lane.verdict,
            )
            for lane in group.lanes
        ]
        yield _rows(headings, rows)


def _interval(lane: Lane) -> str:
    return f"{lane.interval}; {lane.other_text}" if lane.other_text else lane.interval


def _section(section: Section) -> Iterator[str]:
    yield f"## {_escaped(section.title)}"
    yield _escaped(section.lead)
    for beginning in section.texts:
        yield f"*{_escaped(beginning.prompt)}*"
        yield _listed(f"{arm.text}: {' '.join(text.split())}" for arm, text in beginning.texts)
    for found in section.maps:
        yield f"{_escaped(found.title)}: {_code(found.arm.text)}, {_escaped(found.seed)}"
        heads = range(1, len(found.rows[0]) + 1)
        yield _rows(
            ("", *map(str, heads)), ((str(n), *(text for _, text in row)) for n, row in enumerate(found.rows, 1))
        )
    for table in section.tables:
        yield f"### {_escaped(table.title)}" if table.title else ""
        yield _table(table)
    yield _listed(map(_in_one_line, section.statements))
    yield _listed(section.remarks)
    if section.commands:
        yield "\n".join(("```bash", *section.commands, "```"))
    for name, text in section.listings:
        yield _escaped(name)
        yield "\n".join(("```yaml", text.replace("```", ""), "```"))


def _in_one_line(statement: Statement) -> str:
    return " ".join((statement.text, *statement.remarks))


def _table(table: Table) -> str:
    return _rows((column.heading for column in table.columns), (map(_cell, row) for row in table.rows))


def _cell(cell: Cell) -> str:
    if cell.is_name:
        return _code(cell.text)
    return _escaped(", ".join(cell.parts) or cell.text)


def _rows(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(headings)
    lines = [titles, tuple("---" for _ in titles), *map(tuple, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _code(name: str) -> str:
    """A name as code; what would end the code or the cell is taken out of it."""
    return f"`{' '.join(name.split()).replace('`', chr(39)).replace('|', '¦')}`"


def _escaped(text: str) -> str:
    """Text that Markdown takes as it is; commands between backticks stay code."""
    pieces = " ".join(text.splitlines()).split("`")
    if len(pieces) % 2 == 0:  # one that nothing closes
        return "\\`".join(piece.translate(_SPECIAL) for piece in pieces)
    return "`".join(piece if place % 2 else piece.translate(_SPECIAL) for place, piece in enumerate(pieces))
