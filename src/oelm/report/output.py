"""One function that writes a report in the format and language asked for."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from oelm.base.errors import ConfigError
from oelm.config.original_study import original_records
from oelm.report.groups import Group
from oelm.report.markdown import report_markdown
from oelm.report.plain import report_json
from oelm.report.report import Report, report_runs
from oelm.report.sentences import beside_sentence, bound_sentence, group_title, registration_sentences
from oelm.report.table import accuracy_table, as_table
from oelm.report.texts import ENGLISH, TEXTS, Language, Texts


class OutputFormat(StrEnum):
    """How a comparison is written."""

    TABLE = "table"
    """Colour and boxes, for a terminal."""
    MARKDOWN = "md"
    JSON = "json"


def compare_and_write(
    paths: Sequence[Path],
    margin: float | None,
    console: Console,
    form: OutputFormat,
    language: Language = Language.ENGLISH,
    primary: str | None = None,
    with_original: bool = False,
) -> None:
    """Compare the runs in these folders, each experiment for itself, and print it; the original study's if asked."""
    if not paths and not with_original:
        raise ConfigError("nothing to compare", "give run folders, or --original for the original study's figures")
    beside = original_records() if with_original else ()
    write_report(report_runs(paths, margin, primary, beside), console, form, TEXTS[language])


def write_report(
    report: Report, console: Console, form: OutputFormat = OutputFormat.TABLE, texts: Texts = ENGLISH
) -> None:
    """Print every experiment. Markdown and JSON are written as they are: not wrapped, not coloured."""
    match form:
        case OutputFormat.TABLE:
            for group in report.groups:
                if len(report.groups) > 1:
                    console.rule(group_title(group, texts), align="left")
                _print_group(group, console, texts)
            for row in report.beside:
                console.print(beside_sentence(row, texts), highlight=False)
            for line in registration_sentences(report.registrations, texts):
                console.print(line, highlight=False, markup=False)
            if report.unfinished:
                folders = ", ".join(str(folder) for folder in report.unfinished)
                console.print(texts.unfinished.format(folders=folders), highlight=False)
        case OutputFormat.MARKDOWN:
            _print_raw(console, report_markdown(report, texts))
        case OutputFormat.JSON:
            _print_json(console, report_json(report, texts))


def _print_group(group: Group, console: Console, texts: Texts) -> None:
    if group.accuracy is not None:
        console.print(accuracy_table(group.accuracy, texts))
    elif group.comparison is not None:
        console.print(as_table(group.comparison, texts))
    for row in group.speed:
        if sentence := bound_sentence(row, texts):
            console.print(sentence, highlight=False)


def _print_json(console: Console, values: object) -> None:
    _print_raw(console, json.dumps(values, indent=2, ensure_ascii=False, default=str) + "\n")


def _print_raw(console: Console, text: str) -> None:
    console.out(text, end="", highlight=False)
