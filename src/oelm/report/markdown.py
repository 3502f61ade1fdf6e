"""Comparisons as Markdown, for a README, an issue or a notebook."""

from collections.abc import Iterable, Sequence

from oelm.report.accuracy import AccuracyComparison
from oelm.report.accuracy_cells import accuracy_cells, accuracy_headings
from oelm.report.comparison import Comparison, Finding
from oelm.report.groups import Group
from oelm.report.numerals import (
    written_bits,
    written_count,
    written_margin,
    written_milliseconds,
    written_percent,
    written_perplexity,
    written_ratio,
)
from oelm.report.report import Report
from oelm.report.sentences import (
    accuracy_footnotes,
    accuracy_general_remarks,
    accuracy_remarks,
    accuracy_sentence,
    beside_sentence,
    bound_sentence,
    finding_remarks,
    finding_sentence,
    footnotes,
    general_remarks,
    group_title,
    reference_remarks,
    registration_sentences,
)
from oelm.report.texts import ENGLISH, Texts


def report_markdown(report: Report, texts: Texts = ENGLISH) -> str:
    """Every experiment; with a heading each where there are several."""
    several = len(report.groups) > 1
    parts = [
        (f"### {group_title(group, texts)}\n\n" if several else "") + group_markdown(group, texts)
        for group in report.groups
    ]
    beside = _listed(beside_sentence(row, texts) for row in report.beside)
    folders = ", ".join(str(folder) for folder in report.unfinished)
    left_out = texts.unfinished.format(folders=folders) if folders else ""
    registered = "\n\n".join(registration_sentences(report.registrations, texts))
    return "\n".join([*parts, *(part + "\n" for part in (beside, registered, left_out) if part)])


def group_markdown(group: Group, texts: Texts = ENGLISH) -> str:
    """One experiment."""
    if group.accuracy is not None:
        found = accuracy_markdown(group.accuracy, texts)
    else:
        assert group.comparison is not None, "a group has one of the two"
        found = as_markdown(group.comparison, texts)
    beyond = [sentence for row in group.speed if (sentence := bound_sentence(row, texts))]
    return found + (f"\n{_listed(beyond)}\n" if beyond else "")


def as_markdown(comparison: Comparison, texts: Texts = ENGLISH) -> str:
    """One table, the sentences as a list, the footnotes."""
    headings = (
        texts.arm,
        texts.trained,
        texts.perplexity_by_seed,
        texts.mean,
        texts.bits_per_byte,
        texts.ratio,
        texts.interval,
        texts.verdict,
        texts.flops_saved,
        texts.step_time,
    )
    table = [
        _row(headings),
        _row("---" for _ in headings),
        *(_row(_cells(found, texts)) for found in comparison.findings),
    ]
    title = f"**{texts.verdict_title.format(margin=written_margin(comparison.margin))}**"
    return _joined(
        title,
        "\n".join(table),
        _listed(_findings(comparison, texts)),
        *general_remarks(comparison, texts),
        _listed(footnotes(comparison, texts)),
    )


def accuracy_markdown(comparison: AccuracyComparison, texts: Texts = ENGLISH) -> str:
    """The same for fine-tuned arms."""
    headings = accuracy_headings(texts)
    rows = [accuracy_cells(found, texts) for found in comparison.findings]
    table = [_row(headings), _row("---" for _ in headings), *(_row((f"`{first}`", *rest)) for first, *rest in rows)]
    sentences = [
        " ".join([accuracy_sentence(found, comparison.share, texts), *accuracy_remarks(found, texts)])
        for found in comparison.findings
        if not found.is_reference
    ]
    return _joined(
        f"**{texts.accuracy_title.format(share=f'{100 * comparison.share:g} %')}**",
        "\n".join(table),
        _listed([*sentences, *reference_remarks(comparison.findings, texts)]),
        *accuracy_general_remarks(comparison, texts),
        _listed(accuracy_footnotes(comparison, texts)),
    )


def _cells(finding: Finding, texts: Texts) -> Iterable[str]:
    arm, estimate = finding.arm, finding.estimate
    interval = estimate.interval if estimate else None
    return (
        f"`{arm.label}`",
        written_count(arm.ever_trained),
        ", ".join(written_perplexity(value) for value in arm.perplexities),
        written_perplexity(arm.mean_perplexity),
        written_bits(arm.bits_per_byte),
        written_ratio(estimate.ratio) if estimate else "",
        f"{written_ratio(interval.lower)} – {written_ratio(interval.upper)}" if interval else "",
        "" if finding.control is None else texts.verdict_names[finding.verdict],
        written_percent(arm.flops_saved_share),
        written_milliseconds(arm.step_seconds),
    )


def _findings(comparison: Comparison, texts: Texts) -> Sequence[str]:
    sentences = [
        " ".join([finding_sentence(found, comparison.margin, texts), *finding_remarks(found, texts)])
        for found in comparison.findings
        if not found.is_reference
    ]
    return [*sentences, *reference_remarks(comparison.findings, texts)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
