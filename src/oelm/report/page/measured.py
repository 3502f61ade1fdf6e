"""What was measured in one experiment, arm by arm, and every comparison in words."""

from collections.abc import Sequence

from oelm.report.arms import Arm
from oelm.report.differences import short_float
from oelm.report.groups import Group
from oelm.report.numerals import written_bits, written_count, written_perplexity
from oelm.report.page.content import Cell, Column, Section, Statement, Table
from oelm.report.page.prose import remarks_across, remarks_on, sentence_on
from oelm.report.page.words import Words
from oelm.report.texts import Texts

Colours = dict[str, int]


def arm_cell(arm: Arm, colours: Colours) -> Cell:
    """The name of an arm with its colour."""
    return Cell(arm.label, name=True, colour=colours[arm.label])


def measured_section(group: Group, colours: Colours, words: Words) -> Section:
    """The figures behind the comparison."""
    if group.accuracy is not None:
        table, lead = _accuracies(group, colours, words), words.measured_accuracy_lead
    else:
        table, lead = _perplexities(group.arms, colours, words), words.measured_lead
    if group.source == "reported":
        return Section("measured", words.reported, words.reported_lead, tables=(table,))
    return Section("measured", words.measured, lead, tables=(table,))


def comparisons_section(group: Group, texts: Texts, words: Words) -> Section | None:
    """Each finding as a sentence with its remarks, then what concerns several; None where that says nothing new."""
    found = [finding for finding in group.findings if not finding.is_reference]
    across = remarks_across(group, texts)
    if len(found) < 2 and not across:  # the one there is opens the page
        return None
    return Section(
        "comparisons",
        words.comparisons,
        words.comparisons_lead,
        statements=tuple(
            Statement(sentence_on(finding, group, texts), remarks_on(finding, texts)) for finding in found
        ),
        remarks=across,
    )


def _perplexities(arms: Sequence[Arm], colours: Colours, words: Words) -> Table:
    columns = (
        Column(words.arm),
        Column(words.learning_rate, number=True),
        Column(words.trained, number=True),
        Column(words.frozen, number=True),
        Column(words.absent, number=True),
        Column(words.perplexity_by_seed),
        Column(words.mean, number=True),
        Column(words.bits_per_byte, number=True),
    )
    return Table(columns, tuple(_perplexity_row(arm, colours) for arm in arms))


def _perplexity_row(arm: Arm, colours: Colours) -> tuple[Cell, ...]:
    counts = arm.records[0].counts
    known = bool(arm.losses)
    return (
        arm_cell(arm, colours),
        Cell(short_float(arm.config.optim.lr)),
        Cell(written_count(arm.ever_trained)),
        Cell(written_count(counts.frozen - counts.later)),
        Cell(written_count(counts.absent)),
        Cell("", parts=tuple(map(written_perplexity, arm.perplexities))),
        Cell(written_perplexity(arm.mean_perplexity) if known else "–"),
        Cell(written_bits(arm.bits_per_byte) if known else "–"),
    )


def _accuracies(group: Group, colours: Colours, words: Words) -> Table:
    assert group.accuracy is not None
    columns = (
        Column(words.arm),
        Column(words.evaluation_set),
        Column(words.learning_rate, number=True),
        Column(words.trained, number=True),
        Column(words.frozen, number=True),
        Column(words.accuracy_by_seed),
        Column(words.mean, number=True),
        Column(words.best_checkpoint, number=True),
        Column(words.points, number=True),
    )
    rows = []
    for found in group.accuracy.findings:
        counts, points = found.arm.records[0].counts, found.points
        span = "–" if points is None else f"{points.value:+.2f}"
        if points is not None and points.lower is not None and points.upper is not None:
            span += f" ({points.lower:+.2f} … {points.upper:+.2f})"
        rows.append(
            (
                arm_cell(found.arm, colours),
                Cell(found.evaluation),
                Cell(short_float(found.arm.config.optim.lr)),
                Cell(written_count(found.arm.ever_trained)),
                Cell(written_count(counts.frozen - counts.later)),
                Cell("", parts=tuple(f"{100 * value:.2f}" for value in found.by_seed.values())),
                Cell(f"{100 * found.mean:.2f}"),
                Cell("–" if found.best_mean is None else f"{100 * found.best_mean:.2f}"),
                Cell(span),
            )
        )
    return Table(columns, tuple(rows))
