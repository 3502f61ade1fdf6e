"""Views of the whole report as plain data: trends over experiments, other studies' figures, tuning."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oelm.config.measure import CompareScale, Measure
from oelm.config.model import GPTConfig
from oelm.config.record import Environment, Record
from oelm.config.settings import fingerprint
from oelm.config.study_role import ChosenBy, Trial
from oelm.report.arms import (
    FINAL_RATE,
    LEARNING_RATE,
    Arm,
    cell_of,
    decides_the_problem,
    differing_settings,
    flat_settings,
    is_of_method,
    is_same_method,
    is_tuning,
    problem_of,
    setting_name,
    setting_value,
    size_name,
    study_of,
    tuning_of,
)
from oelm.report.contrasts import CONFIDENCE, slope_contrast
from oelm.report.findings import Estimate, Finding

_NOT_COMPARABLE = ("data.", "model.", "method.")
"""Digests that another study did not publish; the size, which has a name; and the method, which is equal."""
_MAY_DIFFER_IN_TUNING = frozenset(
    {LEARNING_RATE, FINAL_RATE, "train.steps", "optim.warmup_steps", "train.validate_every", "train.validation_half"}
)
"""A tuning run may be a shorter version of the final one, on the other half of the validation documents."""
_MAY_DIFFER_ALONG_A_SLOPE = frozenset(
    {LEARNING_RATE, FINAL_RATE, "optim.warmup_steps", "train.validate_every", "train.validation_half"}
)
"""Every length and size has its own best rate; warm-up and the steps between validations go with the length. Another
half of the validation documents is named beside the trend (`also_differs`)."""
_AXES = {
    "steps": frozenset({"train.steps"}),
    "weights": frozenset({"model.layers", "model.width", "model.ffn_width"}),
    "heads": frozenset({"model.heads"}),
}
"""Along what a slope is fitted, and the settings that change with it."""
_PAIRS_FOR_A_SLOPE = 4


# --- one method across data sets and sizes -------------------------------------------------------------------------


@dataclass(frozen=True)
class TrendRow:
    """The method on one data set and size."""

    data: str
    size: str
    finding: Finding
    weights: int
    """Stored weights of the control."""
    trained_tokens: int | None
    """Tokens that a run was trained on; None for labelled text."""


@dataclass(frozen=True)
class Slope:
    """By how much an arm moves against its control with every doubling of one thing.

    All else but learning rates and warm-up is equal. It is the slope b of the least-squares line d = a + b log2(x)
    through the pairs of all rows; d is the logarithm of a ratio, or a difference.
    """

    axis: str
    """`steps`, `weights` or `heads`."""
    values: tuple[int, ...]
    pairs: int
    estimate: Estimate


@dataclass(frozen=True)
class Trend:
    """Rows to be read together only as far as nothing else differs between them."""

    method: str
    measure: Measure
    source: str
    rows: tuple[TrendRow, ...]
    also_differs: tuple[tuple[str, tuple[str, ...]], ...]
    """Settings other than data and size that change along the trend, each with its value in every row."""
    slopes: tuple[Slope, ...]
    """Fitted through those of the rows that differ in nothing else."""


def trends(findings: Sequence[Finding]) -> tuple[Trend, ...]:
    """One per method that was compared twice or more by one measure."""
    found: dict[tuple[str, Measure, str], list[Finding]] = {}
    for finding in findings:
        if finding.control is not None:
            found.setdefault((finding.arm.method.name, finding.measure, finding.arm.source), []).append(finding)
    return tuple(
        Trend(*key, rows=(rows := tuple(map(_trend_row, each))), also_differs=_also_differs(each), slopes=_slopes(rows))
        for key, each in found.items()
        if len(each) > 1
    )


def _trend_row(finding: Finding) -> TrendRow:
    record, control = finding.arm.record, finding.control or finding.arm
    config = control.config
    tokens = record.curve[-1].tokens if record.curve and finding.measure.per == "run" else None
    return TrendRow(config.data.name, size_name(config), finding, control.record.counts.stored, tokens)


def _slopes(rows: Sequence[TrendRow]) -> tuple[Slope, ...]:
    """One for each axis along which rows differ and each set of rows that differ in it alone."""
    found = []
    for axis, changing in _AXES.items():
        alike: dict[str, list[TrendRow]] = {}
        for row in rows:
            settings, left_out = flat_settings(row.finding.arm.config), changing | _MAY_DIFFER_ALONG_A_SLOPE
            if row.finding.control is None or _is_elsewhere(row.finding.control, settings, changing):
                continue
            rest = {path: value for path, value in settings.items() if path not in left_out}
            alike.setdefault(fingerprint([row.finding.on, rest]), []).append(row)
        found += [_slope(axis, group) for group in alike.values()]
    return tuple(slope for slope in found if slope is not None)


def _is_elsewhere(control: Arm, settings: Mapping[str, object], changing: frozenset[str]) -> bool:
    """Whether a control stands at another place along the axis: shorter, for want of one that is as long."""
    theirs = flat_settings(control.config)
    return any(theirs.get(path) != settings.get(path) for path in changing)


def _slope(axis: str, rows: Sequence[TrendRow]) -> Slope | None:
    """None where nothing changes along the axis, too few pairs would have to tell their scatter, or one is 0."""
    points = [(_along(axis, row), pair) for row in rows for pair in row.finding.pairs_by_seed.values()]
    values, scale = tuple(sorted({value for value, _ in points})), rows[0].finding.measure.scale
    if len(values) < 2 or len(points) < _PAIRS_FOR_A_SLOPE or scale is None:
        return None
    is_difference = scale is CompareScale.DIFFERENCE
    if not is_difference and min(pair for _, pair in points) <= 0:
        return None
    contrast = slope_contrast(
        np.array([math.log2(value) for value, _ in points]),
        np.array([pair if is_difference else math.log(pair) for _, pair in points]),
    )
    half = contrast.half_width(CONFIDENCE)
    on_line = (contrast.mean, contrast.mean - half, contrast.mean + half)
    value, lower, upper = (float(end) if is_difference else math.exp(end) for end in on_line)
    return Slope(axis, values, len(points), Estimate(scale, value, lower, upper))


def _along(axis: str, row: TrendRow) -> int:
    config = row.finding.arm.config
    match axis:
        case "steps":
            return config.train.steps
        case "weights":
            return row.weights
    return config.model.heads if isinstance(config.model, GPTConfig) else 0


def _also_differs(findings: Sequence[Finding]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    configs = [finding.arm.config for finding in findings]
    paths = dict.fromkeys(
        path
        for config in configs
        for path in differing_settings(configs[0], config)
        if not is_of_method(path) and not decides_the_problem(path)
    )
    return tuple((setting_name(path), tuple(setting_value(config, path) for config in configs)) for path in paths)


# --- our results and another study's -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportedPair:
    """One arm of ours and one that another study reported for the same method on data of the same name."""

    ours: Finding
    theirs: Finding
    id: str
    """Their name for the run."""
    differs: tuple[tuple[str, str, str], ...]
    """Settings that differ: name, ours, theirs."""


def reported_pairs(findings: Sequence[Finding]) -> tuple[ReportedPair, ...]:
    """Every pair of a measured and a reported arm with one method, one measure and data of one name."""
    return tuple(
        _reported_pair(ours, theirs)
        for ours in findings
        if ours.arm.source == "measured"
        for theirs in findings
        if theirs.arm.source == "reported"
        and ours.measure.name == theirs.measure.name
        and _plain(ours.arm.config.data.name) == _plain(theirs.arm.config.data.name)
        and is_same_method(ours.arm.method, theirs.arm.method)
    )


def _reported_pair(ours: Finding, theirs: Finding) -> ReportedPair:
    one, other = ours.arm.config, theirs.arm.config
    reported = theirs.arm.record.reported
    assert reported is not None
    ignored = (*_NOT_COMPARABLE, *reported.unstated)
    paths = [path for path in differing_settings(one, other) if not path.startswith(ignored)]
    sizes = (size_name(one), size_name(other))
    model = [("model", *sizes)] if sizes[0] != sizes[1] else []
    settings = [(setting_name(path), setting_value(one, path), setting_value(other, path)) for path in paths]
    return ReportedPair(ours, theirs, reported.id, (*model, *settings))


def _plain(name: str) -> str:
    """`TinyStories` and `tinystories` are one, as are `SST-2` and `sst2`."""
    return "".join(character for character in name.lower() if character.isalnum())


# --- how learning rates were chosen --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TuningRow:
    """One learning rate of the grid; a rate without a record was not finished, or diverged."""

    lr: float
    value: float | None
    """Of the measure that the choice was made by."""
    loss: float | None
    is_chosen: bool


@dataclass(frozen=True)
class TuningTable:
    """The grid of one arm with the rate that its final runs took."""

    study: str
    data: str
    arm: str
    """Its label; while it has no final run, the study's name for it."""
    seed: int
    steps: int
    measure: Measure
    """What the choice was made by."""
    rows: tuple[TuningRow, ...]
    at_edge: bool
    """Whether the best rate is the first or last that was tried: a better one may lie beyond."""
    vertex: float | None = None
    """The rate of the final runs where it lies between those that were tried; the best of these is marked."""
    unlike_records: tuple[float, ...] = ()
    """Rates whose tuning record gives another result than the one that the final runs say they were chosen by."""
    better: float | None = None
    """A rate whose tuning record is better than that of the rate that was chosen."""


def tuning_tables(records: Sequence[Record], arms: Sequence[Arm]) -> tuple[TuningTable, ...]:
    """One table per tuned arm, in the order of the records; `arms` are the final ones, which show what was chosen."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if is_tuning(record.config):
            rates, settings = (LEARNING_RATE, FINAL_RATE), flat_settings(record.config).items()
            same = {path: value for path, value in settings if path not in rates}
            groups.setdefault(fingerprint([record.task, record.config.seed, same]), []).append(record)
    return tuple(_tuning_table(group, _final_arm(group[0], arms)) for group in groups.values())


def _final_arm(record: Record, arms: Sequence[Arm]) -> Arm | None:
    """The arm that goes on with the chosen rate: the one that the study names alike.

    Older records do not name it; there it is the same but for the rate and the length of the run.
    """

    def rest(settings: Mapping[str, object]) -> dict[str, object]:
        return {path: value for path, value in settings.items() if path not in _MAY_DIFFER_IN_TUNING}

    wanted = rest(flat_settings(record.config))
    alike = [
        arm
        for arm in arms
        if is_same_method(arm.method, record.config.method)
        and problem_of(arm.config) == problem_of(record.config)
        and tuning_of(arm.config) is not None
    ]
    if (cell := cell_of(record.config)) is not None:
        study = study_of(record.config)
        return next((arm for arm in alike if (study_of(arm.config), cell_of(arm.config)) == (study, cell)), None)
    exact = [arm for arm in alike if rest(flat_settings(arm.config)) == wanted]
    return next(iter(exact or alike), None)


def _tuning_table(group: Sequence[Record], final: Arm | None) -> TuningTable:
    first, tuning = group[0], tuning_of(final.config) if final else None
    measure = _tuned_by(first, tuning.measure if tuning else None)
    by_rate = {record.config.optim.lr: record for record in group}
    grid = sorted({*by_rate, *(tuning.grid if tuning else ())})
    choice = tuning.choice if tuning else None
    values = {rate: _tuning_value(record, measure) for rate, record in by_rate.items()}
    used = final.config.optim.lr if final else measure.best({r: v for r, v in values.items() if v is not None})
    tried = [each for each in choice.trials if each.lr in by_rate] if choice else []
    chosen = choice.best if choice is not None and choice.best is not None else used
    assert first.config.study is not None, "tuning runs belong to a study"
    return TuningTable(
        study=first.config.study.study,
        data=first.config.data.name,
        arm=final.label if final else cell_of(first.config) or first.method,
        seed=first.config.seed,
        steps=first.config.train.steps,
        measure=measure,
        rows=tuple(
            TuningRow(rate, values.get(rate), by_rate[rate].result.loss if rate in by_rate else None, rate == chosen)
            for rate in grid
        ),
        at_edge=choice.at_edge if choice else len(grid) > 1 and chosen in (grid[0], grid[-1]),
        vertex=used if choice is not None and choice.by is ChosenBy.VERTEX else None,
        unlike_records=tuple(each.lr for each in tried if not _is_of(each, by_rate[each.lr], measure)),
        better=_better_than(chosen, values, measure) if final else None,
    )


def _is_of(trial: Trial, record: Record, measure: Measure) -> bool:
    """Whether a trial has the results of its record."""
    return trial.loss == record.result.loss and trial.value in (None, _tuning_value(record, measure))


def _better_than(chosen: float, values: Mapping[float, float | None], measure: Measure) -> float | None:
    """The rate with the best tuning record, if that is better than the chosen one's."""
    known = {rate: value for rate, value in values.items() if value is not None}
    if chosen not in known:
        return None
    best = measure.best(known)
    return best if measure.sign * known[best] < measure.sign * known[chosen] else None


@dataclass(frozen=True)
class UncheckedChoice:
    """An arm whose learning rate was tuned, and the rates that it says were tried but that have no record here."""

    arm: str
    rates: tuple[float, ...]


def unchecked_choices(records: Sequence[Record], arms: Sequence[Arm]) -> tuple[UncheckedChoice, ...]:
    """Arms whose choice of a rate cannot be checked, because tuning runs left no record here.

    Those that the final runs say diverged leave none; older records do not say so.
    """
    found: dict[int, set[float]] = {id(arm): set() for arm in arms}  # arms of two data sets may share a label
    for record in records:
        arm = _final_arm(record, arms) if is_tuning(record.config) else None
        if arm is not None:
            found[id(arm)].add(record.config.optim.lr)
    unchecked = []
    for arm in arms:
        tuning = tuning_of(arm.config)
        if tuning is None:
            continue
        tried = [t.lr for t in tuning.choice.trials if t.loss is not None] if tuning.choice else tuning.grid
        lacking = tuple(rate for rate in tried if rate not in found[id(arm)])
        unchecked += [UncheckedChoice(arm.label, lacking)] if lacking else []
    return tuple(unchecked)


def _tuned_by(record: Record, name: str | None) -> Measure:
    """The measure of this name; without one, the first that the run's own validation has where larger is better."""
    by_name = {measure.name: measure for measure in record.declared}
    higher = [each for each in record.declared if each.sign < 0 and each.name in record.result.measures]
    return by_name[name] if name is not None else higher[0] if higher else by_name["loss"]


def _tuning_value(record: Record, measure: Measure) -> float | None:
    return record.result.loss if measure.name == "loss" else record.result.measures.get(measure.name)


# --- environments --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvironmentRow:
    """What runs were computed with, and how many of them."""

    environment: Environment
    runs: int


def environment_rows(arms: Sequence[Arm]) -> tuple[EnvironmentRow, ...]:
    """Each distinct environment once; empty where only reported runs are shown."""
    found = [record.environment for arm in arms for record in arm.records if record.environment is not None]
    return tuple(EnvironmentRow(each, found.count(each)) for each in dict.fromkeys(found))
