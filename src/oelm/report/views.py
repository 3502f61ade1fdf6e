"""Views of one experiment as plain data: what is shown besides the verdict.

Nothing here claims anything: intervals in views are plain 95 % intervals, not corrected for there being many.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from oelm.config.evaluated import EvaluationFile, PairedDifference, Suite, SuiteResult
from oelm.config.measure import Measure
from oelm.config.method import Method
from oelm.config.methods import METHODS
from oelm.config.record import LayerGeometry
from oelm.report.arms import Arm, choose_control, is_same_method
from oelm.report.confounds import Confound, design_confounds, scale_gaps
from oelm.report.findings import Estimate, estimate_pair

TIME_NOISE = 0.02
"""Step times of equal work differ by this much or more; a saving within it of the bound is not remarked."""


class AblationChange(StrEnum):
    """What changes from one arm of a decomposition to the next."""

    FREEZING = "freezing"
    """Trained normal Q and K -> frozen head-wise orthogonal ones: what the method costs in all."""
    DIRECTION = "direction"
    """Frozen orthogonal -> frozen random rows of the same length: what orthogonality is worth."""
    DIRECTION_AND_SCALE = "direction-and-scale"
    """The same with rows of another length, as in the original study: two changes at once."""
    SCALE = "scale"
    """Frozen random rows -> as random, of another length."""
    INIT = "init"
    """Trained normal -> trained orthogonal: what the init alone does."""
    FREEZING_ALONE = "freezing-alone"
    """Trained orthogonal -> the same frozen."""


@dataclass(frozen=True)
class AblationStep:
    """Two arms that differ in one thing, and the second relative to the first."""

    change: AblationChange
    start: Arm
    end: Arm
    estimate: Estimate | None
    confounds: tuple[Confound, ...]


@dataclass(frozen=True)
class CostRow:
    """What an arm used, next to the bound that arithmetic sets; None where it is not known.

    Times on a shared machine are no evidence.
    """

    arm: Arm
    control: Arm | None
    trained_weights: int
    frozen_weights: int
    absent_weights: int
    run_flops: float | None
    flops_saved_share: float | None
    """The bound: a method cannot save a larger share of the time by computing less."""
    step_seconds: float | None
    time_saved_share: float | None
    """Of the control's time per step (of its wall time, where only that was reported)."""
    training_seconds: float | None
    wall_seconds: float | None
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
class SampledText:
    """What the models of several arms made of one beginning, all with the same draws; one run of each arm."""

    prompt: str
    by_arm: Mapping[str, str]
    """By the label of the arm."""


@dataclass(frozen=True)
class HeadMap:
    """One score of every head of one run's model, by layer and head."""

    arm: Arm
    seed: int
    measure: Measure
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TextDifference:
    """A model against another on the same tokens or items, with 95 % over these alone."""

    arm: Arm
    seed: int
    pair: PairedDifference


def ablation_steps(arms: Sequence[Arm], measure: Measure, on: str) -> tuple[AblationStep, ...]:
    """The decomposition control -> frozen orthogonal -> frozen random, and what else the arms allow."""
    return tuple(
        AblationStep(change, start, end, estimate_pair(end, start, measure, on), _step_confounds(change, start, end))
        for oelm in arms
        if is_same_method(oelm.method, METHODS["oelm"])
        for change, start, end in _steps(oelm, arms)
    )


def _steps(oelm: Arm, arms: Sequence[Arm]) -> list[tuple[AblationChange, Arm, Arm]]:
    control = choose_control(oelm, arms)
    names = ("oelm-random-matched", "oelm-random", "orthogonal-trained")
    matched, random, trained = (_partner(oelm, METHODS[name], arms) for name in names)
    equal = matched is not None and not scale_gaps((oelm, matched))  # on a pre-trained model matched to other rows
    steps = (
        (AblationChange.FREEZING, control, oelm),
        (AblationChange.DIRECTION if equal else AblationChange.DIRECTION_AND_SCALE, oelm, matched),
        (AblationChange.DIRECTION_AND_SCALE, oelm, random),
        (AblationChange.SCALE, matched, random),
        (AblationChange.INIT, control, trained),
        (AblationChange.FREEZING_ALONE, trained, oelm),
    )
    return [(change, start, end) for change, start, end in steps if start and end]


def _partner(oelm: Arm, method: Method, arms: Sequence[Arm]) -> Arm | None:
    """The arm with this method that has the fewest other differences."""
    alike = [arm for arm in arms if is_same_method(arm.method, method) and arm.source == oelm.source]
    return min(alike, key=lambda arm: len(design_confounds(arm, oelm)), default=None)


def _step_confounds(change: AblationChange, start: Arm, end: Arm) -> tuple[Confound, ...]:
    gaps = () if change is AblationChange.SCALE else scale_gaps((end, start))
    return (*design_confounds(end, start), *(gap.confound for gap in gaps))


def cost_rows(arms: Sequence[Arm]) -> tuple[CostRow, ...]:
    """Weights, FLOPs, time and memory of every arm."""
    return tuple(_cost(arm, choose_control(arm, arms)) for arm in arms)


def _cost(arm: Arm, control: Arm | None) -> CostRow:
    counts, flops = arm.record.counts, arm.record.flops
    wall, validation = _mean_time(arm, "wall_seconds"), _mean_time(arm, "validation_seconds")
    time_saved = _saved(arm.step_seconds, control.step_seconds if control else None)
    if time_saved is None and control is not None:
        time_saved = _saved(wall, _mean_time(control, "wall_seconds"))
    return CostRow(
        arm=arm,
        control=control,
        trained_weights=arm.ever_trained,
        frozen_weights=counts.frozen - counts.later,
        absent_weights=counts.absent,
        run_flops=flops.run if flops else None,
        flops_saved_share=arm.flops_saved_share,
        step_seconds=arm.step_seconds,
        time_saved_share=time_saved,
        training_seconds=_mean_time(arm, "training_seconds"),
        wall_seconds=wall,
        tokens_per_second=_mean_time(arm, "tokens_per_second"),
        validation_share=validation / wall if validation and wall else None,
        peak_bytes=_peak(arm),
        memory_saved_share=_saved(_peak(arm), _peak(control)) if control else None,
    )


def _mean_time(arm: Arm, field: str) -> float | None:
    known = [value for record in arm.records if (value := getattr(record.timing, field)) is not None]
    return fmean(known) if known else None


def _peak(arm: Arm) -> int | None:
    return max((record.timing.peak_bytes or 0 for record in arm.records), default=0) or None


def _saved(ours: float | None, theirs: float | None) -> float | None:
    return 1 - ours / theirs if ours is not None and theirs else None


def audit_rows(arms: Sequence[Arm]) -> tuple[AuditRow, ...]:
    """One row per arm that freezes anything."""
    return tuple(_audit(arm) for arm in arms if arm.method.plan is not None)


def _audit(arm: Arm) -> AuditRow:
    frozen = arm.record.counts.frozen
    audits = [record.audit for record in arm.records if record.audit is not None]
    if len(audits) < len(arm.records):
        return AuditRow(arm, None, None, None, frozen, None, None)
    return AuditRow(
        arm=arm,
        frozen_tensors=len(audits[0].always_frozen),
        later_tensors=len(audits[0].later_trained),
        trained_tensors=len(audits[0].trained),
        frozen_weights=frozen,
        unchanged=all(audit.unchanged for audit in audits) if audits[0].always_frozen else None,
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
        fields = [name for name in LayerGeometry.model_fields if name != "layer"]
        rows += [
            GeometryRow(arm, place, **{name: fmean(getattr(layer, name) for layer in layers) for name in fields})
            for place, layers in sorted(by_layer.items())
        ]
    return tuple(rows)


# --- what models were asked afterwards ------------------------------------------------------------------------------

Answers = Mapping[str, EvaluationFile]
"""By the fingerprint of the run."""


def sampled_texts(arms: Sequence[Arm], answers: Answers) -> tuple[SampledText, ...]:
    """Each beginning with what the first run of every arm that was asked made of it."""
    found: dict[str, dict[str, str]] = {}
    for arm, _, result in _first_results(arms, answers, Suite.GENERATION):
        for sample in result.samples:
            found.setdefault(sample.prompt, {})[arm.label] = sample.text
    return tuple(SampledText(prompt, texts) for prompt, texts in found.items())


def head_maps(arms: Sequence[Arm], answers: Answers) -> tuple[HeadMap, ...]:
    """Where the heads of the first run of every arm that was asked look."""
    maps = []
    for arm, seed, result in _first_results(arms, answers, Suite.ATTENTION):
        layers: dict[int, list[Mapping[str, float]]] = {}
        for part in result.parts:
            layers.setdefault(int(part.name.partition(".")[0]), []).append(part.measures)
        for measure in result.measures:
            values = tuple(tuple(head[measure.name] for head in heads) for _, heads in sorted(layers.items()))
            maps.append(HeadMap(arm, seed, measure, values))
    return tuple(maps)


def text_differences(arms: Sequence[Arm], answers: Answers) -> tuple[TextDifference, ...]:
    """Every pair of models that was asked the same."""
    return tuple(
        TextDifference(arm, record.config.seed, pair)
        for arm in arms
        for record in arm.records
        if record.fingerprint in answers
        for pair in answers[record.fingerprint].paired
    )


def _first_results(arms: Sequence[Arm], answers: Answers, suite: Suite) -> Iterator[tuple[Arm, int, SuiteResult]]:
    """Of each arm the run with the lowest seed that was asked."""
    for arm in arms:
        found = (
            (record.config.seed, result)
            for record in arm.records
            if record.fingerprint in answers
            for result in answers[record.fingerprint].results
            if result.suite is suite
        )
        for seed, result in list(found)[:1]:
            yield arm, seed, result
