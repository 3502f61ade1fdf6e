"""Confounds: what could explain a difference between two arms other than the method.

The rules on settings need no run, so a plan is judged by the very rules that judge its results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from oelm.config.method import From
from oelm.config.methods import CARRIED, carried, control_of
from oelm.config.run import RunConfig
from oelm.config.study_role import Tuning
from oelm.report.arms import (
    NO_SETTING,
    Arm,
    choose_control,
    differing_settings,
    is_of_method,
    planned_arms,
    setting_name,
    setting_value,
    short_float,
    tuning_of,
    unlike_settings,
)

NORM_TOLERANCE = 0.05
"""Row norms closer than this (relative) count as equal: random rows have unit norm only in expectation."""


class ConfoundKind(StrEnum):
    """What kind of thing it is."""

    SETTING = "setting"
    """A setting outside the method differs; the learning rate is one unless both arms were tuned alike."""
    UNEQUAL_TUNING = "unequal-tuning"
    LOWEST_OF_GRID = "lowest-of-grid"
    HIGHEST_OF_GRID = "highest-of-grid"
    """The chosen learning rate is the last of the grid: the best one may lie beyond."""
    TWO_MINIMA = "two-minima"
    """Another learning rate, beyond worse ones, did nearly as well as the best: a longer run may prefer it."""
    TUNING_SEED = "tuning-seed"
    """A seed on which the learning rate was chosen is used again to judge it."""
    EXTRAS = "extras"
    SCALE = "scale"
    """Two ways to draw Q and K differ in the length of the rows too."""
    SEEDS = "seeds"
    ONE_SEED = "one-seed"
    TWO_SEEDS = "two-seeds"
    """Of a plan: there will be an interval and no verdict."""
    NO_CONTROL = "no-control"
    """Of a plan: there will be nothing to compare an arm with."""
    ENVIRONMENT = "environment"
    UNCOMMITTED = "uncommitted"
    """The source was not the commit that the record names."""
    FREEZE_AUDIT = "freeze-audit"
    """Frozen weights moved."""
    NO_FREEZE_AUDIT = "no-freeze-audit"
    NOT_TRAINED = "not-trained"
    """Weights that should have been trained stayed as they were."""
    BEST_CHECKPOINT = "best-checkpoint"
    UNKNOWN_CHECKPOINT = "unknown-checkpoint"


@dataclass(frozen=True)
class Confound:
    """`what` names the thing that differs, `arm` and `control` hold the two values."""

    kind: ConfoundKind
    what: str
    arm: str = ""
    control: str = ""


@dataclass(frozen=True)
class ScaleGap:
    """Two frozen arms that a reader compares for their directions, but whose rows differ in length too."""

    one: Arm
    other: Arm
    one_norm: float
    other_norm: float

    @property
    def confound(self) -> Confound:
        """The same as a confound of the one arm against the other."""
        return Confound(ConfoundKind.SCALE, "scale of Q and K", f"{self.one_norm:.3f}", f"{self.other_norm:.3f}")


@dataclass(frozen=True)
class PlannedConfound:
    """What will be able to explain a difference between two arms of a plan; `control` may be another frozen arm."""

    arm: str
    control: str
    confound: Confound


def confounds_between(arm: Arm, control: Arm) -> tuple[Confound, ...]:
    """All that is found between an arm and its control, the plainest first; empty where there is nothing."""
    return (
        *design_confounds(arm, control),
        *_environment(arm, control),
        *_uncommitted(arm, control),
        *_audit(arm, control),
        *_checkpoint(arm, control),
    )


def planned_confounds(configs: Sequence[RunConfig], names: Sequence[str] | None = None) -> tuple[PlannedConfound, ...]:
    """All confounds between each planned arm and its control, then the gaps of scale between frozen arms.

    `names` gives each config the name that its arm goes by (runs of one arm share it).
    """
    known_only_after_tuning = (ConfoundKind.LOWEST_OF_GRID, ConfoundKind.HIGHEST_OF_GRID)
    arms = planned_arms(configs, names)
    found = [
        PlannedConfound(arm.label, control.label, confound)
        for arm in arms
        if (control := choose_control(arm, arms)) is not None
        for confound in (*design_confounds(arm, control), *_two_seeds(arm, control))
        if confound.kind not in known_only_after_tuning
    ]
    lone = [
        PlannedConfound(arm.label, control_of(arm.method), Confound(ConfoundKind.NO_CONTROL, arm.label))
        for arm in arms
        if not arm.is_baseline and choose_control(arm, arms) is None
    ]
    gaps = [PlannedConfound(gap.one.label, gap.other.label, gap.confound) for gap in scale_gaps(arms)]
    return (*lone, *found, *gaps)


def design_confounds(arm: Arm, control: Arm) -> tuple[Confound, ...]:
    """What the settings and seeds alone show, before or after the runs."""
    return (
        *_settings(arm.config, control.config),
        *_tuning(arm, control),
        *_extras(arm.config, control.config),
        *_seeds(arm, control),
    )


def scale_gaps(arms: Sequence[Arm]) -> tuple[ScaleGap, ...]:
    """Pairs of frozen arms that differ in projection, in the norm of its rows, and in nothing else.

    An arm and its baseline are no such pair: how Q and K are drawn is the method that is compared with it, and the
    baseline trains its rows away from where they start.
    """
    gaps = (_scale_gap(one, other) for one, other in combinations(arms, 2) if _are_ablations(one, other))
    return tuple(gap for gap in gaps if gap is not None)


def _settings(config: RunConfig, control: RunConfig) -> list[Confound]:
    return [
        Confound(ConfoundKind.SETTING, setting_name(path), setting_value(config, path), setting_value(control, path))
        for path in unlike_settings(config, control)
    ]


def _tuning(arm: Arm, control: Arm) -> list[Confound]:
    ours, theirs = tuning_of(arm.config), tuning_of(control.config)
    found = []
    if ours and theirs:
        found += [
            Confound(ConfoundKind.UNEQUAL_TUNING, field, _written(ours, field), _written(theirs, field))
            for field in ours.rule
            if ours.rule[field] != theirs.rule[field]
        ]
    elif (ours or theirs) and arm.config.optim.lr == control.config.optim.lr:  # else the rates differ, which is named
        tried = [_written(tuning, "grid") if tuning else NO_SETTING for tuning in (ours, theirs)]
        found.append(Confound(ConfoundKind.UNEQUAL_TUNING, "grid", *tried))
    for each in (arm, control):
        found += [*_edge(each), *_two_minima(each), *_reused_seed(each)]
    return found


def _edge(arm: Arm) -> list[Confound]:
    tuning, rate = tuning_of(arm.config), arm.config.optim.lr
    if tuning is None or len(tuning.grid) < 2:
        return []
    tried = [trial.lr for trial in tuning.choice.trials] if tuning.choice else tuning.grid
    lowest, highest = math.isclose(rate, min(tried)), math.isclose(rate, max(tried))
    kind = ConfoundKind.LOWEST_OF_GRID if lowest else ConfoundKind.HIGHEST_OF_GRID
    return [Confound(kind, arm.label, short_float(rate))] if lowest or highest else []


def _two_minima(arm: Arm) -> list[Confound]:
    """Rates that are better than their neighbours and whose loss lies within the margin of the best one's."""
    role, tuning = arm.config.study, tuning_of(arm.config)
    if role is None or tuning is None or tuning.choice is None or tuning.measure != "loss":
        return []
    losses = [math.inf, *(math.inf if each.loss is None else each.loss for each in tuning.choice.trials), math.inf]
    near = [
        trial.lr
        for trial, before, own, after in zip(tuning.choice.trials, losses, losses[1:], losses[2:], strict=False)
        if before > own < after and own < min(losses) + math.log(role.margin)
    ]
    rates = [short_float(rate) for rate in near]
    return [Confound(ConfoundKind.TWO_MINIMA, arm.label, rates[0], rates[-1])] if len(rates) > 1 else []


def _reused_seed(arm: Arm) -> list[Confound]:
    tuning = tuning_of(arm.config)
    if tuning is None or tuning.seed not in arm.seeds:
        return []
    return [Confound(ConfoundKind.TUNING_SEED, arm.label, str(tuning.seed))]


def _written(tuning: Tuning, field: str) -> str:
    value = getattr(tuning, field)
    return " ".join(short_float(rate) for rate in value) if isinstance(value, tuple) else str(value)


def _extras(config: RunConfig, control: RunConfig) -> list[Confound]:
    """Extras that the control lacks.

    Those of `baseline+...` against `baseline` are what is under test; blind attention could do nothing with any.
    """
    own, theirs = ("+".join(carried(method)) or "none" for method in (config.method, control.method))
    if own == theirs or config.method.blind or _differ_in_extras_only(config, control):
        return []
    return [Confound(ConfoundKind.EXTRAS, "extras", own, theirs)]


def _differ_in_extras_only(config: RunConfig, control: RunConfig) -> bool:
    """Whether the methods differ in nothing that a baseline could not have as well."""
    paths = [path for path in differing_settings(config, control) if is_of_method(path)]
    return all(CARRIED.get(path.removeprefix("method.").removeprefix("extras.")) is not None for path in paths)


def _seeds(arm: Arm, control: Arm) -> list[Confound]:
    found = []
    if arm.seeds != control.seeds:
        found.append(Confound(ConfoundKind.SEEDS, "seeds", listed(arm.seeds), listed(control.seeds)))
    if len(set(arm.seeds) & set(control.seeds)) == 1:
        found.append(Confound(ConfoundKind.ONE_SEED, "seeds"))
    return found


def _two_seeds(arm: Arm, control: Arm) -> list[Confound]:
    return [Confound(ConfoundKind.TWO_SEEDS, "seeds")] if len(set(arm.seeds) & set(control.seeds)) == 2 else []


def listed(seeds: Sequence[int]) -> str:
    """`0, 1, 2`."""
    return ", ".join(str(seed) for seed in seeds)


def _environment(arm: Arm, control: Arm) -> list[Confound]:
    """Versions, commit, device and the like, pair by pair: each pair may have been computed in a place of its own."""
    found = []
    for field in ("oelm", "git_commit", "torch", "device", "threads", "preloaded", "compile"):
        own, theirs = _environments(arm, field), _environments(control, field)
        unlike = [seed for seed in own if seed in theirs and own[seed] != theirs[seed]]
        if unlike:
            ours, others = (", ".join(sorted({each[seed] for seed in unlike})) for each in (own, theirs))
            found.append(Confound(ConfoundKind.ENVIRONMENT, field, ours, others))
    return found


def _environments(arm: Arm, field: str) -> dict[int, str]:
    """By seed."""
    found = {}
    for record in arm.records:
        if record.environment is not None:
            value = record.config.machine.compile if field == "compile" else getattr(record.environment, field)
            found[record.config.seed] = (str(value)[:12] if field == "git_commit" else str(value)) or "none"
    return found


def _uncommitted(arm: Arm, control: Arm) -> list[Confound]:
    return [
        Confound(ConfoundKind.UNCOMMITTED, each.label, listed(seeds))
        for each in (arm, control)
        if (seeds := [run.config.seed for run in each.records if run.environment and run.environment.git_dirty])
    ]


def _audit(arm: Arm, control: Arm) -> list[Confound]:
    found = []
    for each in (arm, control):
        audits = {record.config.seed: record.audit for record in each.records if record.audit is not None}
        broken = [seed for seed, audit in audits.items() if audit.unchanged is False]
        unmoved = [seed for seed, audit in audits.items() if not audit.moved]
        found += [Confound(ConfoundKind.FREEZE_AUDIT, each.label, listed(broken))] if broken else []
        found += [Confound(ConfoundKind.NOT_TRAINED, each.label, listed(unmoved))] if unmoved else []
    unknown = [record.config.seed for record in arm.records if record.audit is None]
    if unknown and arm.method.plan is not None:
        found.append(Confound(ConfoundKind.NO_FREEZE_AUDIT, "frozen weights", listed(unknown)))
    return found


def _checkpoint(arm: Arm, control: Arm) -> list[Confound]:
    """Figures that are not those of the last step; only a reported record can have them."""
    kinds = {"best": ConfoundKind.BEST_CHECKPOINT, "unknown": ConfoundKind.UNKNOWN_CHECKPOINT}
    used = {record.result.checkpoint for each in (arm, control) for record in each.records}
    return [Confound(kind, "checkpoint") for checkpoint, kind in kinds.items() if checkpoint in used]


def _are_ablations(one: Arm, other: Arm) -> bool:
    """Both frozen, alike in all but how Q and K are drawn (projection and scale) and a rate that was tuned alike."""
    ours, theirs = one.config.method, other.config.method
    drawn_alike = (ours.query, ours.key) == (theirs.query, theirs.key)
    never_frozen = ours.plan is None or isinstance(ours.plan.when, From)
    if never_frozen or drawn_alike or (one.task, one.source) != (other.task, other.source):
        return False
    of_method = {path for path in differing_settings(one.config, other.config) if is_of_method(path)}
    draws = {"method.query", "method.key", "method.scale"}
    return of_method <= draws and not unlike_settings(one.config, other.config)


def _scale_gap(one: Arm, other: Arm) -> ScaleGap | None:
    norms = (one.row_norm, other.row_norm)
    if norms[0] is None or norms[1] is None or math.isclose(norms[0], norms[1], rel_tol=NORM_TOLERANCE):
        return None
    return ScaleGap(one, other, norms[0], norms[1])
