"""Views that look inside one experiment: what its parts are worth, whether frozen stayed frozen, how Q and K lie."""

from collections.abc import Sequence

from oelm.report.groups import Group
from oelm.report.numerals import written_count, written_ratio
from oelm.report.page.content import Cell, Column, Section, Table
from oelm.report.page.measured import Colours, arm_cell
from oelm.report.page.words import Words
from oelm.report.sentences import confound_phrase
from oelm.report.texts import Texts
from oelm.report.views import GeometryRow


def ablation_section(group: Group, colours: Colours, texts: Texts, words: Words) -> Section | None:
    """control -> frozen orthogonal -> frozen random, one change per row; None where the arms do not allow it."""
    steps = [step for step in group.ablation if step.estimate is not None]
    if not steps:
        return None
    columns = (
        Column(words.change),
        Column(words.from_arm),
        Column(words.to_arm),
        Column(words.ratio, number=True),
        Column(words.interval, number=True),
        Column(words.confounds),
    )
    rows = []
    for step in steps:
        assert step.estimate is not None
        interval = step.estimate.interval
        rows.append(
            (
                Cell(texts.ablation_changes[step.change]),
                arm_cell(step.start, colours),
                arm_cell(step.end, colours),
                Cell(f"×{written_ratio(step.estimate.ratio)}"),
                Cell(f"{written_ratio(interval.lower)} – {written_ratio(interval.upper)}" if interval else "–"),
                Cell("; ".join(confound_phrase(found, texts) for found in step.confounds) or "–"),
            )
        )
    return Section("ablation", words.ablation, words.ablation_lead, tables=(Table(columns, tuple(rows)),))


def audit_section(group: Group, colours: Colours, words: Words) -> Section | None:
    """One row per arm that freezes anything."""
    if not group.audit:
        return None
    columns = (
        Column(words.arm),
        Column(words.frozen, number=True),
        Column(words.frozen_tensors, number=True),
        Column(words.later_tensors, number=True),
        Column(words.trained_tensors, number=True),
        Column(words.unchanged),
        Column(words.moved),
    )
    rows = tuple(
        (
            arm_cell(row.arm, colours),
            Cell(written_count(row.frozen_weights)),
            Cell(_count(row.frozen_tensors)),
            Cell(_count(row.later_tensors)),
            Cell(_count(row.trained_tensors)),
            _answer(row.unchanged, words),
            _answer(row.moved, words),
        )
        for row in group.audit
    )
    return Section("audit", words.audit, words.audit_lead, tables=(Table(columns, rows),))


def geometry_section(group: Group, colours: Colours, words: Words) -> Section | None:
    """One row per arm, over its layers."""
    if not group.geometry:
        return None
    columns = (
        Column(words.arm),
        Column(words.layers, number=True),
        Column(words.query_error, number=True),
        Column(words.key_error, number=True),
        Column(words.overlap, number=True),
        Column(words.row_norm, number=True),
        Column(words.logit_std, number=True),
    )
    rows = []
    for arm in group.arms:
        layers = [row for row in group.geometry if row.arm.label == arm.label]
        if layers:
            measures = ("query_gram_error", "key_gram_error", "cross_head_overlap", "row_norm", "logit_std")
            cells = (Cell(_span(layers, measure)) for measure in measures)
            rows.append((arm_cell(arm, colours), Cell(str(len(layers))), *cells))
    return Section("geometry", words.geometry, words.geometry_lead, tables=(Table(columns, tuple(rows)),))


def _span(layers: Sequence[GeometryRow], measure: str) -> str:
    """One number where all layers agree in what is shown, else the lowest and the highest."""
    values = [getattr(layer, measure) for layer in layers]
    low, high = _number(min(values)), _number(max(values))
    return low if low == high else f"{low} – {high}"


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:.3f}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _count(number: int | None) -> str:
    return "–" if number is None else str(number)


def _answer(value: bool | None, words: Words) -> Cell:
    if value is None:
        return Cell(words.unknown, tone="no-verdict")
    return Cell(words.yes, tone="better") if value else Cell(words.no, tone="inferior")
