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
    is_same_method,
    is_tuning,
    problem_of,
    size_name,
    study_of,
)
from oelm.report.confounds import ScaleGap, scale_gaps
from oelm.report.findings import Comparison, Finding, compare_all, require_arm, terms_of
from oelm.report.record_files import (
    FoundPlan,
    Registration,
    find_plans,
    find_records,
    how_it_ended,
    registration_of,
    registrations,
    unfinished_runs,
    within_plan,
)

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

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of all comparisons."""
        return tuple(found for comparison in self.comparisons for found in comparison.findings)

    @property
    def headline(self) -> Finding | None:
        """The answer: the primary arm's, or else that of `oelm`, or else the one with most pairs; by the first measure.

        None where no arm has a control.
        """

        def weight(found: Finding) -> tuple[bool, bool, int]:
            return found.is_primary, is_same_method(found.arm.method, METHODS["oelm"]), found.pairs

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


def report_runs(
    paths: Sequence[Path], margin: float | None = None, primary: str | None = None, reported: Sequence[Record] = ()
) -> Report:
    """The report on the runs in these folders; `reported` are another study's records to show with them."""
    found, damaged = find_records(paths)
    records = [*found, *reported]
    return build_report(records, margin, primary, unfinished_runs(paths), find_plans(paths, records), damaged)


def build_report(
    records: Sequence[Record],
    margin: float | None = None,
    primary: str | None = None,
    unfinished: Sequence[Path] = (),
    plans: Mapping[str, FoundPlan] | None = None,
    damaged: Sequence[str] = (),
) -> Report:
    """Split records into experiments, compare each, and gather the views.

    Margin and primary arm are those that the records state, unless they are given. Runs that a registered plan does
    not provide for are named, not judged.
    """
    final = [record for record in records if not is_tuning(record.config)]
    if not final:
        raise ConfigError("there are only tuning runs here", "give the folder of the final runs too")
    registered = registrations(final, plans or {})
    split = [group_into_arms(members) for members in split_into_groups(within_plan(final, registered) or final)]
    require_arm(split, primary)
    terms = [
        terms_of(arms, registration_of([record for arm in arms for record in arm.records], registered), margin, primary)
        for arms in split
    ]
    groups = tuple(_group(*each) for each in zip(split, compare_all(split, terms), strict=True))
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
    that what differs between the two is named; without any control it stays where it is.
    """
    arms = group_into_arms(records)
    joined: dict[str, list[Record]] = {}
    for arm in arms:
        root = _last_control(arm, arms)
        key = fingerprint([root.task, root.source, study_of(root.config), problem_of(root.config)])
        joined.setdefault(key, []).extend(arm.records)
    return list(joined.values())


def _last_control(arm: Arm, arms: Sequence[Arm]) -> Arm:
    """The control of the control ... of an arm: in the end a plain baseline, or what has no control."""
    control = choose_control(arm, arms)
    return arm if control is None else _last_control(control, arms)


def _group(arms: tuple[Arm, ...], comparisons: tuple[Comparison, ...]) -> Group:
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
    )
