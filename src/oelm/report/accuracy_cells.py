"""Fine-tuned arms as rows of a table: shared by the terminal and Markdown."""

from oelm.report.accuracy import AccuracyFinding, Span
from oelm.report.differences import short_float
from oelm.report.numerals import written_count, written_percent, written_points
from oelm.report.texts import Texts


def accuracy_headings(texts: Texts) -> tuple[str, ...]:
    """In the order of the cells."""
    return (
        texts.arm,
        texts.evaluation,
        texts.learning_rate,
        texts.trained,
        texts.frozen,
        texts.accuracy_by_seed,
        texts.mean,
        texts.best_checkpoint,
        texts.points,
        texts.share,
        texts.verdict,
        texts.flops_saved,
    )


def accuracy_cells(finding: AccuracyFinding, texts: Texts) -> tuple[str, ...]:
    """One arm as text."""
    counts = finding.arm.records[0].counts
    best = finding.best_mean
    return (
        finding.arm.label,
        finding.evaluation,
        short_float(finding.arm.config.optim.lr),
        written_count(counts.trained),
        written_count(counts.frozen),
        " ".join(f"{100 * value:.2f}" for value in finding.by_seed.values()),
        f"{100 * finding.mean:.2f}",
        "-" if best is None else f"{100 * best:.2f}",
        _points(finding.points),
        _share(finding.share),
        texts.verdict_names[finding.verdict] if finding.control else "",
        written_percent(finding.arm.flops_saved_share),
    )


def _points(span: Span | None) -> str:
    if span is None:
        return ""
    value = written_points(span.value)
    if span.lower is None or span.upper is None:
        return value
    return f"{value} ({written_points(span.lower)} – {written_points(span.upper)})"


def _share(span: Span | None) -> str:
    if span is None:
        return ""
    value = f"{100 * span.value:.1f}"
    if span.lower is None or span.upper is None:
        return value
    return f"{value} ({100 * span.lower:.1f} – {100 * span.upper:.1f})"
