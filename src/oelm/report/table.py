"""Comparisons in a terminal: tables and sentences, made for 80 columns and wider."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from oelm.report.accuracy import AccuracyComparison, AccuracyFinding
from oelm.report.accuracy_cells import accuracy_cells, accuracy_headings
from oelm.report.arms import Arm
from oelm.report.comparison import Comparison, Finding
from oelm.report.forest import Axis, drawn_interval, shared_axis
from oelm.report.numerals import (
    written_bits,
    written_count,
    written_margin,
    written_milliseconds,
    written_percent,
    written_perplexity,
    written_ratio,
)
from oelm.report.sentences import (
    accuracy_footnotes,
    accuracy_general_remarks,
    accuracy_remarks,
    accuracy_sentence,
    finding_remarks,
    finding_sentence,
    footnotes,
    general_remarks,
    reference_remarks,
)
from oelm.report.statistics import Verdict
from oelm.report.texts import ENGLISH, Texts

FOREST_WIDTH = 17
LABEL_WIDTH = 22
"""What the narrowest supported terminal, 80 columns, leaves for the name of an arm."""
STYLES = {
    Verdict.BETTER: "bold green",
    Verdict.NON_INFERIOR: "green",
    Verdict.INFERIOR: "red",
    Verdict.UNDECIDED: "yellow",
    Verdict.NO_VERDICT: "dim",
}


def as_table(comparison: Comparison, texts: Texts = ENGLISH) -> RenderableType:
    """Everything a terminal shows: `Console().print(as_table(comparison))`."""
    parts: list[RenderableType] = [_measured_table(comparison, texts)]
    if any(finding.control for finding in comparison.findings):
        parts.append(_verdict_table(comparison, texts))
    parts += [_finding_text(found, comparison.margin, texts) for found in comparison.findings if not found.is_reference]
    parts += [_paragraph(remark) for remark in reference_remarks(comparison.findings, texts)]
    parts += [_paragraph(remark) for remark in general_remarks(comparison, texts)]
    parts += [_paragraph(note, "dim") for note in footnotes(comparison, texts)]
    return Group(*parts)


def accuracy_table(comparison: AccuracyComparison, texts: Texts = ENGLISH) -> RenderableType:
    """The columns that fit a terminal of 80; Markdown and JSON have them all."""
    table = _empty_table(texts.accuracy_title.format(share=f"{100 * comparison.share:g} %"))
    headings = accuracy_headings(texts)
    left_out = (texts.evaluation, texts.trained, texts.frozen, texts.best_checkpoint, texts.points, texts.flops_saved)
    for heading in headings:
        if heading not in left_out:
            table.add_column(heading, justify="left" if heading == texts.arm else "right", overflow="fold")
    for found in comparison.findings:
        cells = zip(headings, accuracy_cells(found, texts), strict=True)
        table.add_row(*(Text(cell) for heading, cell in cells if heading not in left_out))
    parts: list[RenderableType] = [table]
    parts += [_accuracy_text(found, comparison.share, texts) for found in comparison.findings if not found.is_reference]
    parts += [_paragraph(remark) for remark in reference_remarks(comparison.findings, texts)]
    parts += [_paragraph(remark) for remark in accuracy_general_remarks(comparison, texts)]
    parts += [_paragraph(note, "dim") for note in accuracy_footnotes(comparison, texts)]
    return Group(*parts)


def _accuracy_text(finding: AccuracyFinding, share: float, texts: Texts) -> RenderableType:
    return _with_remarks(finding.arm.label, accuracy_sentence(finding, share, texts), accuracy_remarks(finding, texts))


def _empty_table(title: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), header_style="bold")
    table.title, table.title_justify = Text(title, style="bold"), "left"
    return table


def _measured_table(comparison: Comparison, texts: Texts) -> Table:
    table = _empty_table(texts.measured_title)
    table.add_column(texts.arm, overflow="fold", style="cyan")
    table.add_column(texts.trained, justify="right", no_wrap=True)
    table.add_column(texts.perplexity_by_seed, min_width=10)
    table.add_column(texts.mean, justify="right", no_wrap=True, style="bold")
    for heading in (texts.bits_per_byte, texts.flops_saved, texts.step_time):
        table.add_column(_stacked(heading), justify="right", no_wrap=True)
    for finding in comparison.findings:
        table.add_row(*_measured_cells(finding.arm))
    return table


def _measured_cells(arm: Arm) -> Iterable[Text]:
    return map(
        Text,
        (
            _foldable(arm.label),
            written_count(arm.ever_trained),
            " ".join(written_perplexity(value) for value in arm.perplexities),
            written_perplexity(arm.mean_perplexity),
            written_bits(arm.bits_per_byte),
            written_percent(arm.flops_saved_share),
            written_milliseconds(arm.step_seconds),
        ),
    )


def _foldable(label: str) -> str:
    """A label too long for its column, broken where a reader would break it."""
    return label if len(label) <= LABEL_WIDTH else label.replace("+", "\n   +")


def _stacked(heading: str) -> str:
    """A heading over narrow numbers, in two lines."""
    return heading.replace("/", "/\n", 1) if "/" in heading else heading.replace(" ", "\n", 1)


def _verdict_table(comparison: Comparison, texts: Texts) -> Table:
    compared = [finding for finding in comparison.findings if finding.control]
    estimates = [finding.estimate for finding in compared if finding.estimate]
    axis = shared_axis(estimates, comparison.margin, FOREST_WIDTH)
    table = _empty_table(texts.verdict_title.format(margin=written_margin(comparison.margin)))
    table.add_column(texts.arm, overflow="fold", style="cyan")
    table.add_column(texts.ratio, justify="right", no_wrap=True, style="bold")
    table.add_column(texts.interval, justify="right", no_wrap=True)
    table.add_column(texts.scale, no_wrap=True)
    table.add_column(texts.verdict, no_wrap=True)
    for control in dict.fromkeys(finding.control.label for finding in compared if finding.control):
        table.add_row(Text(texts.against.format(control=control), style="dim italic"))
        for finding in compared:
            if finding.control and finding.control.label == control:
                table.add_row(*_verdict_cells(finding, axis, texts))
        table.add_section()
    return table


def _verdict_cells(finding: Finding, axis: Axis, texts: Texts) -> Iterable[Text]:
    estimate, interval = finding.estimate, finding.estimate.interval if finding.estimate else None
    style = STYLES[finding.verdict]
    yield Text(_foldable(f"  {finding.arm.label}"))
    yield Text(written_ratio(estimate.ratio) if estimate else "-")
    yield Text(f"{written_ratio(interval.lower)} – {written_ratio(interval.upper)}" if interval else "-")
    yield Text(drawn_interval(estimate, axis), style=style)
    yield Text(texts.verdict_names[finding.verdict], style=style)


def _finding_text(finding: Finding, margin: float, texts: Texts) -> RenderableType:
    return _with_remarks(finding.arm.label, finding_sentence(finding, margin, texts), finding_remarks(finding, texts))


def _with_remarks(label: str, sentence: str, remarks: Iterable[str]) -> RenderableType:
    text = Text(sentence)
    text.stylize("cyan", 0, len(label))
    indented = [Padding(Text(remark), (0, 0, 0, 2), expand=False) for remark in remarks]
    return Padding(Group(text, *indented), (0, 0, 1, 0), expand=False)


def _paragraph(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 1, 0) if not style else 0, expand=False)
