"""Confounds that the records show: what differs between an arm and its control beside the method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from oelm.config.method import Extras
from oelm.report.arms import Arm
from oelm.report.differences import differing_settings, is_of_method, setting_name, setting_value

NORM_TOLERANCE = 0.05
"""Row norms closer than this (relative) count as equal: random rows have unit norm only in expectation."""


class ConfoundKind(StrEnum):
    """What kind of thing stands beside the method as an explanation."""

    SETTING = "setting"
    ENVIRONMENT = "environment"
    EXTRAS = "extras"
    SEEDS = "seeds"
    ONE_SEED = "one-seed"
    FREEZE_AUDIT = "freeze-audit"


@dataclass(frozen=True)
class Confound:
    """One finding. `arm` and `control` hold the two differing values, `what` names the thing that differs."""

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


def confounds_between(arm: Arm, control: Arm) -> tuple[Confound, ...]:
    """All that is found between an arm and its control, the plainest first; empty where there is nothing."""
    return (
        *_settings(arm, control),
        *_extras(arm, control),
        *_environment(arm, control),
        *_seeds(arm, control),
        *_audit(arm),
    )


def scale_gaps(arms: Sequence[Arm]) -> tuple[ScaleGap, ...]:
    """Pairs of frozen arms that differ in projection, in the norm of its rows, and in nothing else."""
    gaps = (_scale_gap(one, other) for one, other in combinations(arms, 2) if _are_ablations(one, other))
    return tuple(gap for gap in gaps if gap is not None)


def _settings(arm: Arm, control: Arm) -> list[Confound]:
    paths = [path for path in differing_settings(arm.config, control.config) if not is_of_method(path)]
    return [
        Confound(
            ConfoundKind.SETTING,
            setting_name(path),
            setting_value(arm.config, path),
            setting_value(control.config, path),
        )
        for path in paths
    ]


def _extras(arm: Arm, control: Arm) -> list[Confound]:
    """Extras that the control lacks. Those of `baseline+...` beside `baseline` are what is under test."""
    own, theirs = _common_extras(arm.method.extras), _common_extras(control.method.extras)
    if own == theirs or _differ_in_extras_only(arm, control):
        return []
    return [Confound(ConfoundKind.EXTRAS, "extras", own, theirs)]


def _common_extras(extras: Extras) -> str:
    """The extras that a baseline can have as well (core and rank replace Q and K, so they are the method)."""
    flags = [name for name, is_on in (("shift", extras.shift), ("gain", extras.gain)) if is_on]
    rate = [] if extras.layer_lr == 1 else [f"layer-lr={extras.layer_lr:g}"]
    return "+".join([*flags, *rate]) or "none"


def _differ_in_extras_only(arm: Arm, control: Arm) -> bool:
    common = {"method.extras.shift", "method.extras.gain", "method.extras.layer_lr"}
    return all(path in common for path in differing_settings(arm.config, control.config) if is_of_method(path))


def _environment(arm: Arm, control: Arm) -> list[Confound]:
    """Versions and device, as sets: each side may have been computed in several places."""
    found = []
    for field in ("oelm", "torch", "device"):
        own = {str(getattr(record.environment, field)) for record in arm.records}
        theirs = {str(getattr(record.environment, field)) for record in control.records}
        if own != theirs:
            found.append(Confound(ConfoundKind.ENVIRONMENT, field, ", ".join(sorted(own)), ", ".join(sorted(theirs))))
    return found


def _seeds(arm: Arm, control: Arm) -> list[Confound]:
    found = []
    if arm.losses.keys() != control.losses.keys():
        found.append(Confound(ConfoundKind.SEEDS, "seeds", _listed(arm), _listed(control)))
    if len(arm.losses.keys() & control.losses.keys()) == 1:
        found.append(Confound(ConfoundKind.ONE_SEED, "seeds"))
    return found


def _listed(arm: Arm) -> str:
    return ", ".join(str(seed) for seed in arm.losses)


def _audit(arm: Arm) -> list[Confound]:
    moved = [str(record.config.seed) for record in arm.records if not record.audit.unchanged]
    return [Confound(ConfoundKind.FREEZE_AUDIT, "frozen weights", ", ".join(moved))] if moved else []


def _are_ablations(one: Arm, other: Arm) -> bool:
    """Both frozen, alike in all but how Q and K are drawn (projection and scale)."""
    drawn = {"method.query", "method.key", "method.scale"}
    different = set(differing_settings(one.config, other.config))
    projections_differ = bool(different & {"method.query", "method.key"})
    return one.method.plan is not None and one.task == other.task and projections_differ and different <= drawn


def _scale_gap(one: Arm, other: Arm) -> ScaleGap | None:
    norms = (one.row_norm, other.row_norm)
    if norms[0] is None or norms[1] is None or math.isclose(norms[0], norms[1], rel_tol=NORM_TOLERANCE):
        return None
    return ScaleGap(one, other, norms[0], norms[1])
