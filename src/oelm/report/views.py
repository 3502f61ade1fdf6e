"""Views of one experiment as plain data: what the page, Markdown and JSON show beside the verdict.

Nothing here claims anything: intervals in views are plain 95 % paired intervals, not corrected for there being many.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from oelm.config.method import Method
from oelm.config.methods import METHODS
from oelm.config.record import LayerGeometry
from oelm.report.arms import Arm
from oelm.report.blocks import paired_contrast
from oelm.report.confounds import Confound, ConfoundKind, design_confounds, scale_gaps
from oelm.report.numerals import written_ratio
from oelm.report.sides import choose_control, is_same_method
from oelm.report.statistics import (
    CONFIDENCE,
    SEEDS_FOR_INTERVAL,
    Estimate,
    IntervalKind,
    exponential,
    paired_differences,
    ratio_interval,
)

TIME_NOISE = 0.02
"""Step times of equal work differ by this much or more; a saving within it of the bound is not remarked."""


class AblationChange(StrEnum):
    """What changes from one arm of a decomposition to the next."""

    FREEZING = "freezing"
    """Trained normal Q and K -> frozen head-wise orthogonal ones: what the method costs in all."""
    DIRECTION = "direction"
    """Frozen orthogonal -> frozen random rows of the same length: what orthogonality is worth."""
    DIRECTION_AND_SCALE = "direction-and-scale"
    """The same with shorter rows, as in the original study: two changes at once."""
    SCALE = "scale"
    """Frozen random rows of norm 1 -> of the original's length."""
    INIT = "init"
    """Trained normal -> trained orthogonal: what the init alone does."""
    FREEZING_ALONE = "freezing-alone"
    """Trained orthogonal -> the same frozen."""


@dataclass(frozen=True)
class AblationStep:
    """Two arms that differ in one thing, and the perplexity ratio of the second to the first."""

    change: AblationChange
    start: Arm
    end: Arm
    estimate: Estimate | None
    confounds: tuple[Confound, ...]


@dataclass(frozen=True)
class ResourceRow:
    """What an arm used, beside what it reached; None where it is not known."""

    arm: Arm
    trained_weights: int
    frozen_weights: int
    absent_weights: int
    loss: float | None
    perplexity: float | None
    run_flops: float | None
    training_seconds: float | None
    wall_seconds: float | None


@dataclass(frozen=True)
class SpeedRow:
    """Time and memory beside the bound that arithmetic sets; times on a shared machine are no evidence."""

    arm: Arm
    control: Arm | None
    flops_saved_share: float | None
    """The bound: a method cannot save a larger share of the time by computing less."""
    step_seconds: float | None
    time_saved_share: float | None
    """Of the control's time per step (of its wall time, where only that was reported)."""
    tokens_per_second: float | None
    validation_share: float | None
    """Of the wall time."""
    peak_bytes: int | None
    memory_saved_share: float | None

    @property
    def exceeds_bound(self) -> bool:
        """Whether more time was saved than computing less can save: then something else differed."""
        if self.time_saved_share is None or self.flops_saved_share is None:
            return False
        return self.time_saved_share > max(self.flops_saved_share, 0) + TIME_NOISE


@dataclass(frozen=True)
class AuditRow:
    """What became of the frozen weights of an arm; None where nobody looked."""

    arm: Arm
    frozen_tensors: int | None
    later_tensors: int | None
    trained_tensors: int | None
    frozen_weights: int
    unchanged: bool | None
    moved: bool | None


@dataclass(frozen=True)
class GeometryRow:
    """One layer's Q and K at init, mean over the seeds."""

    arm: Arm
    layer: int
    query_gram_error: float
    key_gram_error: float
    cross_head_overlap: float
    row_norm: float
    logit_std: float


@dataclass(frozen=True)
class EnvironmentRow:
    """What runs were computed with, and how many of them."""

    oelm: str
    python: str
    torch: str
    device: str
    threads: int
    git_commit: str | None
    git_dirty: bool | None
    runs: int


def ablation_steps(arms: Sequence[Arm]) -> tuple[AblationStep, ...]:
    """The decomposition control -> frozen orthogonal -> frozen random, and what else the arms allow."""
    return tuple(step for oelm in arms if is_same_method(oelm.method, METHODS["oelm"]) for step in _steps(oelm, arms))


def _steps(oelm: Arm, arms: Sequence[Arm]) -> Iterator[AblationStep]:
    control = choose_control(oelm, arms)
    matched = _partner(oelm, METHODS["oelm-random-matched"], arms)
    random = _partner(oelm, METHODS["oelm-random"], arms)
    trained = _partner(oelm, METHODS["orthogonal-trained"], arms)
    if control:
        yield _step(AblationChange.FREEZING, control, oelm)
    if matched:
        yield _step(AblationChange.DIRECTION, oelm, matched)
    if random:
        yield _step(AblationChange.DIRECTION_AND_SCALE, oelm, random)
    if matched and random:
        yield _step(AblationChange.SCALE, matched, random)
    if control and trained:
        yield _step(AblationChange.INIT, control, trained)
    if trained:
        yield _step(AblationChange.FREEZING_ALONE, trained, oelm)


def _partner(oelm: Arm, method: Method, arms: Sequence[Arm]) -> Arm | None:
    """The arm with this method that has the fewest other differences."""
    alike = [arm for arm in arms if is_same_method(arm.method, method) and arm.source == oelm.source]
    return min(alike, key=lambda arm: len(design_confounds(arm, oelm)), default=None)


def _step(change: AblationChange, start: Arm, end: Arm) -> AblationStep:
    gaps = [
        Confound(ConfoundKind.SCALE, "scale of Q and K", written_ratio(gap.other_norm), written_ratio(gap.one_norm))
        for gap in scale_gaps((start, end))
        if change is not AblationChange.SCALE
    ]
    return AblationStep(change, start, end, plain_estimate(end, start), (*design_confounds(end, start), *gaps))


def plain_estimate(arm: Arm, control: Arm) -> Estimate | None:
    """The perplexity ratio with its own 95 % paired interval."""
    differences = paired_differences(arm.log_perplexities, control.log_perplexities)
    if not differences:
        return None
    ratio = exponential(float(np.mean(differences)))
    if len(differences) < SEEDS_FOR_INTERVAL:
        return Estimate(ratio, len(differences), None)
    interval = ratio_interval(paired_contrast(np.array(differences)), CONFIDENCE, IntervalKind.PAIRED)
    return Estimate(ratio, len(differences), interval)


def resource_rows(arms: Sequence[Arm]) -> tuple[ResourceRow, ...]:
    """Loss against weights, FLOPs and time."""
    return tuple(
        ResourceRow(
            arm=arm,
            trained_weights=arm.ever_trained,
            frozen_weights=arm.records[0].counts.frozen - arm.records[0].counts.later,
            absent_weights=arm.records[0].counts.absent,
            loss=arm.mean_loss if arm.losses else None,
            perplexity=arm.mean_perplexity if arm.losses and arm.task == "language-modelling" else None,
            run_flops=arm.records[0].flops.run if arm.records[0].flops else None,
            training_seconds=_mean([record.timing.training_seconds for record in arm.records]),
            wall_seconds=_mean([record.timing.wall_seconds for record in arm.records]),
        )
        for arm in arms
    )


def speed_rows(arms: Sequence[Arm]) -> tuple[SpeedRow, ...]:
    """Time per step and peak memory beside the FLOP bound."""
    return tuple(_speed(arm, choose_control(arm, arms)) for arm in arms)


def _speed(arm: Arm, control: Arm | None) -> SpeedRow:
    wall, validation = _wall(arm), _mean([record.timing.validation_seconds for record in arm.records])
    theirs = control.step_seconds if control else None
    time_saved = _saved(arm.step_seconds, theirs)
    if time_saved is None and control is not None:
        time_saved = _saved(wall, _wall(control))
    peak = _peak(arm)
    return SpeedRow(
        arm=arm,
        control=control,
        flops_saved_share=arm.flops_saved_share,
        step_seconds=arm.step_seconds,
        time_saved_share=time_saved,
        tokens_per_second=_mean([record.timing.tokens_per_second for record in arm.records]),
        validation_share=validation / wall if validation and wall else None,
        peak_bytes=peak,
        memory_saved_share=_saved(peak, _peak(control)) if control else None,
    )


def _wall(arm: Arm) -> float | None:
    return _mean([record.timing.wall_seconds for record in arm.records])


def _peak(arm: Arm) -> int | None:
    return max((record.timing.peak_bytes or 0 for record in arm.records), default=0) or None


def _saved(ours: float | None, theirs: float | None) -> float | None:
    return 1 - ours / theirs if ours is not None and theirs else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def audit_rows(arms: Sequence[Arm]) -> tuple[AuditRow, ...]:
    """One row per arm that freezes anything."""
    return tuple(_audit(arm) for arm in arms if arm.method.plan is not None)


def _audit(arm: Arm) -> AuditRow:
    frozen = arm.records[0].counts.frozen
    audits = [record.audit for record in arm.records if record.audit is not None]
    if len(audits) < len(arm.records):
        return AuditRow(arm, None, None, None, frozen, None, None)
    return AuditRow(
        arm=arm,
        frozen_tensors=len(audits[0].always_frozen),
        later_tensors=len(audits[0].later_trained),
        trained_tensors=len(audits[0].trained),
        frozen_weights=frozen,
        unchanged=all(audit.unchanged for audit in audits),
        moved=all(audit.moved for audit in audits),
    )


def geometry_rows(arms: Sequence[Arm]) -> tuple[GeometryRow, ...]:
    """Each layer of each arm whose Q and K were measured."""
    rows = []
    for arm in arms:
        by_layer: dict[int, list[LayerGeometry]] = {}
        for record in arm.records:
            for layer in record.geometry:
                by_layer.setdefault(layer.layer, []).append(layer)
        rows += [_geometry(arm, layers) for _, layers in sorted(by_layer.items())]
    return tuple(rows)


def _geometry(arm: Arm, layers: Sequence[LayerGeometry]) -> GeometryRow:
    def mean(field: str) -> float:
        return float(np.mean([getattr(layer, field) for layer in layers]))

    return GeometryRow(
        arm=arm,
        layer=layers[0].layer,
        query_gram_error=mean("query_gram_error"),
        key_gram_error=mean("key_gram_error"),
        cross_head_overlap=mean("cross_head_overlap"),
        row_norm=mean("row_norm"),
        logit_std=mean("logit_std"),
    )


def environment_rows(arms: Sequence[Arm]) -> tuple[EnvironmentRow, ...]:
    """Each distinct environment once; empty where only reported runs are shown."""
    found = [record.environment for arm in arms for record in arm.records if record.environment is not None]
    return tuple(
        EnvironmentRow(**environment.model_dump(), runs=found.count(environment))
        for environment in dict.fromkeys(found)
    )
