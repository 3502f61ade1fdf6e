"""Another study's figures beyond its results: all its runs side by side, their courses, their costs, their sources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from oelm.config.labelled_data import LabelledData
from oelm.config.measure import Bilingual, Measure
from oelm.config.model import GPTConfig
from oelm.config.original_study import CLAIMS, CONTRADICTIONS, Claim
from oelm.config.record import Record, Reported
from oelm.config.run import RunConfig
from oelm.report.arms import Arm, flat_settings, setting_name, setting_value
from oelm.report.findings import Estimate, Finding

TARGETS = (3.0, 2.5, 2.0, 1.9, 1.8, 1.7, 1.6, 1.5)
"""Validation losses of which is asked when they were reached."""
_SETTINGS = (
    "train.sequences_per_step",
    "optim.schedule",
    "optim.warmup_steps",
    "optim.min_lr_ratio",
    "optim.weight_decay",
    "optim.decay",
    "optim.beta1",
    "optim.beta2",
    "optim.clip",
    "train.precision",
    "train.validate_every",
    "data.max_length",
    "model.dropout",
)


@dataclass(frozen=True)
class ReportedRun:
    """One run as it was reported."""

    id: str
    data: str
    arm: Arm
    lr: float
    steps: int
    epochs: float | None
    converged_epochs: float | None
    measure: Measure
    value: float | None
    loss: float | None
    estimate: Estimate | None
    """Against its control."""
    shown: Estimate | None
    stored: int
    trained: int
    frozen: int
    wall_seconds: float | None
    mean_step_seconds: float | None
    median_step_seconds: float | None
    measured_steps: int | None
    validation_seconds: float | None

    @property
    def per_weight(self) -> float | None:
        """Perplexity over trained weights."""
        return self.value / self.trained if self.value and not self.measure.percent else None

    @property
    def per_hour(self) -> float | None:
        """Perplexity over hours."""
        if not self.value or not self.wall_seconds or self.measure.percent:
            return None
        return self.value / (self.wall_seconds / 3600)


@dataclass(frozen=True)
class CoursePoint:
    """A validation of several runs: the loss of each, and how much lower it is than at the point before."""

    step: int
    losses: Mapping[str, float]
    improvements: Mapping[str, float]


@dataclass(frozen=True)
class TrainingRow:
    """Training losses of several runs at a step."""

    step: int
    lr: float
    losses: Mapping[str, float]


@dataclass(frozen=True)
class TargetRow:
    """When a loss was first seen: the step of each run, and how often it had read its corpus by then."""

    loss: float
    steps: Mapping[str, int]
    epochs: Mapping[str, float]


@dataclass(frozen=True)
class Course:
    """How runs of one experiment went."""

    data: str
    ids: tuple[str, ...]
    validation: tuple[CoursePoint, ...]
    training: tuple[TrainingRow, ...]
    targets: tuple[TargetRow, ...]


@dataclass(frozen=True)
class SourcedSetting:
    """A setting of some runs, and who states it."""

    name: str
    runs: tuple[str, ...]
    value: str
    source: Literal["report", "script", "not stated"]


@dataclass(frozen=True)
class ReportedStudy:
    """Everything that was reported."""

    runs: tuple[ReportedRun, ...]
    courses: tuple[Course, ...]
    settings: tuple[SourcedSetting, ...]
    claims: tuple[Claim, ...]
    contradictions: tuple[Bilingual, ...]


def reported_study(groups: Sequence[Sequence[Finding]]) -> ReportedStudy | None:
    """The figures of the reported arms among the findings of each experiment; None without any."""
    theirs = [[found for found in group if found.arm.source == "reported"] for group in groups]
    runs = tuple(_run(found) for group in theirs for found in group)
    if not runs:
        return None
    courses = [_course([found.arm.record for found in group]) for group in theirs if group]
    records = [found.arm.record for group in theirs for found in group]
    return ReportedStudy(
        runs=runs,
        courses=tuple(course for course in courses if course.validation),
        settings=_settings(records),
        claims=CLAIMS,
        contradictions=CONTRADICTIONS,
    )


def _reported(record: Record) -> Reported:
    assert record.reported is not None
    return record.reported


def _run(found: Finding) -> ReportedRun:
    record, config = found.arm.record, found.arm.config
    timing, reported = record.timing, _reported(record)
    return ReportedRun(
        id=reported.id,
        data=config.data.name,
        arm=found.arm,
        lr=config.optim.lr,
        steps=config.train.steps,
        epochs=_epochs(record, config.train.steps),
        converged_epochs=reported.converged_epochs,
        measure=found.measure,
        value=found.mean,
        loss=record.result.loss,
        estimate=found.estimate,
        shown=found.shown,
        stored=record.counts.stored,
        trained=record.counts.trained,
        frozen=record.counts.frozen,
        wall_seconds=timing.wall_seconds,
        mean_step_seconds=timing.mean_step_seconds,
        median_step_seconds=timing.median_step_seconds,
        measured_steps=timing.measured_steps,
        validation_seconds=timing.validation_seconds,
    )


def _epochs(record: Record, steps: int) -> float | None:
    """How often so many steps read the training set."""
    config, tokens = record.config, _reported(record).corpus_tokens
    if isinstance(config.data, LabelledData):
        return steps * config.train.sequences_per_step / config.data.train_examples
    if tokens is None or not isinstance(config.model, GPTConfig):
        return None
    return steps * config.train.sequences_per_step * config.model.context / tokens


def _course(records: Sequence[Record]) -> Course:
    shown = [record for record in records if len(record.curve) > 1]
    curves = {_reported(record).id: {point.step: point.loss for point in record.curve} for record in shown}
    training = [(_reported(record).id, point) for record in shown for point in _reported(record).training]
    rates = {point.step: point.lr for _, point in training}
    steps = sorted({step for curve in curves.values() for step in curve})
    return Course(
        data=records[0].config.data.name,
        ids=tuple(curves),
        validation=tuple(_point(step, curves) for step in steps),
        training=tuple(
            TrainingRow(step, lr, {run: point.loss for run, point in training if point.step == step})
            for step, lr in sorted(rates.items())
        ),
        targets=tuple(row for target in TARGETS if (row := _target(target, shown)).steps),
    )


def _point(step: int, curves: Mapping[str, Mapping[int, float]]) -> CoursePoint:
    losses = {run: curve[step] for run, curve in curves.items() if step in curve}
    before = {run: max((at for at in curves[run] if at < step), default=None) for run in losses}
    improvements = {run: 1 - losses[run] / curves[run][at] for run, at in before.items() if at is not None}
    return CoursePoint(step, losses, improvements)


def _target(loss: float, records: Sequence[Record]) -> TargetRow:
    """Runs whose first point lies below the target are left out: it is not known when they reached it."""
    steps: dict[str, int] = {}
    epochs: dict[str, float] = {}
    for record in records:
        reached = [point.step for point in record.curve if point.loss <= loss]
        if record.curve[0].loss <= loss or not reached:
            continue
        steps[_reported(record).id] = reached[0]
        read = _epochs(record, reached[0])
        if read is not None:
            epochs[_reported(record).id] = read
    return TargetRow(loss, steps, epochs)


def _settings(records: Sequence[Record]) -> tuple[SourcedSetting, ...]:
    """Runs with one value from one source stand together."""
    found: dict[tuple[str, str, Literal["report", "script", "not stated"]], list[str]] = {}
    for path in (*_SETTINGS, "seed"):
        for record in records:
            value = str(record.config.seed) if path == "seed" else _value(record.config, path)
            if value is not None:
                found.setdefault((path, value, _source(_reported(record), path)), []).append(_reported(record).id)
    return tuple(
        SourcedSetting(setting_name(path), tuple(runs), value, source) for (path, value, source), runs in found.items()
    )


def _value(config: RunConfig, path: str) -> str | None:
    """None of a setting that there is not; a warm-up of a share of the steps is one."""
    if path == "optim.warmup_steps" and isinstance(config.data, LabelledData):
        return f"{config.optim.warmup_steps / config.train.steps:.0%}".replace("%", " %")
    usual = {"optim.schedule", "optim.decay"}
    return setting_value(config, path) if path in flat_settings(config) or path in usual else None


def _source(reported: Reported, path: str) -> Literal["report", "script", "not stated"]:
    if path in reported.script:
        return "script"
    return "not stated" if path in reported.unstated else "report"


def perplexity(loss: float) -> float:
    """e^loss."""
    return math.exp(loss)
