"""One function that writes a comparison in the format asked for."""

import json
from enum import StrEnum

from rich.console import Console

from oelm.report.comparison import Comparison
from oelm.report.markdown import as_markdown
from oelm.report.plain import as_json
from oelm.report.table import as_table
from oelm.report.texts import ENGLISH, Texts


class OutputFormat(StrEnum):
    """How a comparison is written."""

    TABLE = "table"
    """Colour and boxes, for a terminal."""
    MARKDOWN = "md"
    JSON = "json"


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


def _print_raw(console: Console, text: str) -> None:
    console.out(text, end="", highlight=False)
