"""Experiments: records split by what is learned, each with its arms, its comparison and its views."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oelm.config.model import SIZES, GPTConfig, GPTFromRun, Style
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.config.settings import fingerprint
from oelm.report.accuracy import AccuracyComparison, AccuracyFinding, compare_arm_accuracies
from oelm.report.arms import Arm, group_into_arms
from oelm.report.comparison import Comparison, Finding, compare_arms
from oelm.report.differences import problem_of
from oelm.report.sides import choose_control, study_of
from oelm.report.views import (
    AblationStep,
    AuditRow,
    GeometryRow,
    ResourceRow,
    SpeedRow,
    ablation_steps,
    audit_rows,
    geometry_rows,
    resource_rows,
    speed_rows,
)


@dataclass(frozen=True)
class Group:
    """One experiment: arms that learn the same thing. Exactly one of `comparison` and `accuracy` is there."""

    study: str | None
    data: str
    size: str
    source: str
    """`measured` or `reported`."""
    task: str
    """`language-modelling` or `classification`."""
    arms: tuple[Arm, ...]
    comparison: Comparison | None
    accuracy: AccuracyComparison | None
    ablation: tuple[AblationStep, ...]
    resources: tuple[ResourceRow, ...]
    speed: tuple[SpeedRow, ...]
    audit: tuple[AuditRow, ...]
    geometry: tuple[GeometryRow, ...]

    @property
    def findings(self) -> tuple[Finding | AccuracyFinding, ...]:
        """Of whichever comparison there is."""
        if self.comparison is not None:
            return self.comparison.findings
        return self.accuracy.findings if self.accuracy is not None else ()

    @property
    def primary(self) -> Finding | AccuracyFinding | None:
        """The finding that answers the study's question; None where none was stated beforehand."""
        return next((finding for finding in self.findings if finding.is_primary), None)


def split_into_groups(records: Sequence[Record]) -> list[list[Record]]:
    """Experiments in the order of their first run.

    An arm without a control of its own study, data and size joins the experiment of the control that is nearest, so
    that what differs between the two is named; without any control it stays where it is.
    """
    arms = group_into_arms(records)
    joined: dict[str, list[Record]] = {}
    for arm in arms:
        joined.setdefault(_group_key(_root(arm, arms)), []).extend(arm.records)
    return list(joined.values())


def _root(arm: Arm, arms: Sequence[Arm]) -> Arm:
    """The control of the control ... of an arm: in the end a plain baseline, or what has no control."""
    control = choose_control(arm, arms)
    return arm if control is None else _root(control, arms)


def size_name(config: RunConfig) -> str:
    """The size by its name, such as `medium-512` or `medium-512 llama`; a pre-trained model by its source."""
    model = config.model
    if isinstance(model, GPTConfig):
        shape = (model.layers, model.width, model.heads)
        known = (name for name, size in SIZES.items() if size == shape)
        style = "" if model.style is Style.GPT else f" {model.style.value}"
        return next(known, f"{model.layers}x{model.width}") + style
    return Path(model.folder).name if isinstance(model, GPTFromRun) else model.source


def _group_key(arm: Arm) -> str:
    return fingerprint([arm.task, arm.source, study_of(arm.config), problem_of(arm.config)])


def make_group(records: Sequence[Record], margin: float | None, primary: str | None, share: float) -> Group:
    """Compare the runs of one experiment and gather its views."""
    arms = group_into_arms(records)
    config = next((control for arm in arms if (control := choose_control(arm, arms))), arms[0]).config
    classifies = arms[0].task == "classification"
    stated = primary if any(arm.method.name == primary for arm in arms) else None
    return Group(
        study=study_of(config),
        data=config.data.name,
        size=size_name(config),
        source=arms[0].source,
        task=arms[0].task,
        arms=arms,
        comparison=None if classifies else compare_arms(arms, margin, primary=stated),
        accuracy=compare_arm_accuracies(arms, share, primary=stated) if classifies else None,
        ablation=ablation_steps(arms),
        resources=resource_rows(arms),
        speed=speed_rows(arms),
        audit=audit_rows(arms),
        geometry=geometry_rows(arms),
    )
