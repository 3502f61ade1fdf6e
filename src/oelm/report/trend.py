"""One method across data sets and sizes, with what else changed along the way."""

from collections.abc import Sequence
from dataclasses import dataclass

from oelm.report.accuracy import AccuracyFinding
from oelm.report.comparison import Finding
from oelm.report.differences import decides_the_problem, differing_settings, is_of_method, setting_name, setting_value
from oelm.report.groups import Group


@dataclass(frozen=True)
class TrendRow:
    """The method on one data set and size."""

    study: str | None
    data: str
    size: str
    finding: Finding | AccuracyFinding
    weights: int
    """Stored weights of the control."""
    trained_tokens: int | None
    """Tokens that a run was trained on; None for labelled text."""


@dataclass(frozen=True)
class Trend:
    """Rows to be read together only as far as nothing else differs between them."""

    method: str
    task: str
    source: str
    rows: tuple[TrendRow, ...]
    also_differs: tuple[tuple[str, tuple[str, ...]], ...]
    """Settings beside data and size that change along the trend, each with its value in every row."""


def trends(groups: Sequence[Group]) -> tuple[Trend, ...]:
    """One per method that was compared in two or more experiments of one task and source."""
    found: dict[tuple[str, str, str], list[TrendRow]] = {}
    for group in groups:
        for finding in group.findings:
            if finding.control is not None:
                key = (finding.arm.method.name, group.task, group.source)
                found.setdefault(key, []).append(_row(group, finding))
    return tuple(
        Trend(*key, rows=tuple(rows), also_differs=_also_differs(rows)) for key, rows in found.items() if len(rows) > 1
    )


def _row(group: Group, finding: Finding | AccuracyFinding) -> TrendRow:
    control = finding.control or finding.arm
    record = finding.arm.records[0]
    tokens = record.curve[-1].tokens if record.curve and group.task == "language-modelling" else None
    return TrendRow(group.study, group.data, group.size, finding, control.records[0].counts.stored, tokens)


def _also_differs(rows: Sequence[TrendRow]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    configs = [row.finding.arm.config for row in rows]
    paths = dict.fromkeys(
        path
        for config in configs
        for path in differing_settings(configs[0], config)
        if not is_of_method(path) and not decides_the_problem(path)
    )
    return tuple((setting_name(path), tuple(setting_value(config, path) for config in configs)) for path in paths)
