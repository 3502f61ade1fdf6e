"""A report as a file: the page, the same as Markdown, or its data as JSON."""

import json
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from oelm.base.errors import ConfigError
from oelm.base.files import write_text
from oelm.config.original_study import original_records
from oelm.report.page.compose import compose, curves_of
from oelm.report.page.html import as_html
from oelm.report.page.markdown import as_markdown
from oelm.report.page.words import WORDS
from oelm.report.plain import report_json
from oelm.report.report import Report, report_runs
from oelm.report.texts import TEXTS, Language


class PageFormat(StrEnum):
    """How a report is written; the value is also the ending of its file."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


def write_page(
    paths: Sequence[Path],
    output: Path,
    form: PageFormat = PageFormat.HTML,
    language: Language = Language.ENGLISH,
    margin: float | None = None,
    primary: str | None = None,
    with_original: bool = False,
) -> None:
    """Write the report on the runs in these folders, with the original study's figures beside them if asked."""
    if not paths and not with_original:
        raise ConfigError("nothing to report", "give run folders, or --original for the original study's figures")
    options = (("--margin", margin), ("--primary", primary))
    given = [part for name, value in options if value is not None for part in (name, str(value))]
    original = ["--original"] if with_original else []
    command = shlex.join(("oelm", "report", *map(str, paths), *given, *original, "-o", str(output)))
    report = report_runs(paths, margin, primary, original_records() if with_original else ())
    write_text(output, rendered(report, form, language, command))


def rendered(
    report: Report,
    form: PageFormat = PageFormat.HTML,
    language: Language = Language.ENGLISH,
    command: str = "oelm report",
) -> str:
    """The text of the file. `command` is the one that makes it, for the reader to repeat."""
    match form:
        case PageFormat.HTML:
            contents = {code: compose(report, code, command) for code in Language}
            return as_html(contents, curves_of(report), language)
        case PageFormat.MARKDOWN:
            return as_markdown(compose(report, language, command), WORDS[language])
        case PageFormat.JSON:
            return json.dumps(report_json(report, TEXTS[language]), indent=2, ensure_ascii=False, default=str) + "\n"
