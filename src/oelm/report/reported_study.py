"""Another study's figures beyond its results: all its runs side by side, their courses, their costs, their sources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from oelm.config.labelled_data import LabelledData
from oelm.config.measure import Bilingual, Measure
from oelm.config.model import GPTConfig
from oelm.config.original_study import CLAIMS, CONTRADICTIONS, WISHES, Claim, Wish
from oelm.config.record import Record, Reported
from oelm.config.run import RunConfig, TrainConfig
from oelm.report.arms import Arm, flat_settings, setting_name, setting_value
from oelm.report.findings import Estimate, Finding

TARGETS = (3.0, 2.5, 2.0, 1.9, 1.8, 1.7, 1.6, 1.5)
"""Validation losses of which is asked when they were reached."""
_SETTINGS = (
    *(f"model.{name}" for name in ("layers", "width", "heads", "ffn_width", "context", "vocabulary", "dropout")),
    "train.sequences_per_step",
    "train.processes",
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
    "train.validation_sequences",
    "machine.save_every",
    "data.max_length",
)


@dataclass(frozen=True)
class ReportedRun:
    """One run as it was reported."""

    id: str
    data: str
    arm: Arm
    model_type: str | None
    """What they call its method."""
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
    wall_time: str | None
    """As printed."""
    wall_seconds: float | None
    mean_step_seconds: float | None
    median_step_seconds: float | None
    measured_steps: int | None
    validation_seconds: float | None
    per_weight: float | None
    """Perplexity over trained weights."""
    per_hour: float | None
    """Perplexity over hours."""
    remarks: tuple[Bilingual, ...]


@dataclass(frozen=True)
class CoursePoint:
    """A validation of several runs: what is known of each, and how much lower its loss is than at the point before."""

    step: int
    until: int | None
    """Where a range of steps was reported, its end."""
    losses: Mapping[str, float]
    perplexities: Mapping[str, float]
    about: tuple[str, ...]
    """Runs whose perplexity was only given roughly."""
    improvements: Mapping[str, float]


@dataclass(frozen=True)
class TrainingRow:
    """Training losses of several runs at a step."""

    step: int
    lr: float
    losses: Mapping[str, float]
    perplexities: Mapping[str, float]


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
    wishes: tuple[Wish, ...]


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
        wishes=WISHES,
    )


def _reported(record: Record) -> Reported:
    assert record.reported is not None
    return record.reported


def _run(found: Finding) -> ReportedRun:
    record, config = found.arm.record, found.arm.config
    timing, reported = record.timing, _reported(record)
    value = record.result.measures.get(found.measure.name)
    cost = None if found.measure.percent else value
    return ReportedRun(
        id=reported.id,
        data=config.data.name,
        arm=found.arm,
        model_type=reported.model_type,
        lr=config.optim.lr,
        steps=config.train.steps,
        epochs=_epochs(record, config.train.steps),
        converged_epochs=reported.converged_epochs,
        measure=found.measure,
        value=value,
        loss=record.result.loss,
        estimate=found.estimate,
        shown=found.shown,
        stored=record.counts.stored,
        trained=record.counts.trained,
        frozen=record.counts.frozen,
        wall_time=reported.wall_time,
        wall_seconds=timing.wall_seconds,
        mean_step_seconds=timing.mean_step_seconds,
        median_step_seconds=timing.median_step_seconds,
        measured_steps=timing.measured_steps,
        validation_seconds=timing.validation_seconds,
        per_weight=None if cost is None else cost / record.counts.trained,
        per_hour=None if cost is None or timing.wall_seconds is None else cost / (timing.wall_seconds / 3600),
        remarks=reported.remarks,
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
    validations = {_reported(record).id: _validations(record) for record in shown}
    training = [(_reported(record).id, point) for record in shown for point in _reported(record).training]
    rates = {point.step: point.lr for _, point in training}
    places = sorted({place for validated in validations.values() for place in validated}, key=lambda place: place[0])
    losses = {step: {run: point.loss for run, point in training if point.step == step} for step in sorted(rates)}
    return Course(
        data=records[0].config.data.name,
        ids=tuple(validations),
        validation=tuple(_point(place, validations) for place in places),
        training=tuple(
            TrainingRow(step, rates[step], by_run, {run: math.exp(loss) for run, loss in by_run.items()})
            for step, by_run in losses.items()
        ),
        targets=tuple(row for target in TARGETS if (row := _target(target, shown)).steps),
    )


_Place = tuple[int, int | None]
"""A step, and the end of a range of steps."""


@dataclass(frozen=True)
class _Validation:
    """What was printed: a loss, whose perplexity follows, or a perplexity."""

    loss: float | None
    perplexity: float
    is_about: bool = False


def _validations(record: Record) -> dict[_Place, _Validation]:
    printed = _reported(record).perplexities
    if not printed:
        return {(point.step, None): _Validation(point.loss, math.exp(point.loss)) for point in record.curve}
    last = record.config.train.steps
    return {
        (each.step, each.until): _Validation(
            record.result.loss if each.step == last else None, each.value, each.is_about
        )
        for each in printed
    }


def _point(place: _Place, validations: Mapping[str, Mapping[_Place, _Validation]]) -> CoursePoint:
    here = {run: validated[place] for run, validated in validations.items() if place in validated}
    losses = {run: each.loss for run, each in here.items() if each.loss is not None}
    improvements = {}
    for run, loss in losses.items():
        before = [each.loss for (step, _), each in validations[run].items() if step < place[0]]
        if before and before[-1] is not None:
            improvements[run] = 1 - loss / before[-1]
    return CoursePoint(
        step=place[0],
        until=place[1],
        losses=losses,
        perplexities={run: each.perplexity for run, each in here.items()},
        about=tuple(run for run, each in here.items() if each.is_about),
        improvements=improvements,
    )


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
    if path == "machine.save_every":  # it changes no number, nor do processes, so they are not among the settings
        return str(config.machine.save_every)
    if path == "train.processes":
        return str(config.train.processes)
    if path == "train.sequences_per_step":
        return _batch(config.train)
    usual = {"optim.schedule", "optim.decay"}
    return setting_value(config, path) if path in flat_settings(config) or path in usual else None


def _batch(train: TrainConfig) -> str:
    """`8`; over several processes with how it is divided: `16 (2 × 8)`."""
    total, processes = train.sequences_per_step, train.processes
    return str(total) if processes == 1 else f"{total} ({processes} × {total // processes})"


def _source(reported: Reported, path: str) -> Literal["report", "script", "not stated"]:
    if path in reported.script:
        return "script"
    return "not stated" if path in reported.unstated else "report"
