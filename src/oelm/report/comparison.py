"""Each arm beside its control: the ratio, the verdict, and what else could explain it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from oelm.config.method import Method
from oelm.config.methods import METHODS, control_of, parse_method
from oelm.config.record import Record
from oelm.report.arms import Arm, group_into_arms
from oelm.report.confounds import Confound, ScaleGap, confounds_between, scale_gaps
from oelm.report.differences import decides_the_problem, differing_settings, is_of_method
from oelm.report.rows import load_records, unfinished_runs
from oelm.report.statistics import (
    DEFAULT_MARGIN,
    SEEDS_FOR_VERDICT,
    Estimate,
    Verdict,
    check_margin,
    estimate_ratio,
    judge,
    paired_differences,
)

BASELINE = METHODS["baseline"]


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

    @property
    def is_reference(self) -> bool:
        """Whether the arm is a plain baseline: others are measured against it."""
        return is_same_method(self.arm.method, BASELINE)

    @property
    def time_ratio(self) -> float | None:
        """Measured time per step relative to the control; shown, but no evidence of anything."""
        return self.arm.step_seconds / self.control.step_seconds if self.control else None


@dataclass(frozen=True)
class Comparison:
    """All arms of a set of records; what every rendering reads."""

    margin: float
    findings: tuple[Finding, ...]
    scale_gaps: tuple[ScaleGap, ...]
    unfinished: tuple[Path, ...] = ()


def compare_runs(paths: Sequence[Path], margin: float = DEFAULT_MARGIN) -> Comparison:
    """Compare the runs in these folders: the one entry for the command line."""
    return compare(load_records(paths), margin, unfinished_runs(paths))


def compare(records: Sequence[Record], margin: float = DEFAULT_MARGIN, unfinished: Sequence[Path] = ()) -> Comparison:
    """Group records into arms and set each beside its control."""
    check_margin(margin)
    arms = group_into_arms(records)
    findings = tuple(_finding(arm, choose_control(arm, arms), margin) for arm in arms)
    return Comparison(margin, findings, scale_gaps(arms), tuple(unfinished))


def choose_control(arm: Arm, arms: Sequence[Arm]) -> Arm | None:
    """The fair control (baseline with the same extras) or else `baseline`; of several, the one most alike.

    Settings weigh more than extras: a baseline under equal settings is chosen before a fair control under
    other ones, and other data or another size weigh most.
    """
    if is_same_method(arm.method, BASELINE):
        return None
    fair = parse_method(control_of(arm.method))
    candidates = [
        other
        for other in arms
        if other.task == arm.task
        and not is_same_method(other.method, arm.method)
        and (is_same_method(other.method, fair) or is_same_method(other.method, BASELINE))
    ]
    return min(candidates, key=lambda other: _distance(arm, other, fair), default=None)


def is_same_method(one: Method, other: Method) -> bool:
    """Whether two methods are equal whatever they are called (`+gain+shift` is `+shift+gain`)."""
    return one.model_dump(exclude={"name"}) == other.model_dump(exclude={"name"})


def missing_runs(arm: Arm, control: Arm) -> tuple[MissingRuns, ...]:
    """The fewest further runs that make enough pairs: complete half pairs first, then take new seeds."""
    ours, theirs = arm.losses.keys(), control.losses.keys()
    known = [*sorted(ours & theirs), *sorted(ours ^ theirs)]
    fresh = (seed for seed in count() if seed not in known)
    wanted = [known[index] if index < len(known) else next(fresh) for index in range(SEEDS_FOR_VERDICT)]
    lacking = (
        MissingRuns(side.method.name, tuple(seed for seed in wanted if seed not in side.losses))
        for side in (arm, control)
    )
    return tuple(runs for runs in lacking if runs.seeds)


def _finding(arm: Arm, control: Arm | None, margin: float) -> Finding:
    if control is None:
        return Finding(arm, None, None, Verdict.NO_VERDICT, (), ())
    estimate = estimate_ratio(paired_differences(arm.losses, control.losses))
    verdict = judge(estimate, margin)
    missing = missing_runs(arm, control) if verdict is Verdict.NO_VERDICT else ()
    return Finding(arm, control, estimate, verdict, confounds_between(arm, control), missing)


def _distance(arm: Arm, other: Arm, fair: Method) -> tuple[int, int, bool]:
    paths = [path for path in differing_settings(arm.config, other.config) if not is_of_method(path)]
    heavy = sum(decides_the_problem(path) for path in paths)
    return heavy, len(paths), not is_same_method(other.method, fair)
