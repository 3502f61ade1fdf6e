"""One function that writes a comparison in the format asked for."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from oelm.base.errors import ConfigError
from oelm.report import accuracy
from oelm.report.accuracy import AccuracyRow, accuracy_rows
from oelm.report.comparison import Comparison, compare
from oelm.report.markdown import as_markdown
from oelm.report.plain import as_json
from oelm.report.rows import load_records, unfinished_runs
from oelm.report.table import as_table
from oelm.report.texts import ENGLISH, Texts


class OutputFormat(StrEnum):
    """How a comparison is written."""

    TABLE = "table"
    """Colour and boxes, for a terminal."""
    MARKDOWN = "md"
    JSON = "json"


_LEFT_OUT_OF_TERMINALS = ("set", "trained", "frozen", "best ckpt", "FLOPs saved")


def write_comparison(
    comparison: Comparison, console: Console, form: OutputFormat = OutputFormat.TABLE, texts: Texts = ENGLISH
) -> None:
    """Print a comparison. Markdown and JSON are written as they are: not wrapped, not coloured."""
    match form:
        case OutputFormat.TABLE:
            console.print(as_table(comparison, texts))
        case OutputFormat.MARKDOWN:
            _print_raw(console, as_markdown(comparison, texts))
        case OutputFormat.JSON:
            _print_raw(console, json.dumps(as_json(comparison, texts), indent=2, ensure_ascii=False) + "\n")


def compare_and_write(paths: Sequence[Path], margin: float, console: Console, form: OutputFormat) -> None:
    """Compare the runs in these folders by what they were trained for, and print it."""
    records = load_records(paths)
    tasks = {record.task for record in records}
    if tasks == {"classification"}:
        write_accuracies(accuracy_rows(records), console, form)
    elif "classification" in tasks:
        raise ConfigError("these are fine-tuned runs and language models", "compare them apart")
    else:
        write_comparison(compare(records, margin, unfinished_runs(paths)), console, form)


def write_accuracies(rows: Sequence[AccuracyRow], console: Console, form: OutputFormat) -> None:
    """Print fine-tuned arms."""
    match form:
        case OutputFormat.TABLE:
            console.print(_accuracy_table(rows))
            for note in accuracy.footnotes(rows):
                console.print(note, style="dim", highlight=False)
        case OutputFormat.MARKDOWN:
            _print_raw(console, accuracy.as_markdown(rows))
        case OutputFormat.JSON:
            _print_raw(console, json.dumps(accuracy.as_json(rows), indent=2, ensure_ascii=False) + "\n")


def _accuracy_table(rows: Sequence[AccuracyRow]) -> Table:
    """The columns that fit a terminal of 80; Markdown and JSON have them all."""
    shown = [heading for heading in accuracy.HEADINGS if heading not in _LEFT_OUT_OF_TERMINALS]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in shown:
        table.add_column(heading, justify="left" if heading == "method" else "right", overflow="fold")
    for row in rows:
        cells = dict(zip(accuracy.HEADINGS, accuracy.cells(row), strict=True))
        table.add_row(*(cells[heading] for heading in shown))
    return table


def _print_raw(console: Console, text: str) -> None:
    console.out(text, end="", highlight=False)
