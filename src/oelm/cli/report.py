"""`oelm report`: finished runs as tables, Markdown, JSON or a page. `oelm compare` is the same, printed."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from oelm.base.console import Console
from oelm.base.errors import ConfigError
from oelm.base.files import write_text

if TYPE_CHECKING:
    from oelm.report.groups import Report


class Format(StrEnum):
    """How it is written."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"


class Lang(StrEnum):
    """The language of the texts; a page holds both and opens in this one."""

    ENGLISH = "en"
    CHINESE = "zh"


def report(
    context: Context,
    runs: Annotated[list[Path] | None, Argument(help="Run folders, or folders of runs.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="The file to write. \\[default: print; a page: report.html]")
    ] = None,
    form: Annotated[
        Format | None,
        Option("--format", help="\\[default: by the ending of the file, else html; of `compare`: table]"),
    ] = None,
    language: Annotated[Lang, Option("--lang", help="A page holds both and opens in this one.")] = Lang.ENGLISH,
    margin: Annotated[
        float | None,
        Option(help="What still counts as no worse, such as 1.05 for 5 %. \\[default: the study's, or 1.05]"),
    ] = None,
    primary: Annotated[
        str | None,
        Option(help="Method of the primary arm; one chosen now is corrected like all others. \\[default: the study's]"),
    ] = None,
    original: Annotated[bool, Option("--original", help="Show what the original study reported, too.")] = False,
) -> None:
    """Compare finished runs: verdicts with intervals, tables, curves and views; printed, or as one page.

    Arms are paired by seed and judged against a margin. Markdown that is printed is short; in a file it is whole.
    """
    usual = Format.TABLE if context.info_name == "compare" else Format.HTML
    chosen = form or (_by_ending(output) if output else usual)
    if output is None and chosen is Format.HTML:
        output = Path("report.html")
    if output is not None and (output.is_dir() or chosen is Format.TABLE):
        problem = f"{output} is a folder" if output.is_dir() else "a table is printed, not written to a file"
        raise ConfigError(problem, "name a file that ends in .html, .md or .json")
    if not runs and not original:
        raise ConfigError("nothing to report", "give run folders, or --original for the original study's figures")
    from oelm.config.original_study import original_records
    from oelm.report.groups import report_runs

    found, console = report_runs(runs or [], margin, primary, original_records() if original else ()), Console()
    if chosen is Format.TABLE:
        from oelm.report.texts import Language
        from oelm.report.write_terminal import print_report

        return print_report(found, console, Language(language.value))
    options = (("--margin", margin), ("--primary", primary), ("-o", output))
    given = [str(part) for option in options if option[1] is not None for part in option]
    paths = [*map(str, runs or ()), *(["--original"] if original else [])]
    text = _written(found, chosen, language, shlex.join(("oelm", "report", *paths, *given)), whole=output is not None)
    if output is None:
        return console.out(text, end="", highlight=False)
    write_text(output, text)
    return console.print(f"report: {output}", highlight=False, soft_wrap=True)


def _written(found: "Report", form: Format, lang: Lang, command: str, *, whole: bool) -> str:
    if form is Format.JSON:
        from oelm.report.write_json import as_json

        return as_json(found)
    from oelm.report.texts import Language

    language = Language(lang.value)
    if form is Format.MARKDOWN:
        from oelm.report.write_markdown import as_markdown

        return as_markdown(found, language, command, whole=whole)
    from oelm.report.write_html import as_html

    return as_html(found, language, command)


def _by_ending(path: Path) -> Format:
    return next((form for form in Format if path.suffix == f".{form.value}"), Format.HTML)
