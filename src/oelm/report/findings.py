"""Findings: what the records say of one measure, arm by arm, each against its control."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean

import numpy as np

from oelm.base.errors import ConfigError
from oelm.config.measure import CompareScale, Measure
from oelm.config.record import Evaluation, Record
from oelm.report.arms import Arm, choose_control
from oelm.report.confounds import Confound, confounds_between
from oelm.report.contrasts import CONFIDENCE, Floats
from oelm.report.verdicts import PAIRS_FOR_VERDICT, Estimates, Judgement, Model, Sample, Verdict, blocks_of, judge

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Estimate:
    """An arm relative to its control on one scale. Without ends there are too few seeds, or outcomes are not known."""

    scale: CompareScale
    value: float
    lower: float | None = None
    upper: float | None = None
    confidence: float = CONFIDENCE
    model: Model | None = None
    other: tuple[float, float] | None = None
    """The interval of the other model, shown but not used for the verdict."""
    smallest_criterion: float | None = None
    """The strictest criterion that this design could have shown to be met."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, where there is one."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def is_adjusted(self) -> bool:
        """Whether the interval is wider than 95 % because several arms were tested."""
        return self.confidence > CONFIDENCE + 1e-9


@dataclass(frozen=True)
class MissingRuns:
    """Seeds that a method still needs for a verdict."""

    method: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Finding:
    """One arm on one measure. A plain baseline, and an arm without any control, are compared with nothing."""

    measure: Measure
    on: str
    """The evaluation set; empty for the run's own validation."""
    arm: Arm
    control: Arm | None
    by_seed: BySeed
    """Values after the last step."""
    best_by_seed: BySeed
    """Those of the best checkpoint, where they were evaluated."""
    pairs_by_seed: BySeed
    """Each pair on the scale of the measure."""
    also: Mapping[str, float]
    """Means of the measures that are not judged."""
    examples: int | None
    pairs: int = 0
    estimate: Estimate | None = None
    shown: Estimate | None = None
    """The same on the measure's second scale."""
    verdict: Verdict = Verdict.NO_VERDICT
    confounds: tuple[Confound, ...] = ()
    missing: tuple[MissingRuns, ...] = ()
    """What to run for a verdict; empty where there is one."""
    is_primary: bool = False

    @property
    def mean(self) -> float | None:
        """Over seeds, to which estimates refer: geometric for a ratio."""
        return mean_of(self.by_seed.values(), self.measure)

    @property
    def best_mean(self) -> float | None:
        """Over seeds, of the best checkpoints."""
        return mean_of(self.best_by_seed.values(), self.measure)

    @property
    def measurably_worse(self) -> bool:
        """Whether the whole interval lies on the worse side of no difference."""
        if self.estimate is None or (ends := self.estimate.ends) is None:
            return False
        sign, best = self.measure.sign, ends[0] if self.measure.sign > 0 else ends[1]
        return sign * best > sign * self.estimate.scale.neutral


@dataclass(frozen=True)
class Pooled:
    """What the pooled model was fitted to, and the seeds that not all of those arms have."""

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    left_out: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """All arms of an experiment on one measure, judged as one family."""

    measure: Measure
    on: str
    criterion: float
    findings: tuple[Finding, ...]
    pooled: Pooled | None
    """None where no scatter was pooled."""


def compare(arms: Sequence[Arm], margin: float | None = None, primary: str | None = None) -> tuple[Comparison, ...]:
    """One comparison for each measure that is judged and each set that it was evaluated on.

    Margin and primary arm (a method) are those that the records state, unless they are given.
    """
    stated = stated_margin(arms) if margin is None else margin
    first = primary_arm(arms, primary)
    declared = dict.fromkeys(measure for arm in arms for record in arm.records for measure in record.declared)
    judged = [measure for measure in declared if measure.scale is not None]
    also = [measure for measure in declared if measure.scale is None]
    return tuple(
        compare_on(arms, measure, on, _criterion(measure, stated), first, also)
        for measure in judged
        for on in sets_of(arms, measure)
    )


def compare_on(
    arms: Sequence[Arm],
    measure: Measure,
    on: str,
    criterion: float | None = None,
    primary: str | None = None,
    also: Sequence[Measure] = (),
) -> Comparison:
    """Each arm that has the measure against its control; `primary` is a label."""
    limit = measure.criterion if criterion is None else criterion
    assert limit is not None, f"{measure.name} is not judged"
    values = {arm.label: values_of(arm, measure, on) for arm in arms}
    present = [arm for arm in arms if values[arm.label]]
    controls = [choose_control(arm, present) for arm in present]
    places = {arm.label: place for place, arm in enumerate(present)}
    seeds = sorted({seed for arm in present for seed in values[arm.label]})
    sample = _sample(present, measure, on, seeds, values)
    judged = judge(
        sample,
        [None if control is None else places[control.label] for control in controls],
        measure,
        limit,
        None if primary is None else places.get(primary),
    )
    findings = tuple(
        _finding(arm, control, judgement, measure, on, also, arm.label == primary)
        for arm, control, judgement in zip(present, controls, judged, strict=True)
    )
    return Comparison(measure, on, limit, findings, _pooled(findings, present, seeds, sample))


def estimate_pair(arm: Arm, control: Arm, measure: Measure, on: str) -> Estimate | None:
    """One arm against any other, by themselves."""
    values = {each.label: values_of(each, measure, on) for each in (control, arm)}
    seeds = sorted({seed for found in values.values() for seed in found})
    if not seeds:
        return None
    assert measure.criterion is not None
    _, judgement = judge(_sample((control, arm), measure, on, seeds, values), [None, 0], measure, measure.criterion)
    return _estimate(judgement, measure) if judgement else None


def sets_of(arms: Sequence[Arm], measure: Measure) -> tuple[str, ...]:
    """The evaluation sets on which a measure was taken; the empty name stands for the run's own validation."""
    if measure.read_from == "validation":
        return ("",)
    rows = (row for arm in arms for record in arm.records for row in record.evaluations)
    return tuple(dict.fromkeys(row.name for row in rows if measure.name in row.measures))


def values_of(arm: Arm, measure: Measure, on: str, checkpoint: str = "last") -> dict[int, float]:
    """By seed, ready to be subtracted: logarithms for a ratio, else as they are shown."""
    figures = ((record.config.seed, _figures(record, measure, on, checkpoint)) for record in arm.records)
    values = {seed: _value(found, measure) for seed, found in figures}
    return {seed: value for seed, value in values.items() if value is not None}


def mean_of(values: Collection[float], measure: Measure) -> float | None:
    """The mean to which estimates refer; None of nothing."""
    if not values or measure.scale is not CompareScale.RATIO:
        return fmean(values) if values else None
    return math.inf if math.inf in values else math.exp(fmean(map(math.log, values)))


def stated_margin(arms: Sequence[Arm]) -> float | None:
    """The margin of the study that the arms belong to; None where there is none."""
    margins = {arm.config.study.margin for arm in arms if arm.config.study is not None}
    if len(margins) > 1:
        written = " and ".join(f"{margin:g}" for margin in sorted(margins))
        raise ConfigError(f"these runs were made for different margins ({written})", "choose one with --margin")
    return margins.pop() if margins else None


def primary_arm(arms: Sequence[Arm], method: str | None = None) -> str | None:
    """The label of the one arm with the method that was stated (or is given) as primary; None unless it is one."""
    stated = {arm.config.study.primary for arm in arms if arm.config.study is not None} - {None}
    wanted = method if method is not None else stated.pop() if len(stated) == 1 else None
    chosen = [arm.label for arm in arms if arm.method.name == wanted and not arm.is_reference]
    if method is not None and not chosen:
        raise ConfigError(f"no arm has the method {method!r}", "name the method of one of the arms, not of a baseline")
    return chosen[0] if len(chosen) == 1 else None


def missing_runs(arm: Arm, control: Arm) -> tuple[MissingRuns, ...]:
    """The fewest further runs that make enough pairs: complete half pairs first, then take new seeds."""
    ours, theirs = set(arm.seeds), set(control.seeds)
    known = [*sorted(ours & theirs), *sorted(ours ^ theirs)]
    fresh = (seed for seed in count() if seed not in known)
    wanted = [known[index] if index < len(known) else next(fresh) for index in range(PAIRS_FOR_VERDICT)]
    lacking = (
        MissingRuns(each.method.name, tuple(seed for seed in wanted if seed not in each.seeds))
        for each in (arm, control)
    )
    return tuple(runs for runs in lacking if runs.seeds)


def _criterion(measure: Measure, margin: float | None) -> float | None:
    """A study states its margin as a ratio; measures on other scales keep their own criterion."""
    if margin is None or measure.scale is not CompareScale.RATIO:
        return None
    if not measure.accepts(margin):
        raise ConfigError(
            f"margin {margin:g} is not a {measure.name} ratio {'above' if measure.sign > 0 else 'below'} 1",
            f"give the limit to accept, such as {measure.criterion:g}",
        )
    return margin


def _figures(record: Record, measure: Measure, on: str, checkpoint: str) -> Mapping[str, float]:
    if measure.read_from == "validation":
        return record.result.measures if checkpoint == "last" else {}
    row = _row(record, on, checkpoint)
    return row.measures if row else {}


def _row(record: Record, on: str, checkpoint: str) -> Evaluation | None:
    return next((row for row in record.evaluations if row.name == on and row.checkpoint == checkpoint), None)


def _value(figures: Mapping[str, float], measure: Measure) -> float | None:
    if measure.scale is CompareScale.RATIO:
        if measure.logarithm is not None and measure.logarithm in figures:
            return figures[measure.logarithm]
        return math.log(figures[measure.name]) if measure.name in figures else None
    return measure.factor * figures[measure.name] if measure.name in figures else None


def _sample(
    arms: Sequence[Arm], measure: Measure, on: str, seeds: Sequence[int], values: Mapping[str, BySeed]
) -> Sample:
    runs_AS = np.array([[values[arm.label].get(seed, math.nan) for seed in seeds] for arm in arms])
    if measure.per == "run":
        return Sample(runs_AS)
    outcomes = {(arm.label, record.config.seed): _outcomes(record, on) for arm in arms for record in arm.records}
    lengths = {len(found) for found in outcomes.values() if found is not None}
    if len(lengths) > 1:
        sizes = " and ".join(f"{length:,}" for length in sorted(lengths))
        raise ConfigError(f"{on} has {sizes} examples in these runs", "compare runs that were evaluated on one set")
    if not lengths:
        return Sample(runs_AS)
    unknown = np.full(lengths.pop(), math.nan)
    rows = [[outcomes.get((arm.label, seed)) for seed in seeds] for arm in arms]
    examples = [[unknown if found is None else measure.factor * found for found in row] for row in rows]
    return Sample(runs_AS, np.array(examples))


def _outcomes(record: Record, on: str) -> Floats | None:
    """1 for each example that the last checkpoint got right, else 0; None where predictions are not known."""
    row = _row(record, on, "last")
    if row is None or not row.predictions:
        return None
    return np.equal(row.predictions.split(), row.labels.split()).astype(np.float64)


def _finding(
    arm: Arm,
    control: Arm | None,
    judgement: Judgement | None,
    measure: Measure,
    on: str,
    also: Sequence[Measure],
    is_primary: bool,
) -> Finding:
    ours, theirs = values_of(arm, measure, on), values_of(control, measure, on) if control else {}
    verdict = Verdict(str(judgement.verdict)) if judgement else Verdict.NO_VERDICT
    others = {
        each.name: [
            figures[each.name] for record in arm.records if each.name in (figures := _figures(record, each, on, "last"))
        ]
        for each in also
    }
    row = _row(arm.record, on, "last")
    return Finding(
        measure=measure,
        on=on,
        arm=arm,
        control=control,
        by_seed=_natural(ours, measure),
        best_by_seed=_natural(values_of(arm, measure, on, "best"), measure),
        pairs_by_seed={seed: _pair(ours[seed], theirs[seed], measure) for seed in ours if seed in theirs},
        also={name: fmean(values) for name, values in others.items() if values},
        examples=len(row.labels.split()) or None if row and measure.per == "example" else None,
        pairs=int(judgement.pairs) if judgement else 0,
        estimate=_estimate(judgement, measure) if judgement else None,
        shown=_scalar(judgement.shown, measure.shown_as)
        if judgement and judgement.shown and measure.shown_as
        else None,
        verdict=verdict,
        confounds=confounds_between(arm, control) if control else (),
        missing=missing_runs(arm, control) if control and verdict is Verdict.NO_VERDICT else (),
        is_primary=is_primary,
    )


def _natural(values: BySeed, measure: Measure) -> dict[int, float]:
    """From what is subtracted back to the measure's own unit."""
    if measure.scale is CompareScale.RATIO:
        return {seed: exponential(value) for seed, value in values.items()}
    return {seed: value / measure.factor for seed, value in values.items()}


def _pair(ours: float, theirs: float, measure: Measure) -> float:
    if measure.scale is CompareScale.SHARE:
        return ours / theirs if theirs else math.inf
    return exponential(ours - theirs) if measure.scale is CompareScale.RATIO else ours - theirs


def _estimate(judgement: Judgement, measure: Measure) -> Estimate:
    assert measure.scale is not None
    found, other = _scalar(judgement.estimate, measure.scale), judgement.other
    if found.ends is None:
        return found
    return replace(
        found,
        model=Model(str(judgement.model)),
        other=None if other is None else (float(other.lower), float(other.upper)),
        smallest_criterion=float(judgement.smallest_criterion),
    )


def _scalar(found: Estimates, scale: CompareScale) -> Estimate:
    if np.isnan(found.lower):
        return Estimate(scale, float(found.value))
    return Estimate(scale, float(found.value), float(found.lower), float(found.upper), float(found.confidence))


def _pooled(findings: Sequence[Finding], arms: Sequence[Arm], seeds: Sequence[int], sample: Sample) -> Pooled | None:
    if not any(found.estimate and found.estimate.model is Model.POOLED for found in findings):
        return None
    blocks = blocks_of(sample.runs)
    assert blocks is not None
    used = {seed for place in blocks.arms for seed in arms[place].seeds}
    common = {seeds[place] for place in blocks.seeds}
    return Pooled(
        tuple(arms[place].label for place in blocks.arms), tuple(sorted(common)), tuple(sorted(used - common))
    )


def exponential(value: float) -> float:
    """exp, and infinity where a float overflows (the loss of a diverging run)."""
    return math.exp(value) if value < 700 else math.inf
