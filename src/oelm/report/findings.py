"""Findings: what the records say of one measure, arm by arm, each against its control."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from statistics import fmean

import numpy as np

from oelm.base.errors import ConfigError
from oelm.config.measure import LOSS, CompareScale, Measure
from oelm.config.record import Evaluation, Record, TextBlocks
from oelm.config.run import RunConfig
from oelm.report.arms import NO_SETTING, Arm, cell_of, choose_control, study_of
from oelm.report.confounds import Confound, confounds_between
from oelm.report.contrasts import CONFIDENCE, Floats, seeds_to_decide, text_contrast
from oelm.report.record_files import Registration, have_several_plans
from oelm.report.verdicts import (
    PAIRS_FOR_VERDICT,
    Estimates,
    Judgement,
    Model,
    Question,
    Sample,
    Verdict,
    blocks_of,
    judge,
    judge_all,
)

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
    within: float | None = None
    """P(the truth meets the criterion), from the t-distribution of the estimate."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, where there is one."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def is_adjusted(self) -> bool:
        """Whether the interval is wider than 95 % because several arms were tested."""
        return self.confidence > CONFIDENCE + 1e-9


@dataclass(frozen=True)
class TextScatter:
    """How much a ratio would move with another validation text of the same kind, the seeds as they are.

    Its interval over texts is ratio / factor to ratio * factor.
    """

    factor: float
    confidence: float
    """That of the interval over seeds, so that the two can be compared."""
    blocks: int
    exceeds_seeds: bool
    """Whether it is wider than the interval over seeds."""

    @property
    def share(self) -> float:
        """By what share of itself the ratio would move."""
        return self.factor - 1


@dataclass(frozen=True)
class MissingRuns:
    """Seeds that a method still needs for a verdict."""

    method: str
    seeds: tuple[int, ...]


class Withheld(StrEnum):
    """Why there is no verdict although there are seeds enough."""

    NO_SHARE = "no-share"
    """The control has nothing right, or so little that it might have: there is no share of it."""
    NO_OUTCOMES = "no-outcomes"
    """Of some runs the single answers are missing, so there is no interval."""
    INCOMPLETE = "incomplete"
    """Planned runs of the arm or of its control, or their figures, are missing: left out for what they showed?"""
    NO_NEGATIVE = "no-negative"
    """No difference shows, and the negative control, which would say whether one could, lacks runs or this measure."""
    NOT_LEARNT = "not-learnt"
    """A run of the control predicts hardly better than without looking: that is no yardstick."""
    CANNOT_TELL = "cannot-tell"
    """The negative control did not fail either: where no difference shows, none could have shown."""


LEARNT = 0.9
"""A control has learnt if its loss is at most this share of that of a prediction that looks at nothing."""


@dataclass(frozen=True)
class Change:
    """Something that is judged by and that is not what was fixed before the runs."""

    what: str
    """`margin`, `primary`, or `plan` where there are several."""
    before: str
    now: str


@dataclass(frozen=True)
class Terms:
    """What an experiment is judged by, and what of it was fixed before the runs."""

    margin: float | None = None
    """None where none was stated: then each measure's own criterion holds."""
    primary: str | None = None
    """The method of the primary arm."""
    changes: tuple[Change, ...] = ()
    plan: Registration | None = None
    """None for runs without a registered plan, or under several."""

    @property
    def is_fixed(self) -> bool:
        """Whether primary arm and margin are those from before the runs; if not, all arms are corrected."""
        return not self.changes and (self.plan is None or self.plan.is_first)

    def provides_for(self, arm: Arm) -> bool:
        """Whether the plan had this arm before the runs; True of every arm where no plan can be read."""
        return self.plan is None or self.plan.missing is None or self.plan.provides_for(arm.config)

    @property
    def is_registered(self) -> bool:
        """Whether there is a plan and its file is here, so that what was found was held against it."""
        return self.plan is not None and self.plan.missing is not None


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
    text: TextScatter | None = None
    """What another text would change; None where the records do not tell."""
    verdict: Verdict = Verdict.NO_VERDICT
    confounds: tuple[Confound, ...] = ()
    missing: tuple[MissingRuns, ...] = ()
    """What to run for a verdict; empty where there is one."""
    is_planned: bool = True
    """Whether the plan, where there is one, had this arm before the runs."""
    is_primary: bool = False
    stands_alone: bool = False
    """The primary arm where it was tested outside of the family of all others."""
    terms: Terms = Terms()
    withheld: Withheld | None = None
    more_seeds: int | None = None
    """How many further seeds would decide it, if difference and scatter stay as they are; None unless undecided."""

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
    terms: Terms = Terms()
    negative: str | None = None
    """The label of the arm that must fail; None where there is none."""
    can_tell: bool | None = None
    """Whether it failed, so that arms can be told apart; None where there is none."""


@dataclass(frozen=True)
class _Asked:
    """A comparison before it is judged."""

    question: Question
    on: str
    arms: tuple[Arm, ...]
    controls: tuple[Arm | None, ...]
    seeds: tuple[int, ...]
    primary: str | None
    also: tuple[Measure, ...]
    terms: Terms
    lacks_negative: bool
    """Whether the experiment has a negative control, and this measure was not taken of it."""


def compare(arms: Sequence[Arm], margin: float | None = None, primary: str | None = None) -> tuple[Comparison, ...]:
    """One experiment by itself. Margin and primary arm (a method) are those that the records state, unless given."""
    require_arm([arms], primary)
    require_use([arms], margin)
    return compare_all([arms], [terms_of(arms, None, margin, primary)])[0]


def compare_all(groups: Sequence[Sequence[Arm]], terms: Sequence[Terms]) -> list[tuple[Comparison, ...]]:
    """For each experiment a comparison by each measure that is judged and each set that it was evaluated on.

    All verdicts are one family.
    """
    plans = [each.plan for each in terms]
    asked = [  # arms of a plan that have no record are counted once
        _asked(arms, each, is_first=each.plan not in plans[:place])
        for place, (arms, each) in enumerate(zip(groups, terms, strict=True))
    ]
    asked = [[_with_lacking_primaries(each, asked) for each in group] for group in asked]
    judged = iter(judge_all([each.question for group in asked for each in group]))
    return [tuple(_comparison(each, next(judged)) for each in group) for group in asked]


def _with_lacking_primaries(asked: _Asked, groups: Sequence[Sequence[_Asked]]) -> _Asked:
    """Say so where the plan has the primary arm on data sets on which it is not judged."""
    plan = asked.terms.plan
    if plan is None:
        return asked
    alike = [
        each for group in groups for each in group if each.terms.plan == plan and each.question.primary is not None
    ]
    judged = {cell_of(each.arms[place].config) for each in alike if (place := _judged_primary(each)) is not None}
    return replace(asked, question=replace(asked.question, lacks_primaries=not plan.primaries <= judged))


def _judged_primary(asked: _Asked) -> int | None:
    """The place of the primary arm if it has pairs enough for a verdict."""
    place = asked.question.primary
    control = None if place is None else asked.controls[place]
    if place is None or control is None:
        return None
    return place if len(set(asked.arms[place].seeds) & set(control.seeds)) >= PAIRS_FOR_VERDICT else None


def require_arm(groups: Sequence[Sequence[Arm]], primary: str | None) -> None:
    """Refuse a primary arm that is none of the arms."""
    methods = {arm.method.name for arms in groups for arm in arms if not arm.is_reference}
    if primary is not None and primary not in methods:
        raise ConfigError(f"no arm has the method {primary!r}", "name the method of one of the arms, not of a baseline")


def require_use(groups: Sequence[Sequence[Arm]], margin: float | None) -> None:
    """Refuse a margin that nothing would be judged by."""
    judged = [measure for arms in groups for measure in _declared(arms) if measure.scale is not None]
    if margin is None or not judged or any(each.scale is not CompareScale.DIFFERENCE for each in judged):
        return
    limits = ", ".join(dict.fromkeys(f"{each.name} ({each.criterion:g})" for each in judged))
    raise ConfigError(f"a margin is a ratio, and here differences are judged, by limits of their own: {limits}",
                      "leave out --margin")  # fmt: skip


def terms_of(arms: Sequence[Arm], plan: Registration | None, margin: float | None, primary: str | None) -> Terms:
    """What the records state, or what is given now, beside what was registered."""
    roles = [config.study for arm in arms for config in arm.configs if config.study is not None]
    margins, primaries = {role.margin for role in roles}, {role.primary for role in roles} - {None}
    if len(margins) > 1 and margin is None:
        written = " and ".join(f"{each:g}" for each in sorted(margins))
        raise ConfigError(f"these runs were made for different margins ({written})", "choose one with --margin")
    stated = (margins.pop() if len(margins) == 1 else None, primaries.pop() if len(primaries) == 1 else None)
    before = (plan.margin, plan.primary) if plan and plan.missing is not None else stated
    now = (stated[0] if margin is None else margin, stated[1] if primary is None else primary)
    changes = [Change("margin", _said(before[0]), _said(now[0]))] if now[0] != before[0] else []
    if now[1] != before[1]:
        changes.append(Change("primary", _said(before[1]), _said(now[1])))
    if have_several_plans([record for arm in arms for record in arm.records]):
        changes.append(Change("plan", "", ""))
    return Terms(now[0], now[1], tuple(changes), plan)


def _said(value: float | str | None) -> str:
    return NO_SETTING if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _asked(arms: Sequence[Arm], terms: Terms, *, is_first: bool) -> list[_Asked]:
    declared = _declared(arms)
    judged = [measure for measure in declared if measure.scale is not None]
    also = tuple(measure for measure in declared if measure.scale is None)
    chosen = _primaries(arms, terms)
    primary = chosen[0] if len(chosen) == 1 else None
    asked = [
        _asked_on(arms, measure, on, terms, primary, also, is_first=measure == judged[0])
        for measure in judged
        for on in sets_of(arms, measure)
    ]
    absent = terms.plan.absent_arms if terms.plan and is_first else 0
    begun = _only_begun(asked[0]) if terms.plan and asked else 0
    return [
        replace(each, question=replace(each.question, absent=0 if place else absent + begun))
        for place, each in enumerate(asked)
    ]


def _declared(arms: Sequence[Arm]) -> list[Measure]:
    """What records say that they measure; one measure in two wordings, of two versions, is one."""
    found: dict[tuple[object, ...], Measure] = {}
    for measure in (measure for arm in arms for record in arm.records for measure in record.declared):
        found.setdefault((measure.name, measure.read_from, measure.scale, measure.criterion), measure)
    return list(found.values())


def _primaries(arms: Sequence[Arm], terms: Terms) -> list[str]:
    """The primary arms: those of the plan, which knows them by name, or those with the method that is asked for."""
    planned = [arm for arm in arms if terms.provides_for(arm)]
    if terms.plan and terms.is_registered and terms.primary == terms.plan.primary:
        return primary_arms([arm for arm in planned if cell_of(arm.config) in terms.plan.primaries], terms.primary)
    return primary_arms(planned, terms.primary) or primary_arms(arms, terms.primary)


def _only_begun(asked: _Asked) -> int:
    """How many arms have too few pairs for a verdict, the negative control aside."""
    pairs = [
        len(set(arm.seeds) & set(control.seeds))
        for place, (arm, control) in enumerate(zip(asked.arms, asked.controls, strict=True))
        if control is not None and place not in asked.question.negatives
    ]
    return sum(each < PAIRS_FOR_VERDICT for each in pairs)


def _asked_on(
    arms: Sequence[Arm],
    measure: Measure,
    on: str,
    terms: Terms,
    primary: str | None,
    also: tuple[Measure, ...],
    *,
    is_first: bool,
) -> _Asked:
    """Each arm that has the measure against its control; only on the first measure is the primary arm one."""
    values = {arm.label: values_of(arm, measure, on) for arm in arms}
    present = tuple(arm for arm in arms if values[arm.label])
    controls = tuple(_control(arm, present, terms) for arm in present)
    places = {arm.label: place for place, arm in enumerate(present)}
    seeds = tuple(sorted({seed for arm in present for seed in values[arm.label]}))
    question = Question(
        sample=_sample(present, measure, on, seeds),
        controls=[None if control is None else places[control.label] for control in controls],
        measure=measure,
        criterion=criterion_of(measure, terms.margin),
        primary=places.get(primary or "") if is_first and terms.is_fixed else None,
        study=study_of(arms[0].config) or "",
        negatives=tuple(places[arm.label] for arm in present if arm.method.blind),
        unplanned=tuple(places[arm.label] for arm in present if not terms.provides_for(arm)),
        looks=terms.plan.looks if terms.plan else 1,
    )
    lacks_negative = not question.negatives and any(arm.method.blind for arm in arms)
    return _Asked(question, on, present, controls, seeds, primary, also, terms, lacks_negative)


def _control(arm: Arm, among: Sequence[Arm], terms: Terms) -> Arm | None:
    """What the plan holds an arm against, whatever else has been run; where it does not say, the fairest."""
    name = terms.plan.controls.get(cell_of(arm.config) or "") if terms.plan and terms.provides_for(arm) else None
    planned = (other for other in among if terms.provides_for(other) and cell_of(other.config) == name)
    return (next(planned, None) if name else None) or choose_control(arm, among)


def _comparison(asked: _Asked, judged: Sequence[Judgement | None]) -> Comparison:
    question = asked.question
    planned = [place for place in question.negatives if place not in question.unplanned]
    negatives = [place for place in planned or question.negatives if _is_judged(judged[place])]
    if len(negatives) < len(planned or question.negatives):  # too few seeds to see one fail
        asked, negatives = replace(asked, lacks_negative=True), []
    # Every one of them must fail: one that was added until it did would show nothing.
    unfailing = [place for place in negatives if not _is_inferior(judged[place])]
    can_tell = not unfailing
    told = next(iter(unfailing or negatives), None)
    findings = tuple(
        _finding(asked, arm, control, judgement, can_tell=can_tell)
        for arm, control, judgement in zip(asked.arms, asked.controls, judged, strict=True)
    )
    return Comparison(
        question.measure,
        asked.on,
        question.criterion,
        findings,
        _pooled(findings, asked),
        asked.terms,
        negative=None if told is None else asked.arms[told].label,
        can_tell=None if told is None else can_tell,
    )


def _is_judged(judgement: Judgement | None) -> bool:
    return judgement is not None and Verdict(str(judgement.verdict)) is not Verdict.NO_VERDICT


def _is_inferior(judgement: Judgement | None) -> bool:
    return judgement is not None and Verdict(str(judgement.verdict)) is Verdict.INFERIOR


def estimate_pair(arm: Arm, control: Arm, measure: Measure, on: str) -> Estimate | None:
    """One arm against any other, by themselves."""
    seeds = sorted({seed for each in (control, arm) for seed in values_of(each, measure, on)})
    if not seeds:
        return None
    assert measure.criterion is not None
    _, judgement = judge(_sample((control, arm), measure, on, seeds), [None, 0], measure, measure.criterion)
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


def primary_arms(arms: Sequence[Arm], method: str | None) -> list[str]:
    """The labels of the arms with this method; one under several settings is no primary arm."""
    alike = [arm for arm in arms if arm.method.name == method and not arm.is_reference]
    return [arm.label for arm in alike if not any(_is_secondary(config) for config in arm.configs)]


def _is_secondary(config: RunConfig) -> bool:
    """Whether its study says so, although it has the method of the primary arm."""
    role = config.study
    return role is not None and role.primary == config.method.name and role.is_primary is False


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


def criterion_of(measure: Measure, margin: float | None) -> float:
    """The limit on the measure's scale: a margin of 1.05 is a ratio of 1.05 (or of 0.95, where more is better).

    A difference keeps its own criterion: no ratio says how many points it is.
    """
    assert measure.criterion is not None, f"{measure.name} is not judged"
    if margin is None or measure.scale is CompareScale.DIFFERENCE:
        return measure.criterion
    limit = margin if measure.sign > 0 else round(2 - margin, 12)
    if not margin > 1 or not measure.accepts(limit):
        most = "" if measure.sign > 0 else " and below 2"
        raise ConfigError(
            f"margin {margin:g} is not a ratio of {measure.name} above 1{most}",
            "give what to accept, such as 1.05 for 5 % worse",
        )
    return limit


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


def _sample(arms: Sequence[Arm], measure: Measure, on: str, seeds: Sequence[int]) -> Sample:
    values = [values_of(arm, measure, on) for arm in arms]
    runs_AS = np.array([[found.get(seed, math.nan) for seed in seeds] for found in values])
    _require_one_question(arms, on)
    if measure.per == "run":
        return Sample(runs_AS)
    outcomes = [{record.config.seed: _outcomes(record, on) for record in arm.records} for arm in arms]
    lengths = {len(found) for by_seed in outcomes for found in by_seed.values() if found is not None}
    if len(lengths) > 1:
        sizes = " and ".join(f"{length:,}" for length in sorted(lengths))
        raise ConfigError(f"{on} has {sizes} examples in these runs", "compare runs that were evaluated on one set")
    if not lengths:
        return Sample(runs_AS)
    unknown = np.full(lengths.pop(), math.nan)
    rows = [[by_seed.get(seed) for seed in seeds] for by_seed in outcomes]
    examples = [[unknown if found is None else measure.factor * found for found in row] for row in rows]
    return Sample(runs_AS, np.array(examples))


def _require_one_question(arms: Sequence[Arm], on: str) -> None:
    """Refuse answers to different questions: another text under one name, another window."""
    rows = (_row(record, on, "last") for arm in arms for record in arm.records)
    asked = sorted({row.question for row in rows if row is not None and row.question})
    if len(asked) > 1:
        raise ConfigError(
            f"these runs were not asked the same about {on} ({asked[0]}; {asked[1]})",
            "ask all of them again: oelm eval",
        )


def _outcomes(record: Record, on: str) -> Floats | None:
    """1 for each example that the last checkpoint got right, else 0; None where predictions are not known."""
    row = _row(record, on, "last")
    if row is None or not row.predictions:
        return None
    return np.equal(row.predictions.split(), row.labels.split()).astype(np.float64)


def _finding(asked: _Asked, arm: Arm, control: Arm | None, judgement: Judgement | None, *, can_tell: bool) -> Finding:
    measure, on = asked.question.measure, asked.on
    ours, theirs = values_of(arm, measure, on), values_of(control, measure, on) if control else {}
    row = _row(arm.record, on, "last")
    verdict = Verdict(str(judgement.verdict)) if judgement else Verdict.NO_VERDICT
    pairs = int(judgement.pairs) if judgement else 0
    withheld = _withheld(verdict, pairs, arm, control, asked, can_tell=can_tell)
    verdict = verdict if withheld is None else Verdict.NO_VERDICT
    few = control is not None and verdict is Verdict.NO_VERDICT and withheld is None
    estimate = _estimate(judgement, measure) if judgement else None
    return Finding(
        measure=measure,
        on=on,
        arm=arm,
        control=control,
        by_seed=_natural(ours, measure),
        best_by_seed=_natural(values_of(arm, measure, on, "best"), measure),
        pairs_by_seed={seed: _pair(ours[seed], theirs[seed], measure) for seed in ours if seed in theirs},
        also=_also(arm, asked),
        examples=len(row.labels.split()) or None if row and measure.per == "example" else None,
        pairs=pairs,
        estimate=estimate,
        shown=_scalar(judgement.shown, measure.shown_as)
        if judgement and judgement.shown and measure.shown_as
        else None,
        text=_text_scatter(arm, control, measure, estimate) if control and estimate else None,
        verdict=verdict,
        confounds=confounds_between(arm, control) if control else (),
        missing=missing_runs(arm, control) if few and control and not asked.terms.is_registered else (),
        is_planned=asked.terms.provides_for(arm),
        is_primary=arm.label == asked.primary,
        stands_alone=judgement is not None and bool(judgement.alone),
        terms=asked.terms,
        withheld=withheld,
        more_seeds=_more_seeds(judgement, asked.question) if judgement and verdict is Verdict.UNDECIDED else None,
    )


def _also(arm: Arm, asked: _Asked) -> dict[str, float]:
    """Means of the measures that are not judged and were taken on the same text or set."""
    found = {}
    for measure in asked.also:
        figures = [_figures(record, measure, asked.on, "last") for record in arm.records]
        values = [each[measure.name] for each in figures if measure.name in each]
        if values and (measure.read_from == "validation") == (asked.on == ""):
            found[measure.name] = fmean(values)
    return found


def _text_scatter(arm: Arm, control: Arm, measure: Measure, estimate: Estimate) -> TextScatter | None:
    """None for a measure that is not exp(validation loss), and unless every pair has the same blocks of text."""
    if measure.logarithm != LOSS.name or measure.read_from != "validation":
        return None
    ours, theirs = _texts(arm), _texts(control)
    both = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
    pairs = [(one, other) for one, other in both if one is not None and other is not None]
    if not pairs or len(pairs) < len(both) or len({text.tokens for pair in pairs for text in pair}) > 1:
        return None
    tokens_K = np.array(pairs[0][0].tokens, np.float64)
    differences_K = np.mean([np.subtract(one.losses, other.losses) for one, other in pairs], axis=0)
    factor = exponential(float(text_contrast(differences_K, tokens_K).half_width(estimate.confidence)))
    is_wider = estimate.ends is not None and estimate.ends[0] * factor > estimate.ends[1] / factor
    return TextScatter(factor, estimate.confidence, len(tokens_K), is_wider)


def _texts(arm: Arm) -> dict[int, TextBlocks | None]:
    return {record.config.seed: record.result.text for record in arm.records}


def _withheld(
    verdict: Verdict, pairs: int, arm: Arm, control: Arm | None, asked: _Asked, *, can_tell: bool
) -> Withheld | None:
    """Why the verdict must not be given; None where it may, or where there are too few seeds for one."""
    if verdict is Verdict.NO_VERDICT or control is None:
        return _no_interval(arm, control, asked) if control and pairs >= PAIRS_FOR_VERDICT else None
    plan, is_harmless = asked.terms.plan, verdict is Verdict.NON_INFERIOR
    cells = [each.config.study.cell for each in (arm, control) if each.config.study]
    if plan and (any(map(plan.lacks, cells)) or _lacks_figures(arm, control, plan, asked)):
        return Withheld.INCOMPLETE
    if is_harmless and (asked.lacks_negative or (plan and any(map(plan.lacks_negative, cells)))):
        return Withheld.NO_NEGATIVE
    if control.unexplained is not None and control.unexplained > LEARNT and verdict is not Verdict.INFERIOR:
        return Withheld.NOT_LEARNT
    return None if can_tell or not is_harmless else Withheld.CANNOT_TELL


def _no_interval(arm: Arm, control: Arm, asked: _Asked) -> Withheld:
    """Why there are seeds enough and no interval."""
    outcomes = [_outcomes(record, asked.on) for each in (arm, control) for record in each.records]
    return Withheld.NO_OUTCOMES if any(found is None for found in outcomes) else Withheld.NO_SHARE


def _lacks_figures(arm: Arm, control: Arm, plan: Registration, asked: _Asked) -> bool:
    """Whether there are runs of which this was not asked, or another arm stands in for the planned control."""
    planned = plan.controls.get(cell_of(arm.config) or "") if asked.terms.provides_for(arm) else None
    measure, on = asked.question.measure, asked.on
    lacking = any(set(each.seeds) - values_of(each, measure, on).keys() for each in (arm, control))
    return lacking or planned not in (None, cell_of(control.config))


def _more_seeds(judgement: Judgement, question: Question) -> int | None:
    confidence = float(judgement.estimate.confidence)
    return seeds_to_decide(judgement.contrast, int(judgement.pairs), question.limit, confidence)


def _natural(values: BySeed, measure: Measure) -> dict[int, float]:
    """From what is subtracted back to the measure's own unit."""
    if measure.scale is CompareScale.RATIO:
        return {seed: exponential(value) for seed, value in values.items()}
    return {seed: value / measure.factor for seed, value in values.items()}


def _pair(ours: float, theirs: float, measure: Measure) -> float:
    if measure.scale is CompareScale.SHARE:
        return ours / theirs if theirs else 1.0 if ours == theirs else math.inf
    return exponential(ours - theirs) if measure.scale is CompareScale.RATIO else ours - theirs


def _estimate(judgement: Judgement, measure: Measure) -> Estimate | None:
    assert measure.scale is not None
    found, other = _scalar(judgement.estimate, measure.scale), judgement.other
    if math.isnan(found.value):
        return None  # there is no share of nothing
    if found.ends is None:
        return found
    return replace(
        found,
        model=Model(str(judgement.model)),
        other=None if other is None else (float(other.lower), float(other.upper)),
        smallest_criterion=float(judgement.smallest_criterion),
        within=float(judgement.within),
    )


def _scalar(found: Estimates, scale: CompareScale) -> Estimate:
    if np.isnan(found.lower):
        return Estimate(scale, float(found.value))
    return Estimate(scale, float(found.value), float(found.lower), float(found.upper), float(found.confidence))


def _pooled(findings: Sequence[Finding], asked: _Asked) -> Pooled | None:
    if not any(found.estimate and found.estimate.model is Model.POOLED for found in findings):
        return None
    blocks = blocks_of(asked.question.sample.runs, asked.question.not_pooled)
    assert blocks is not None
    used = {seed for place in blocks.arms for seed in asked.arms[place].seeds}
    common = {asked.seeds[place] for place in blocks.seeds}
    return Pooled(
        tuple(asked.arms[place].label for place in blocks.arms), tuple(sorted(common)), tuple(sorted(used - common))
    )


def exponential(value: float) -> float:
    """exp, and infinity where a float overflows (the loss of a diverging run)."""
    return math.exp(value) if value < 700 else math.inf
