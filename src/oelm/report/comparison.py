"""Each arm beside its control: the ratio, the verdict, and what else could explain it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from oelm.base.errors import ConfigError
from oelm.config.record import Record
from oelm.report.arms import Arm, group_into_arms
from oelm.report.blocks import Contrast, chosen_contrast, paired_contrast, pooled_contrast
from oelm.report.confounds import Confound, ScaleGap, confounds_between, scale_gaps
from oelm.report.family import family_confidences
from oelm.report.sides import choose_control, is_reference
from oelm.report.statistics import (
    CONFIDENCE,
    DEFAULT_MARGIN,
    SEEDS_FOR_INTERVAL,
    SEEDS_FOR_VERDICT,
    Estimate,
    Interval,
    IntervalKind,
    Verdict,
    check_margin,
    exponential,
    judge,
    paired_differences,
    ratio_interval,
)


@dataclass(frozen=True)
class MissingRuns:
    """Seeds that a method still needs for a verdict."""

    method: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Finding:
    """One arm against its control. A plain baseline, and an arm without any control, have none."""

    arm: Arm
    control: Arm | None
    estimate: Estimate | None
    verdict: Verdict
    confounds: tuple[Confound, ...]
    missing: tuple[MissingRuns, ...]
    """What to run for a verdict; empty where there is one."""
    is_primary: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether the arm is a plain baseline: others are measured against it."""
        return is_reference(self.arm)

    @property
    def ratios_by_seed(self) -> dict[int, float]:
        """The perplexity ratio of each pair."""
        if self.control is None:
            return {}
        ours, theirs = self.arm.log_perplexities, self.control.log_perplexities
        return {seed: exponential(ours[seed] - theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())}

    @property
    def time_ratio(self) -> float | None:
        """Measured time per step relative to the control; shown, but no evidence of anything."""
        ours, theirs = self.arm.step_seconds, self.control.step_seconds if self.control else None
        return ours / theirs if ours and theirs else None


@dataclass(frozen=True)
class Blocks:
    """The seeds that all arms of the pooled model have, and those that some of them lack."""

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    left_out: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """All arms of a set of records; what every rendering reads."""

    margin: float
    findings: tuple[Finding, ...]
    scale_gaps: tuple[ScaleGap[Arm], ...]
    unfinished: tuple[Path, ...] = ()
    blocks: Blocks | None = None
    """None where no scatter was pooled."""

    @property
    def primary(self) -> Finding | None:
        """The finding that answers the study's question; None where none was stated beforehand."""
        return next((finding for finding in self.findings if finding.is_primary), None)


def compare(
    records: Sequence[Record],
    margin: float | None = None,
    unfinished: Sequence[Path] = (),
    primary: str | None = None,
) -> Comparison:
    """Group records into arms and set each beside its control.

    Margin and primary arm (a method) are those that the records state, unless they are given.
    """
    return compare_arms(group_into_arms(records), margin, unfinished, primary)


def compare_arms(
    arms: Sequence[Arm],
    margin: float | None = None,
    unfinished: Sequence[Path] = (),
    primary: str | None = None,
) -> Comparison:
    """Set each arm beside its control; all that have one are tested as one family."""
    kept = stated_margin(arms) if margin is None else margin
    check_margin(kept)
    controls = {arm.label: choose_control(arm, arms) for arm in arms}
    singled_out = primary_arm(arms, primary)
    blocks = complete_blocks(arms)
    contrasts = {
        arm.label: _contrast(arm, control, arms, blocks)
        for arm in arms
        if (control := controls[arm.label]) is not None and _pairs(arm, control) >= SEEDS_FOR_INTERVAL
    }
    confidences = _confidences(contrasts, controls, arms, singled_out, math.log(kept))
    findings = tuple(
        _finding(arm, controls[arm.label], contrasts.get(arm.label), confidences, kept, arm.label == singled_out)
        for arm in arms
    )
    pooled = any(found.estimate and _is_pooled(found.estimate) for found in findings)
    return Comparison(kept, findings, scale_gaps(arms), tuple(unfinished), blocks if pooled else None)


def stated_margin(arms: Sequence[Arm]) -> float:
    """The margin of the study that the arms belong to."""
    margins = {arm.config.study.margin for arm in arms if arm.config.study is not None}
    if len(margins) > 1:
        written = " and ".join(f"{margin:g}" for margin in sorted(margins))
        raise ConfigError(f"these runs were made for different margins ({written})", "choose one with --margin")
    return margins.pop() if margins else DEFAULT_MARGIN


def primary_arm(arms: Sequence[Arm], method: str | None = None) -> str | None:
    """The label of the one arm with the method that was stated (or is given) as primary; None unless it is one."""
    stated = {arm.config.study.primary for arm in arms if arm.config.study is not None} - {None}
    wanted = method if method is not None else stated.pop() if len(stated) == 1 else None
    chosen = [arm.label for arm in arms if arm.method.name == wanted and not is_reference(arm)]
    if method is not None and not chosen:
        raise ConfigError(f"no arm has the method {method!r}", "name the method of one of the arms, not of a baseline")
    return chosen[0] if len(chosen) == 1 else None


def complete_blocks(arms: Sequence[Arm]) -> Blocks | None:
    """What the pooled model is fitted to: arms with enough seeds for a verdict, and the seeds that all of them have."""
    able = [arm for arm in arms if len(arm.log_perplexities) >= SEEDS_FOR_VERDICT]
    if len(able) < 3:  # with two arms the pooled interval is the paired one
        return None
    common = set.intersection(*(set(arm.log_perplexities) for arm in able))
    if len(common) < SEEDS_FOR_VERDICT:
        return None
    every = {seed for arm in able for seed in arm.log_perplexities}
    return Blocks(tuple(arm.label for arm in able), tuple(sorted(common)), tuple(sorted(every - common)))


def missing_runs(arm: Arm, control: Arm) -> tuple[MissingRuns, ...]:
    """The fewest further runs that make enough pairs: complete half pairs first, then take new seeds."""
    ours, theirs = set(arm.seeds), set(control.seeds)
    known = [*sorted(ours & theirs), *sorted(ours ^ theirs)]
    fresh = (seed for seed in count() if seed not in known)
    wanted = [known[index] if index < len(known) else next(fresh) for index in range(SEEDS_FOR_VERDICT)]
    lacking = (
        MissingRuns(side.method.name, tuple(seed for seed in wanted if seed not in side.seeds))
        for side in (arm, control)
    )
    return tuple(runs for runs in lacking if runs.seeds)


@dataclass(frozen=True)
class _Chosen:
    """The contrast that judges an arm, and the other one."""

    contrast: Contrast
    kind: IntervalKind
    pairs: int
    beside: Contrast | None


def _pairs(arm: Arm, control: Arm) -> int:
    return len(arm.log_perplexities.keys() & control.log_perplexities.keys())


def _contrast(arm: Arm, control: Arm, arms: Sequence[Arm], blocks: Blocks | None) -> _Chosen:
    pairs = _pairs(arm, control)
    paired = paired_contrast(np.array(paired_differences(arm.log_perplexities, control.log_perplexities)))
    if blocks is None or arm.label not in blocks.arms or control.label not in blocks.arms:
        return _Chosen(paired, IntervalKind.PAIRED, pairs, None)
    losses = np.array(
        [[each.log_perplexities[seed] for seed in blocks.seeds] for each in arms if each.label in blocks.arms]
    )
    places = blocks.arms.index(arm.label), blocks.arms.index(control.label)
    pooled = pooled_contrast(losses, *places)
    _, differ = chosen_contrast(losses, *places)
    if differ:
        return _Chosen(paired, IntervalKind.PAIRED, pairs, pooled)
    return _Chosen(pooled, IntervalKind.POOLED, len(blocks.seeds), paired)


def _confidences(
    contrasts: Mapping[str, _Chosen],
    controls: Mapping[str, Arm | None],
    arms: Sequence[Arm],
    primary: str | None,
    log_margin: float,
) -> dict[str, float]:
    """By label; arms with too few pairs for a verdict are not tested and get a plain interval."""
    tested = []
    for arm in arms:
        control = controls[arm.label]
        if control is not None and _pairs(arm, control) >= SEEDS_FOR_VERDICT:
            tested.append(arm.label)
    if not tested:
        return {}
    p_values = np.array([float(contrasts[label].contrast.p_value(log_margin)) for label in tested])
    confidences = family_confidences(p_values, tested.index(primary) if primary in tested else None)
    return dict(zip(tested, confidences.tolist(), strict=True))


def _finding(
    arm: Arm,
    control: Arm | None,
    chosen: _Chosen | None,
    confidences: Mapping[str, float],
    margin: float,
    is_primary: bool,
) -> Finding:
    if control is None:
        return Finding(arm, None, None, Verdict.NO_VERDICT, (), (), is_primary)
    estimate = _estimate(arm, control, chosen, confidences.get(arm.label, CONFIDENCE))
    verdict = judge(estimate, margin)
    missing = missing_runs(arm, control) if verdict is Verdict.NO_VERDICT else ()
    return Finding(arm, control, estimate, verdict, confounds_between(arm, control), missing, is_primary)


def _estimate(arm: Arm, control: Arm, chosen: _Chosen | None, confidence: float) -> Estimate | None:
    differences = paired_differences(arm.log_perplexities, control.log_perplexities)
    if not differences:
        return None
    if chosen is None:
        return Estimate(exponential(float(np.mean(differences))), len(differences), None)
    interval = ratio_interval(chosen.contrast, confidence, chosen.kind)
    return Estimate(exponential(float(chosen.contrast.mean)), chosen.pairs, interval, _beside(chosen, confidence))


def _beside(chosen: _Chosen, confidence: float) -> Interval | None:
    if chosen.beside is None:
        return None
    other = IntervalKind.PAIRED if chosen.kind is IntervalKind.POOLED else IntervalKind.POOLED
    return ratio_interval(chosen.beside, confidence, other)


def _is_pooled(estimate: Estimate) -> bool:
    return estimate.interval is not None and estimate.interval.kind is IntervalKind.POOLED
