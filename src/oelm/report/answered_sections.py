"""What models were asked afterwards: their texts side by side, where their heads look, differences over one text."""

from collections.abc import Mapping

from oelm.config.measure import Measure
from oelm.report import numerals
from oelm.report.content import Cell, HeatMap, Section, SideBySide, Table
from oelm.report.groups import Group
from oelm.report.sections import table_of
from oelm.report.texts import Texts
from oelm.report.views import HeadMap, TextDifference


def answered_sections(group: Group, colours: Mapping[str, int], say: Texts) -> tuple[Section, ...]:
    """Those in which there is anything."""
    found = []
    if group.samples:
        texts = tuple(
            SideBySide(
                sample.prompt,
                tuple((Cell(arm, is_name=True, colour=colours[arm]), text) for arm, text in sample.by_arm.items()),
            )
            for sample in group.samples
        )
        found.append(Section("samples", say("samples"), say("samples.lead"), texts=texts))
    if group.heads:
        maps = tuple(_heat_map(each, colours, say) for each in _by_measure(group.heads))
        found.append(Section("heads", say("heads"), say("heads.lead"), maps=maps))
    if group.text_differences:
        table = _differences(group, say)
        found.append(Section("text", say("text_uncertainty"), say("text_uncertainty.lead"), tables=(table,)))
    return tuple(found)


def _by_measure(heads: tuple[HeadMap, ...]) -> list[HeadMap]:
    """Models side by side, one score below the other."""
    order = list(dict.fromkeys(each.measure.name for each in heads))
    return sorted(heads, key=lambda each: order.index(each.measure.name))


def _heat_map(found: HeadMap, colours: Mapping[str, int], say: Texts) -> HeatMap:
    label = found.arm.label
    return HeatMap(
        title=say.name(found.measure),
        arm=Cell(label, is_name=True, colour=colours[label]),
        seed=say("seed", seed=found.seed),
        rows=tuple(tuple((round(value, 3), f"{100 * value:.0f}") for value in layer) for layer in found.values),
    )


def _differences(group: Group, say: Texts) -> Table:
    declared = {each.name: each for arm in group.arms for record in arm.records for each in record.declared}
    rows = [_difference(each, declared, say) for each in group.text_differences]
    return table_of(rows, say, numbers=("seed_column", "estimate", "text_interval"))


def _difference(found: TextDifference, declared: Mapping[str, Measure], say: Texts) -> dict[str, Cell]:
    pair, measure = found.pair, declared.get(found.pair.measure)
    factor, decimals = (measure.factor, measure.decimals) if measure else (1.0, 4)
    ends = (pair.lower, pair.upper)
    written = [numerals.NOTHING if end is None else f"{factor * end:+.{decimals}f}" for end in ends]
    return {
        "arm": Cell(found.arm.label, is_name=True),
        "seed_column": Cell(str(found.seed)),
        "data": Cell(pair.on),
        "measured_by": Cell(say.name(measure) if measure else pair.measure),
        "model_against": Cell(pair.against),
        "estimate": Cell(f"{factor * pair.difference:+.{decimals}f}"),
        "text_interval": Cell(numerals.NOTHING if None in ends else " – ".join(written)),
    }
