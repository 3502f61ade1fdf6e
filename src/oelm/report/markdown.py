"""The comparison as Markdown, for a README, an issue or a notebook."""

from collections.abc import Iterable, Sequence

from oelm.report.comparison import Comparison, Finding
from oelm.report.numerals import (
    written_bits,
    written_count,
    written_margin,
    written_milliseconds,
    written_percent,
    written_perplexity,
    written_ratio,
)
from oelm.report.sentences import finding_remarks, finding_sentence, footnotes, general_remarks
from oelm.report.texts import ENGLISH, Texts


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
        *(_row(_cells(found)) for found in comparison.findings),
    ]
    title = f"**{texts.verdict_title.format(margin=written_margin(comparison.margin))}**"
    parts = [
        title,
        "\n".join(table),
        _listed(_findings(comparison, texts)),
        *general_remarks(comparison, texts),
    ]
    return "\n\n".join(part for part in [*parts, _listed(footnotes(comparison, texts))] if part) + "\n"


def _cells(finding: Finding) -> Iterable[str]:
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
        "" if finding.control is None else finding.verdict,
        written_percent(arm.flops_saved_share),
        written_milliseconds(arm.step_seconds),
    )


def _findings(comparison: Comparison, texts: Texts) -> Sequence[str]:
    return [
        " ".join([finding_sentence(found, comparison.margin, texts), *finding_remarks(found, texts)])
        for found in comparison.findings
        if not found.is_reference
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
