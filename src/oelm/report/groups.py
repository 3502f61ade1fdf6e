"""The report as plain data: records -> experiments -> comparisons and views. JSON is this; all else is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oelm.base.errors import ConfigError
from oelm.config.methods import METHODS
from oelm.config.record import Record, RunState
from oelm.config.settings import fingerprint
from oelm.report import study_views, views
from oelm.report.arms import (
    Arm,
    choose_control,
    group_into_arms,
    is_registered,
    is_same_method,
    is_tuning,
    problem_of,
    size_name,
    study_of,
)
from oelm.report.confounds import ScaleGap, scale_gaps
from oelm.report.findings import Comparison, Finding, compare_all, require_arm, require_use, terms_of
from oelm.report.record_files import (
    FoundPlan,
    Registration,
    StudyText,
    find_plans,
    find_runs,
    how_it_ended,
    registration_of,
    registrations,
    study_texts,
    unfinished_runs,
    within_plan,
)
from oelm.report.verdicts import DECIDED

_ENDED = (RunState.DIVERGED, RunState.FAILED)

if TYPE_CHECKING:
    from oelm.report.reported_study import ReportedStudy


@dataclass(frozen=True)
class Group:
    """One experiment: arms that learn the same thing."""

    study: str | None
    data: str
    size: str
    source: str
    """`measured` or `reported`."""
    task: str
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    """One for each judged measure and evaluation set; the task's first measure comes first."""
    scale_gaps: tuple[ScaleGap, ...]
    ablation: tuple[views.AblationStep, ...]
    costs: tuple[views.CostRow, ...]
    audit: tuple[views.AuditRow, ...]
    geometry: tuple[views.GeometryRow, ...]
    samples: tuple[views.SampledText, ...]
    heads: tuple[views.HeadMap, ...]
    text_differences: tuple[views.TextDifference, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of all comparisons."""
        return tuple(found for comparison in self.comparisons for found in comparison.findings)

    @property
    def headline(self) -> Finding | None:
        """The answer by the first measure: the primary arm's. None where no arm has a control.

        Without a primary arm that of an arm which was planned and a method which saves something, one that is decided
        before one that is not, `oelm` before others, and then the one with most pairs.
        """

        def weight(found: Finding) -> tuple[bool, bool, bool, bool, bool, int]:
            counts, is_oelm = found.arm.record.counts, is_same_method(found.arm.method, METHODS["oelm"])
            saves = counts.frozen + counts.absent > 0 and not found.arm.method.blind
            return found.is_primary, found.is_planned, saves, found.verdict in DECIDED, is_oelm, found.pairs

        first = self.comparisons[0].measure if self.comparisons else None
        compared = [found for found in self.findings if found.control is not None and found.measure == first]
        return max(compared, key=weight, default=None)


@dataclass(frozen=True)
class Report:
    """Everything that a writer may show."""

    groups: tuple[Group, ...]
    trends: tuple[study_views.Trend, ...]
    """One per method that was compared on several data sets or sizes."""
    reported: tuple[study_views.ReportedPair, ...]
    """Our results and those that another study reported for the same method and data."""
    reported_study: "ReportedStudy | None"
    """All that the other study reported."""
    tuning: tuple[study_views.TuningTable, ...]
    environments: tuple[study_views.EnvironmentRow, ...]
    unchecked: tuple[study_views.UncheckedChoice, ...]
    """Choices of learning rates whose tuning runs left no record here."""
    unfinished: tuple[Path, ...]
    damaged: tuple[str, ...]
    """What is wrong with records that were left out."""
    ended: Mapping[str, RunState]
    """How those of them ended that diverged or failed."""
    registrations: tuple[Registration, ...]
    """Under which registered plan the runs of each study were made, if any."""
    studies: tuple[StudyText, ...]
    """What the studies say of themselves, where their files or plans are here."""


class OnlyTuningError(ConfigError):
    """There are runs, and none of them is to be compared."""


def report_runs(
    paths: Sequence[Path], margin: float | None = None, primary: str | None = None, reported: Sequence[Record] = ()
) -> Report:
    """The report on the runs in these folders; `reported` are another study's records to show with them."""
    runs, damaged = find_runs(paths)
    records = [*(run.record for run in runs), *reported]
    plans = find_plans(paths, records)
    return build_report(
        records,
        margin,
        primary,
        unfinished_runs(paths),
        plans,
        damaged,
        study_texts(runs, plans),
        {run.record.fingerprint: run.answers for run in runs if run.answers is not None},
    )


def build_report(
    records: Sequence[Record],
    margin: float | None = None,
    primary: str | None = None,
    unfinished: Sequence[Path] = (),
    plans: Mapping[str, FoundPlan] | None = None,
    damaged: Sequence[str] = (),
    studies: Sequence[StudyText] = (),
    answers: views.Answers | None = None,
) -> Report:
    """Split records into experiments, compare each, and gather the views.

    Margin and primary arm are those that the records state, unless they are given. Runs that a registered plan does
    not provide for are named, not judged.
    """
    final = [record for record in records if not is_tuning(record.config)]
    if not final:
        raise OnlyTuningError("there are only tuning runs here", "give the folder of the final runs too")
    registered = registrations(final, plans or {})
    split = [group_into_arms(members) for members in split_into_groups(within_plan(final, registered) or final)]
    require_arm(split, primary)
    require_use(split, margin)
    terms = [
        terms_of(arms, registration_of([record for arm in arms for record in arm.records], registered), margin, primary)
        for arms in split
    ]
    compared = zip(split, compare_all(split, terms), strict=True)
    groups = tuple(_group(*each, answers or {}) for each in compared)
    arms = [arm for group in groups for arm in group.arms]
    findings = [found for group in groups for found in group.findings]
    return Report(
        groups=groups,
        trends=study_views.trends(findings),
        reported=study_views.reported_pairs(findings),
        reported_study=_reported_study(groups),
        tuning=study_views.tuning_tables(records, arms),
        environments=study_views.environment_rows(arms),
        unchecked=study_views.unchecked_choices(records, arms),
        unfinished=tuple(unfinished),
        damaged=tuple(damaged),
        ended={str(path): state for path in unfinished if (state := how_it_ended(path)) in _ENDED},
        registrations=registered,
        studies=tuple(studies),
    )


def _reported_study(groups: Sequence[Group]) -> "ReportedStudy | None":
    """Loaded only where another study's records are: most reports have none."""
    if all(group.source == "measured" for group in groups):
        return None
    from oelm.report.reported_study import reported_study

    return reported_study([group.findings for group in groups])


def split_into_groups(records: Sequence[Record]) -> list[list[Record]]:
    """Experiments (one study, source, task, data and size) in the order of their first run.

    An arm without a control of its own study, data and size joins the experiment of the control that is nearest, so
    that what differs between the two is named; without any control it stays where it is. So do runs under a registered
    plan, which says what they are compared with, and controls: with them their whole experiment would join another.
    """
    arms = [arm for members in _by_plan(records) for arm in group_into_arms(members)]
    joined: dict[str, list[Record]] = {}
    for arm in arms:
        root = _last_control(arm, arms)
        key = fingerprint([root.task, root.source, study_of(root.config), problem_of(root.config)])
        joined.setdefault(key, []).extend(arm.records)
    return list(joined.values())


def _by_plan(records: Sequence[Record]) -> list[list[Record]]:
    """The runs under the plan of each study, and those under none; a run that is in it twice counts once."""
    found: dict[str | None, dict[str, Record]] = {}
    for record in records:
        study = study_of(record.config) if is_registered(record.config) else None
        run = fingerprint([record.task, record.source, record.config.fingerprint])
        found.setdefault(study, {}).setdefault(run, record)
    return [list(runs.values()) for runs in found.values()]


def _last_control(arm: Arm, arms: Sequence[Arm]) -> Arm:
    """The control of the control ... of an arm: in the end a plain baseline, or what has no control."""
    control = choose_control(arm, arms if _may_join_others(arm) else [each for each in arms if _is_beside(arm, each)])
    return arm if control is None else _last_control(control, arms)


def _may_join_others(arm: Arm) -> bool:
    return not arm.is_baseline and not any(map(is_registered, arm.configs))


def _is_beside(arm: Arm, other: Arm) -> bool:
    """Whether two arms learn the same in one study."""
    one, two = arm.config, other.config
    return (study_of(one), problem_of(one)) == (study_of(two), problem_of(two))


def _group(arms: tuple[Arm, ...], comparisons: tuple[Comparison, ...], answers: views.Answers) -> Group:
    config = next((control for arm in arms if (control := choose_control(arm, arms))), arms[0]).config
    first = comparisons[0] if comparisons else None
    return Group(
        study=study_of(config),
        data=config.data.name,
        size=size_name(config),
        source=arms[0].source,
        task=arms[0].task,
        arms=arms,
        comparisons=comparisons,
        scale_gaps=scale_gaps(arms),
        ablation=views.ablation_steps(arms, first.measure, first.on) if first else (),
        costs=views.cost_rows(arms),
        audit=views.audit_rows(arms),
        geometry=views.geometry_rows(arms),
        samples=views.sampled_texts(arms, answers),
        heads=views.head_maps(arms, answers),
        text_differences=views.text_differences(arms, answers),
    )
