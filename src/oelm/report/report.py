"""The whole report as plain data: the one input of every rendering.

Records are split into experiments (same study, source, task, data and size). Each has its arms, its comparison (of
perplexities, or of accuracies) and its views; what spans several experiments stands beside them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oelm.base.errors import ConfigError
from oelm.config.record import Record
from oelm.config.registered import RegisteredPlan
from oelm.report.accuracy import SHARE
from oelm.report.arms import is_tuning
from oelm.report.beside import BesideRow, beside_rows
from oelm.report.groups import Group, make_group, split_into_groups
from oelm.report.registration import Registration, find_plans, registrations
from oelm.report.rows import load_records, unfinished_runs
from oelm.report.trend import Trend, trends
from oelm.report.tuning import TuningTable, tuning_tables
from oelm.report.views import EnvironmentRow, environment_rows


@dataclass(frozen=True)
class Report:
    """Everything that a rendering may show."""

    groups: tuple[Group, ...]
    trends: tuple[Trend, ...]
    """One per method that was compared on several data sets or sizes."""
    beside: tuple[BesideRow, ...]
    """Our results beside those that another study reported for the same method and data."""
    tuning: tuple[TuningTable, ...]
    environment: tuple[EnvironmentRow, ...]
    unfinished: tuple[Path, ...] = ()
    registrations: tuple[Registration, ...] = ()
    """Under which registered plan the runs of each study were made, if any."""

    @property
    def measured(self) -> tuple[Group, ...]:
        """The experiments that are ours."""
        return tuple(group for group in self.groups if group.source == "measured")

    @property
    def reported(self) -> tuple[Group, ...]:
        """The experiments of other studies, as reported."""
        return tuple(group for group in self.groups if group.source == "reported")


def report_runs(
    paths: Sequence[Path], margin: float | None = None, primary: str | None = None, beside: Sequence[Record] = ()
) -> Report:
    """The report on the runs in these folders; `beside` are reported records to show next to them."""
    records = [*load_records(paths), *beside]
    return build_report(records, margin, primary, unfinished_runs(paths), plans=find_plans(paths, records))


def build_report(
    records: Sequence[Record],
    margin: float | None = None,
    primary: str | None = None,
    unfinished: Sequence[Path] = (),
    share: float = SHARE,
    plans: Mapping[str, RegisteredPlan] | None = None,
) -> Report:
    """Split records into experiments, compare each, and gather the views.

    Margin and primary arm are those that the records state, unless they are given.
    """
    final = [record for record in records if not is_tuning(record)]
    if not final:
        raise ConfigError("there are only tuning runs here", "give the folder of the final runs too")
    groups = tuple(make_group(members, margin, primary, share) for members in split_into_groups(final))
    arms = [arm for group in groups for arm in group.arms]
    return Report(
        groups=groups,
        trends=trends(groups),
        beside=beside_rows(groups),
        tuning=tuning_tables(records, arms),
        environment=environment_rows(arms),
        unfinished=tuple(unfinished),
        registrations=registrations(final, plans or {}),
    )
