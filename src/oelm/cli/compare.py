"""`oelm compare`: finished runs side by side."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option


class Format(StrEnum):
    """How the comparison is printed."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"


def compare(
    runs: Annotated[list[Path], Argument(help="Run folders, or folders of runs.")],
    margin: Annotated[float, Option(help="Perplexity ratio that still counts as no worse.")] = 1.05,
    output: Annotated[Format, Option("--format", help="How to print it.")] = Format.TABLE,
) -> None:
    """Compare finished runs: arms paired by seed, ratios with intervals, a verdict against the margin."""
    from oelm.report.output import OutputFormat, compare_and_write

    compare_and_write(runs, margin, Console(), OutputFormat(output.value))
