"""`judge_all`: from the values of all arms to estimates, intervals and verdicts. The simulations call this function.

**Which level.** All verdicts of a report are one family, tested by Holm's procedure on p_i, the p-values of "the
difference is the criterion": sorted upwards, the j-th of m is held against 0.05 / (m - j + 1) until one fails; that one
and all after it stay undecided at its level. Planned arms without runs enough for a verdict count among the m. Outside
the family stand

- the primary arm of a study, named before the runs: at 5 %, uncorrected. On several data sets it is uncorrected only
  where it is non-inferior on all of them (to be wrong about all, one must be wrong about the worst); else it is tested
  with the others;
- the negative control, which must fail before anything else is believed: at 5 %.

**Intervals that agree.** The interval of an arm is shown at the level at which Holm judged it, 1 - 0.05 / k with the
divisor k of its step. By the duality of test and t-interval it excludes the criterion if and only if Holm rejects, so
the reader and the verdict see the same thing. The claims about the criterion (non-inferior, inferior) then err in at
most 5 % of reports for the primary arm and in at most 5 % for all secondary arms together, half of each on either
side: wrong *non-inferior* anywhere is at most 2.5 % + 2.5 %. What is read off the same intervals about no difference
(better, measurably worse) is not what Holm tests; in simulations it errs as rarely.

**Looks.** A plan that allows for L analyses, each with more seeds than the last, has every one of them at 5 % / L:
whichever of them is the last, all together err in at most 5 %.
"""

# A arms  S seeds  E examples

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from oelm.config.measure import CompareScale, Measure
from oelm.report import contrasts
from oelm.report.contrasts import Contrast, Flags, Floats

ALPHA = 0.05
_LEVEL = np.asarray(1 - ALPHA)
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


DECIDED = frozenset({Verdict.BETTER, Verdict.NON_INFERIOR, Verdict.INFERIOR})
"""Those that answer the question."""


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
    within: Floats
    """P(the truth meets the criterion), from the t-distribution of the estimate; NaN without an error."""
    verdict: NDArray[np.str_]
    contrast: Contrast
    """What the estimate and its interval were made of."""
    alone: Flags
    """Whether it was tested outside of the family of all others."""


@dataclass(frozen=True)
class Blocks:
    """The arms and seeds that the pooled model is fitted to: enough seeds each, and all of them in every arm."""

    arms: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """One measure of one experiment: what is compared with what, and against which limit.

    `controls` holds the place of each arm's control.
    """

    sample: Sample
    controls: Sequence[int | None]
    measure: Measure
    criterion: float
    primary: int | None = None
    """The place of the arm that was named before the runs."""
    study: str = ""
    """Questions of one study with a primary arm are judged together as one claim about all its data sets."""
    negatives: tuple[int, ...] = ()
    """The places of arms that must fail."""
    unplanned: tuple[int, ...] = ()
    """The places of arms that were not planned: their scatter narrows no interval of those that were."""
    lacks_primaries: bool = False
    """Whether the study has planned its primary arm on further data sets, where it has no runs enough."""
    absent: int = 0
    """Comparisons that were planned and have no runs yet, or too few for a verdict."""
    looks: int = 1
    """How many analyses the plan allows for."""

    @property
    def not_pooled(self) -> tuple[int, ...]:
        """The places of arms whose scatter says nothing of the others'."""
        return (*self.negatives, *self.unplanned)

    @property
    def limit(self) -> float:
        """The criterion as a difference."""
        return math.log(self.criterion) if self.measure.scale is CompareScale.RATIO else self.criterion


def judge(
    sample: Sample,
    controls: Sequence[int | None],
    measure: Measure,
    criterion: float,
    primary: int | None = None,
) -> list[Judgement | None]:
    """Every arm against its control, all of them as one family; None for an arm without control or common seed."""
    return judge_all([Question(sample, controls, measure, criterion, primary)])[0]


def judge_all(questions: Sequence[Question]) -> list[list[Judgement | None]]:
    """The same for several measures or experiments, all of them as one family."""
    pools = [_pool_of(question) for question in questions]
    chosen = [
        [
            None if control is None else _chosen(question, arm, control, pool)
            for arm, control in enumerate(question.controls)
        ]
        for question, pool in zip(questions, pools, strict=True)
    ]
    levels, alone = _confidences(questions, chosen)
    return [
        [
            None
            if each is None
            else _judged(each, levels[place, arm], question, alone.get((place, arm), np.asarray(False)))
            for arm, each in enumerate(chosen[place])
        ]
        for place, question in enumerate(questions)
    ]


Levels = dict[tuple[int, int], Floats]
"""By the places of the question and of the arm in it."""


def _confidences(
    questions: Sequence[Question], chosen: "Sequence[Sequence[_Chosen | None]]"
) -> tuple[Levels, dict[tuple[int, int], Flags]]:
    """The confidence of every interval, elementwise over experiments; and where a primary arm stands outside."""
    arms = {(place, arm): each for place, row in enumerate(chosen) for arm, each in enumerate(row) if each is not None}
    levels: Levels = {key: np.asarray(1 - ALPHA / questions[key[0]].looks) for key in arms}
    tested = {
        key: questions[key[0]].looks * each.contrast.p_value(questions[key[0]].limit)
        for key, each in arms.items()
        if each.is_tested and key[1] not in questions[key[0]].negatives
    }
    alone = _uncorrected([key for key in tested if questions[key[0]].primary == key[1]], questions, arms)
    # Holm rejects a p-value of 0 first and goes on as if it had not been there.
    family = [np.where(alone[key], 0.0, p_value) if key in alone else p_value for key, p_value in tested.items()]
    if not family:
        return levels, alone
    found = np.stack(np.broadcast_arrays(*family), axis=-1)
    missing = np.ones((*found.shape[:-1], sum(question.absent for question in questions)))
    divisors = holm_divisors(np.concatenate([found, missing], axis=-1))
    for place, key in enumerate(tested):
        divisor = np.where(alone[key], 1, divisors[..., place]) if key in alone else divisors[..., place]
        levels[key] = np.asarray(1 - ALPHA / questions[key[0]].looks / divisor)
    return levels, alone


def _uncorrected(
    primary: Sequence[tuple[int, int]], questions: Sequence[Question], arms: "dict[tuple[int, int], _Chosen]"
) -> dict[tuple[int, int], Flags]:
    """Where each primary arm needs no correction: alone in its study, or non-inferior on all its data sets.

    All are those that were planned: whoever leaves out the runs of some has no claim about all.
    """
    studies: dict[str, list[tuple[int, int]]] = {}
    for key in primary:
        studies.setdefault(questions[key[0]].study, []).append(key)
    alone: dict[tuple[int, int], Flags] = {}
    for study, keys in studies.items():
        passed = [_is_non_inferior(arms[key], questions[key[0]]) for key in keys]
        is_whole = not any(question.absent for question in questions if question.study == study)
        lacks_some = any(questions[place].lacks_primaries for place, _ in keys)
        is_one = len(keys) == 1 and not lacks_some
        claimed = np.ones_like(passed[0]) if is_one else np.all(passed, axis=0) & is_whole & (not lacks_some)
        alone |= dict.fromkeys(keys, claimed)
    return alone


def _is_non_inferior(chosen: "_Chosen", question: Question) -> Flags:
    level = np.asarray(1 - ALPHA / question.looks)
    found = verdict_of(_estimates(chosen.contrast, level, question.measure), question.measure, question.criterion)
    return np.isin(found, (Verdict.BETTER, Verdict.NON_INFERIOR))


def blocks_of(runs: Floats, left_out: Collection[int] = ()) -> Blocks | None:
    """What can be pooled; None where there is too little.

    Left out are arms that must fail, which need not scatter as the others do, and those that were not planned.
    """
    present_AS = _present(runs)
    enough = np.flatnonzero(present_AS.sum(axis=1) >= PAIRS_FOR_VERDICT)
    arms = tuple(arm for arm in enough.tolist() if arm not in left_out)
    if len(arms) < ARMS_TO_POOL:
        return None
    seeds = tuple(np.flatnonzero(present_AS[list(arms)].all(axis=0)).tolist())
    return Blocks(arms, seeds) if len(seeds) >= PAIRS_FOR_VERDICT else None


def holm_divisors(p_values: Floats, alpha: float = ALPHA) -> NDArray[np.int64]:
    """By what Holm divided alpha when he judged each, elementwise over experiments: p_values has shape (..., m)."""
    tests = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1, kind="stable")
    ascending = np.take_along_axis(p_values, order, axis=-1)
    divisors = tests - np.arange(tests)
    rejected = np.logical_and.accumulate(ascending <= alpha / divisors, axis=-1)
    # Holm stops at the first arm that is not rejected; all later ones keep its level.
    steps = np.minimum(rejected.sum(axis=-1, keepdims=True), np.arange(tests))
    found = np.empty(p_values.shape, np.int64)
    np.put_along_axis(found, order, divisors[steps], axis=-1)
    return found


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


@dataclass(frozen=True)
class _Pool:
    """What the pooled model is fitted to, and whether it fits."""

    blocks: Blocks
    values: Floats
    is_rejected: Flags


def _pool_of(question: Question) -> _Pool | None:
    runs = question.sample.runs
    if question.measure.per == "example" or (blocks := blocks_of(runs, question.not_pooled)) is None:
        return None
    values = runs[..., blocks.arms, :][..., blocks.seeds]
    return _Pool(blocks, values, contrasts.is_not_additive(values))


def _chosen(question: Question, arm: int, control: int, pool: _Pool | None) -> _Chosen | None:
    if question.measure.per == "example":
        return _chosen_by_examples(question.sample, arm, control, question.measure)
    return _chosen_by_runs(question.sample.runs, arm, control, pool)


def _present(runs: Floats) -> Flags:
    return np.asarray(~np.isnan(runs.reshape(-1, *runs.shape[-2:])[0]))


def _chosen_by_runs(runs: Floats, arm: int, control: int, pool: _Pool | None) -> _Chosen | None:
    """Paired differences, with the scatter of all arms where it is alike."""
    present_AS = _present(runs)
    common = present_AS[arm] & present_AS[control]
    pairs = np.asarray(common.sum())
    if pairs == 0:
        return None
    differences, own = runs[..., arm, common] - runs[..., control, common], np.asarray(Model.PAIRED.value)
    if pairs < PAIRS_FOR_INTERVAL:
        return _Chosen(_without_error(differences.mean(axis=-1)), pairs, own)
    paired = contrasts.paired_contrast(differences)
    if pool is None or not {arm, control} <= set(pool.blocks.arms) or pairs > len(pool.blocks.seeds):
        return _Chosen(paired, pairs, own)  # an unfinished arm elsewhere takes no finished pair away
    places = pool.blocks.arms.index(arm), pool.blocks.arms.index(control)
    pooled = contrasts.pooled_contrast(pool.values, *places)
    # Where seeds do not shift all arms alike, the pooled scatter may be too small or too large: the wider of the two.
    is_wider = paired.half_width(_LEVEL) >= pooled.half_width(_LEVEL)
    differ = contrasts.variances_differ(pool.values, *places) | (pool.is_rejected & is_wider)
    return _Chosen(
        contrast=contrasts.where(differ, paired, pooled),
        pairs=np.where(differ, pairs, len(pool.blocks.seeds)),
        model=np.where(differ, Model.PAIRED.value, Model.POOLED.value),
        other=contrasts.where(differ, pooled, paired),
    )


def _chosen_by_examples(sample: Sample, arm: int, control: int, measure: Measure) -> _Chosen | None:
    """The crossed bootstrap where all outcomes are known: what is left of some seeds would be a choice among them."""
    present_AS = _present(sample.runs)
    common = present_AS[arm] & present_AS[control]
    if not common.any():
        return None
    scales = [scale for scale in (measure.scale, measure.shown_as) if scale is not None]
    statistics = [_share if scale is CompareScale.SHARE else _difference for scale in scales]
    known = common
    if sample.examples is not None:
        known = common & ~np.isnan(sample.examples[[arm, control]]).any(axis=(0, 2))
    if sample.examples is None or known.sum() < PAIRS_FOR_INTERVAL or (known != common).any():
        means = [sample.runs[each, common].mean() for each in (arm, control)]
        found = [_without_error(statistic(*means)) for statistic in statistics]
    else:
        arm_SE, control_SE = sample.examples[arm, known], sample.examples[control, known]
        draws = contrasts.draw(*arm_SE.shape)
        found = [contrasts.crossed_contrast(arm_SE, control_SE, statistic, draws) for statistic in statistics]
    model = np.asarray(Model.CROSSED.value)
    return _Chosen(found[0], np.asarray(common.sum()), model, shown=found[1] if found[1:] else None)


def _share(arm: Floats, control: Floats) -> Floats:
    """Not a number where the control, or one that might have been, has nothing."""
    nothing = np.full(np.shape(control), np.nan)
    return np.asarray(np.divide(arm, control, out=nothing, where=np.asarray(control > 0)))


def _difference(arm: Floats, control: Floats) -> Floats:
    return np.asarray(arm - control)


def _judged(chosen: _Chosen, confidence: Floats, question: Question, alone: Flags) -> Judgement:
    measure, criterion = question.measure, question.criterion
    estimate = _estimates(chosen.contrast, confidence, measure)
    below = chosen.contrast.share_below(question.limit)
    half_width = measure.sign * chosen.contrast.half_width(confidence)
    verdict = verdict_of(estimate, measure, criterion)
    return Judgement(
        estimate=estimate,
        pairs=chosen.pairs,
        model=chosen.model,
        other=_estimates(chosen.other, confidence, measure) if chosen.other else None,
        shown=_estimates(chosen.shown, confidence) if chosen.shown else None,
        smallest_criterion=_on_scale(half_width + (measure.scale is CompareScale.SHARE), measure),
        within=below if measure.sign > 0 else 1 - below,
        verdict=verdict if chosen.is_tested else np.full_like(verdict, Verdict.NO_VERDICT.value),
        contrast=chosen.contrast,
        alone=alone,
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
