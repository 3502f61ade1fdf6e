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


class Lang(StrEnum):
    """In which language."""

    ENGLISH = "en"
    CHINESE = "zh"


def compare(
    runs: Annotated[list[Path] | None, Argument(help="Run folders, or folders of runs.")] = None,
    margin: Annotated[
        float | None, Option(help="Perplexity ratio that still counts as no worse; default: the study's, or 1.05.")
    ] = None,
    primary: Annotated[
        str | None, Option(help="Method of the primary arm, tested uncorrected; default: the study's.")
    ] = None,
    output: Annotated[Format, Option("--format", help="How to print it.")] = Format.TABLE,
    original: Annotated[bool, Option("--original", help="Show what the original study reported, too.")] = False,
    lang: Annotated[Lang, Option(help="Language of the texts.")] = Lang.ENGLISH,
) -> None:
    """Compare finished runs: arms paired by seed, ratios with intervals, a verdict against the margin."""
    from oelm.report.output import OutputFormat, compare_and_write
    from oelm.report.texts import Language

    form, language = OutputFormat(output.value), Language(lang.value)
    compare_and_write(runs or [], margin, Console(), form, language, primary, original)
