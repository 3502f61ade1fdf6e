"""`oelm report`: finished runs as tables, Markdown, JSON, a page or a PDF. `oelm compare` is the same, printed."""

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
    PDF = "pdf"


class Lang(StrEnum):
    """The language of the texts; a page holds both and opens in this one."""

    ENGLISH = "en"
    CHINESE = "zh"


def report(
    context: Context,
    runs: Annotated[list[Path] | None, Argument(help="Run folders, or folders of runs.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="The file to write. \\[default: print; a page: report.html or .pdf]")
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
    serve: Annotated[
        bool, Option("--serve", help="Show the page on 127.0.0.1 as the runs go on, with their status, until Ctrl-C.")
    ] = False,
    port: Annotated[int, Option(min=0, max=65535, help="Of --serve; 0 takes any that is free.")] = 8765,
) -> None:
    """Compare finished runs: verdicts with intervals, tables, curves and views; printed, or as one page.

    Arms are paired by seed and judged against a margin. Markdown that is printed is short; in a file it is whole.
    """
    usual = Format.TABLE if context.info_name == "compare" else Format.HTML
    chosen = form or (_by_ending(output) if output else usual)
    if serve and (output or form):
        raise ConfigError("--serve writes no file", "leave out -o and --format, or leave out --serve")
    if not runs and (serve or not original):
        raise ConfigError("nothing to report", "give run folders, or --original for the original study's figures")
    output = None if serve else _file_to_write(output, chosen)
    from oelm.config.original_study import original_records
    from oelm.report.groups import report_runs

    theirs, console = original_records() if original else (), Console()
    options = (("--margin", margin), ("--primary", primary), ("-o", output))
    given = [str(part) for option in options if option[1] is not None for part in option]
    paths = [*map(str, runs or ()), *(["--original"] if original else [])]
    command = shlex.join(("oelm", "report", *paths, *given))
    if serve:
        from oelm.cli.live import serve_page
        from oelm.report.live_page import LiveRequest

        return serve_page(LiveRequest(runs or (), margin, primary, theirs, language.value, command), port, console)
    found = report_runs(runs or [], margin, primary, theirs)
    if chosen is Format.TABLE:
        from oelm.report.texts import Language
        from oelm.report.write_terminal import print_report

        return print_report(found, console, Language(language.value))
    text = _written(found, chosen, language, command, whole=output is not None)
    if output is None:
        return console.out(text, end="", highlight=False)
    _write(output, text, chosen)
    return console.print(f"report: {output}", highlight=False, soft_wrap=True)


def _file_to_write(output: Path | None, form: Format) -> Path | None:
    """None to print; what cannot be written is refused before the work."""
    if output is None and form in (Format.HTML, Format.PDF):
        output = Path(f"report.{form.value}")
    if output is not None and (output.is_dir() or form is Format.TABLE):
        problem = f"{output} is a folder" if output.is_dir() else "a table is printed, not written to a file"
        raise ConfigError(problem, "name a file that ends in .html, .pdf, .md or .json")
    if form is Format.PDF:
        from oelm.report.write_pdf import require_chromium

        require_chromium()
    return output


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


def _write(output: Path, text: str, form: Format) -> None:
    if form is not Format.PDF:
        return write_text(output, text)
    from oelm.report.write_pdf import write_pdf

    return write_pdf(text, output)


def _by_ending(path: Path) -> Format:
    return next((form for form in Format if path.suffix == f".{form.value}"), Format.HTML)
