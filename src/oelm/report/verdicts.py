"""`judge`: from the values of all arms to estimates, intervals and verdicts. The simulations call this very function.

**Which level.** The primary arm was named before the runs and is tested at 5 %, uncorrected. All others are tested by
Holm's procedure on p_i, the p-values of "the difference is the criterion": sorted upwards, the j-th of m is held
against 0.05 / (m - j + 1) until one fails; that one and all after it stay undecided at its level.

**Intervals that agree.** The interval of an arm is shown at the level at which Holm judged it, 1 - 0.05 / k with the
divisor k of its step. By the duality of test and t-interval it excludes the criterion if and only if Holm rejects, so
the reader and the verdict see the same thing. The claims about the criterion (non-inferior, inferior) then err in at
most 5 % of experiments for the primary arm and in at most 5 % for all secondary arms together, half of each on either
side: wrong *non-inferior* anywhere is at most 2.5 % + 2.5 %. What is read off the same intervals about no difference
(better, measurably worse) is not what Holm tests; in simulations it errs as rarely.
"""

# A arms  S seeds  E examples

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from oelm.config.measure import CompareScale, Measure
from oelm.report import contrasts
from oelm.report.contrasts import CONFIDENCE, Contrast, Flags, Floats

ALPHA = 0.05
PAIRS_FOR_INTERVAL = 2
PAIRS_FOR_VERDICT = 3
ARMS_TO_POOL = 3
"""With two arms the pooled interval is the paired one."""


class Verdict(StrEnum):
    """Where the interval lies, seen from no difference and from the criterion."""

    BETTER = "better"
    """All of it on the better side of no difference."""
    NON_INFERIOR = "non-inferior"
    """None of it beyond the criterion."""
    INFERIOR = "inferior"
    """All of it beyond the criterion."""
    UNDECIDED = "undecided"
    """The criterion lies inside."""
    NO_VERDICT = "no verdict"
    """Too few paired seeds to say."""


class Model(StrEnum):
    """Whose scatter an interval is made from; see `contrasts.py`."""

    PAIRED = "paired"
    """That of the arm's own differences."""
    POOLED = "pooled"
    """That of all arms."""
    CROSSED = "crossed"
    """That of seeds and examples."""


@dataclass(frozen=True)
class Sample:
    """Values of a measure, ready to be subtracted: logarithms for a ratio, else as they are shown.

    `runs` has shape (..., A, S) and NaN where an arm lacks a seed (in all experiments alike); `examples` has shape
    (A, S, E) and holds the outcomes where they are known.
    """

    runs: Floats
    examples: Floats | None = None


@dataclass(frozen=True)
class Estimates:
    """Values with their intervals on one scale, elementwise over experiments; ends are NaN where there are none."""

    value: Floats
    lower: Floats
    upper: Floats
    confidence: Floats


@dataclass(frozen=True)
class Judgement:
    """An arm against its control, elementwise over experiments."""

    estimate: Estimates
    pairs: NDArray[np.int64]
    model: NDArray[np.str_]
    other: Estimates | None
    """From the other model: shown, but not used for the verdict."""
    shown: Estimates | None
    """On the measure's second scale."""
    smallest_criterion: Floats
    """The strictest criterion that could have been shown to be met, had the arm come out equal to its control."""
    verdict: NDArray[np.str_]


@dataclass(frozen=True)
class Blocks:
    """The arms and seeds that the pooled model is fitted to: enough seeds each, and all of them in every arm."""

    arms: tuple[int, ...]
    seeds: tuple[int, ...]


def judge(
    sample: Sample,
    controls: Sequence[int | None],
    measure: Measure,
    criterion: float,
    primary: int | None = None,
) -> list[Judgement | None]:
    """Every arm against its control, all of them as one family; None for an arm without control or common seed.

    `controls` holds the place of each arm's control, `primary` that of the arm that was stated beforehand.
    """
    assert measure.scale is not None, f"{measure.name} is not compared"
    chosen = [
        None if control is None else _chosen(sample, arm, control, measure) for arm, control in enumerate(controls)
    ]
    tested = [place for place, each in enumerate(chosen) if each is not None and each.is_tested]
    confidences = {place: np.asarray(CONFIDENCE) for place in range(len(chosen))}
    if tested:
        limit = math.log(criterion) if measure.scale is CompareScale.RATIO else criterion
        found = [each.contrast.p_value(limit) for place in tested if (each := chosen[place]) is not None]
        p_values = np.stack(found, axis=-1)
        levels = family_confidences(p_values, tested.index(primary) if primary in tested else None)
        confidences |= {place: levels[..., index] for index, place in enumerate(tested)}
    return [
        None if each is None else _judged(each, confidences[place], measure, criterion)
        for place, each in enumerate(chosen)
    ]


def blocks_of(runs: Floats) -> Blocks | None:
    """What can be pooled; None where there is too little."""
    present_AS = _present(runs)
    arms = tuple(np.flatnonzero(present_AS.sum(axis=1) >= PAIRS_FOR_VERDICT).tolist())
    if len(arms) < ARMS_TO_POOL:
        return None
    seeds = tuple(np.flatnonzero(present_AS[list(arms)].all(axis=0)).tolist())
    return Blocks(arms, seeds) if len(seeds) >= PAIRS_FOR_VERDICT else None


def holm_confidences(p_values: Floats, alpha: float = ALPHA) -> Floats:
    """The confidence of each interval, elementwise over experiments: p_values has shape (..., m)."""
    tests = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1, kind="stable")
    ascending = np.take_along_axis(p_values, order, axis=-1)
    divisors = tests - np.arange(tests)
    rejected = np.logical_and.accumulate(ascending <= alpha / divisors, axis=-1)
    # Holm stops at the first arm that is not rejected; all later ones keep its level.
    steps = np.minimum(rejected.sum(axis=-1, keepdims=True), np.arange(tests))
    confidences = np.empty_like(p_values)
    np.put_along_axis(confidences, order, 1 - alpha / divisors[steps], axis=-1)
    return confidences


def family_confidences(p_values: Floats, primary: int | None, alpha: float = ALPHA) -> Floats:
    """Holm's confidences, with the one at place `primary` left uncorrected; None where no arm was singled out."""
    if primary is None:
        return holm_confidences(p_values, alpha)
    secondary = [place for place in range(p_values.shape[-1]) if place != primary]
    confidences = np.full_like(p_values, 1 - alpha)
    if secondary:
        confidences[..., secondary] = holm_confidences(p_values[..., secondary], alpha)
    return confidences


@dataclass(frozen=True)
class _Chosen:
    """What an arm is judged by; a contrast without an error gives an estimate but no interval."""

    contrast: Contrast
    pairs: NDArray[np.int64]
    model: NDArray[np.str_]
    other: Contrast | None = None
    shown: Contrast | None = None

    @property
    def is_tested(self) -> bool:
        return int(self.pairs.min()) >= PAIRS_FOR_VERDICT and not np.isnan(self.contrast.error).any()


def _without_error(mean: Floats) -> Contrast:
    nothing = np.full(np.shape(mean), np.nan)
    return Contrast(np.asarray(mean), nothing, nothing)


def _chosen(sample: Sample, arm: int, control: int, measure: Measure) -> _Chosen | None:
    if measure.per == "example":
        return _chosen_by_examples(sample, arm, control, measure)
    return _chosen_by_runs(sample, arm, control)


def _present(runs: Floats) -> Flags:
    return np.asarray(~np.isnan(runs.reshape(-1, *runs.shape[-2:])[0]))


def _chosen_by_runs(sample: Sample, arm: int, control: int) -> _Chosen | None:
    """Paired differences, with the scatter of all arms where it is alike."""
    runs, present_AS = sample.runs, _present(sample.runs)
    common = present_AS[arm] & present_AS[control]
    pairs = np.asarray(common.sum())
    if pairs == 0:
        return None
    differences, own = runs[..., arm, common] - runs[..., control, common], np.asarray(Model.PAIRED.value)
    if pairs < PAIRS_FOR_INTERVAL:
        return _Chosen(_without_error(differences.mean(axis=-1)), pairs, own)
    paired, blocks = contrasts.paired_contrast(differences), blocks_of(runs)
    if blocks is None or arm not in blocks.arms or control not in blocks.arms:
        return _Chosen(paired, pairs, own)
    complete = runs[..., blocks.arms, :][..., blocks.seeds]
    places = blocks.arms.index(arm), blocks.arms.index(control)
    pooled, differ = contrasts.pooled_contrast(complete, *places), contrasts.variances_differ(complete, *places)
    return _Chosen(
        contrast=contrasts.where(differ, paired, pooled),
        pairs=np.where(differ, pairs, len(blocks.seeds)),
        model=np.where(differ, Model.PAIRED.value, Model.POOLED.value),
        other=contrasts.where(differ, pooled, paired),
    )


def _chosen_by_examples(sample: Sample, arm: int, control: int, measure: Measure) -> _Chosen | None:
    """The crossed bootstrap where the outcomes of two seeds are known."""
    present_AS = _present(sample.runs)
    common = present_AS[arm] & present_AS[control]
    if not common.any():
        return None
    scales = [scale for scale in (measure.scale, measure.shown_as) if scale is not None]
    statistics = [_share if scale is CompareScale.SHARE else _difference for scale in scales]
    known = common
    if sample.examples is not None:
        known = common & ~np.isnan(sample.examples[[arm, control]]).any(axis=(0, 2))
    if sample.examples is None or known.sum() < PAIRS_FOR_INTERVAL:
        means = [sample.runs[each, common].mean() for each in (arm, control)]
        found = [_without_error(statistic(*means)) for statistic in statistics]
    else:
        arm_SE, control_SE = sample.examples[arm, known], sample.examples[control, known]
        draws = contrasts.draw(*arm_SE.shape)
        found = [contrasts.crossed_contrast(arm_SE, control_SE, statistic, draws) for statistic in statistics]
    model = np.asarray(Model.CROSSED.value)
    return _Chosen(found[0], np.asarray(common.sum()), model, shown=found[1] if found[1:] else None)


def _share(arm: Floats, control: Floats) -> Floats:
    return np.asarray(arm / np.maximum(control, 1e-12))


def _difference(arm: Floats, control: Floats) -> Floats:
    return np.asarray(arm - control)


def _judged(chosen: _Chosen, confidence: Floats, measure: Measure, criterion: float) -> Judgement:
    estimate = _estimates(chosen.contrast, confidence, measure)
    half_width = measure.sign * chosen.contrast.half_width(confidence)
    verdict = verdict_of(estimate, measure, criterion)
    return Judgement(
        estimate=estimate,
        pairs=chosen.pairs,
        model=chosen.model,
        other=_estimates(chosen.other, confidence, measure) if chosen.other else None,
        shown=_estimates(chosen.shown, confidence) if chosen.shown else None,
        smallest_criterion=_on_scale(half_width + (measure.scale is CompareScale.SHARE), measure),
        verdict=verdict if chosen.is_tested else np.full_like(verdict, Verdict.NO_VERDICT.value),
    )


def verdict_of(interval: Estimates, measure: Measure, criterion: float) -> NDArray[np.str_]:
    """Where the interval lies, elementwise."""
    assert measure.scale is not None
    neutral, sign = measure.scale.neutral, measure.sign
    best, worst = (interval.lower, interval.upper) if sign > 0 else (interval.upper, interval.lower)
    return np.select(
        [sign * worst < sign * neutral, sign * worst <= sign * criterion, sign * best > sign * criterion],
        [Verdict.BETTER.value, Verdict.NON_INFERIOR.value, Verdict.INFERIOR.value],
        Verdict.UNDECIDED.value,
    )


def _estimates(contrast: Contrast, confidence: Floats, measure: Measure | None = None) -> Estimates:
    half_width = contrast.half_width(confidence)
    ends = (contrast.mean, contrast.mean - half_width, contrast.mean + half_width)
    value, lower, upper = (_on_scale(each, measure) for each in ends)
    return Estimates(value, lower, upper, confidence)


def _on_scale(value: Floats, measure: Measure | None) -> Floats:
    """From a difference to the scale: exp of a difference of logarithms, infinite where a float overflows."""
    if measure is None or measure.scale is not CompareScale.RATIO:
        return np.asarray(value)
    return np.asarray(np.where(value >= 700, np.inf, np.exp(np.minimum(value, 700))))
