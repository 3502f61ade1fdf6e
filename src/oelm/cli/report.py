"""`oelm report`: finished runs as a page."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from oelm.base.errors import ConfigError


class Format(StrEnum):
    """What kind of file."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


class Lang(StrEnum):
    """The language that the page opens in."""

    ENGLISH = "en"
    CHINESE = "zh"


def report(
    runs: Annotated[list[Path] | None, Argument(help="Run folders, or folders of runs.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="The file to write. \\[default: report.html, .md or .json]")
    ] = None,
    form: Annotated[
        Format | None, Option("--format", help="What to write. \\[default: by the ending of the file, else html]")
    ] = None,
    language: Annotated[
        Lang, Option("--lang", help="The page holds both languages and opens in this one.")
    ] = Lang.ENGLISH,
    margin: Annotated[
        float | None, Option(help="Perplexity ratio that still counts as no worse. \\[default: the study's, or 1.05]")
    ] = None,
    primary: Annotated[
        str | None, Option(help="Method whose comparison was the question before the runs. \\[default: the study's]")
    ] = None,
    original: Annotated[bool, Option("--original", help="Show what the original study reported, too.")] = False,
) -> None:
    """Write finished runs as one page: verdict, tables, curves and views, in English and Chinese."""
    from oelm.report.page.write import PageFormat, write_page
    from oelm.report.texts import Language

    chosen = form or _by_ending(output)
    path = output or Path(f"report.{chosen.value}")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", f"name the file: -o {path / f'report.{chosen.value}'}")
    write_page(runs or [], path, PageFormat(chosen.value), Language(language.value), margin, primary, original)
    Console().print(f"report: {path}", highlight=False, soft_wrap=True)


def _by_ending(output: Path | None) -> Format:
    ending = output.suffix.lstrip(".").lower() if output else ""
    return Format(ending) if ending in list(Format) else Format.HTML
