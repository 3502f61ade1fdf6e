"""Confounds of a plan: the rules that judge results, applied to resolved configs before any run exists."""

from collections.abc import Sequence
from dataclasses import dataclass

from oelm.config.labelled import LabelledData
from oelm.config.run import RunConfig
from oelm.report.confounds import Confound, ConfoundKind, design_confounds, scale_gaps
from oelm.report.numerals import written_ratio
from oelm.report.sentences import confound_phrase
from oelm.report.sides import choose_control, expected_row_norm, labels_of, side_key
from oelm.report.texts import ENGLISH, Texts

_KNOWN_ONLY_AFTER_TUNING = (ConfoundKind.LOWEST_OF_GRID, ConfoundKind.HIGHEST_OF_GRID)


@dataclass(frozen=True)
class PlannedArm:
    """Runs to come that differ only in their seed."""

    label: str
    configs: tuple[RunConfig, ...]

    @property
    def task(self) -> str:
        """What is to be learned."""
        return planned_task(self.config)

    @property
    def source(self) -> str:
        """A plan is ours."""
        return "measured"

    @property
    def config(self) -> RunConfig:
        """The settings that all runs share; the seed in it is the first run's."""
        return self.configs[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(config.seed for config in self.configs)

    @property
    def row_norm(self) -> float | None:
        """As the method draws them."""
        return expected_row_norm(self.config)


@dataclass(frozen=True)
class PlannedConfound:
    """What else than the method will be able to explain a difference between two arms of a plan."""

    arm: str
    control: str
    """The arm's control; for a gap of scale the other frozen arm."""
    confound: Confound


def planned_confounds(configs: Sequence[RunConfig], names: Sequence[str] | None = None) -> tuple[PlannedConfound, ...]:
    """All confounds between each planned arm and its control, then the gaps of scale between frozen arms.

    `names` gives each config the name that its arm goes by (runs of one arm share it); without it an arm goes by
    its method, with the settings that tell it from its namesakes. Tuning runs are not compared and are left out.
    """
    arms = _planned_arms(configs, names)
    controls = [(arm, choose_control(arm, arms)) for arm in arms]
    found = [
        PlannedConfound(arm.label, control.label, confound)
        for arm, control in controls
        if control is not None
        for confound in design_confounds(arm, control)
        if confound.kind not in _KNOWN_ONLY_AFTER_TUNING
    ]
    scale = [
        PlannedConfound(
            gap.one.label,
            gap.other.label,
            Confound(
                ConfoundKind.SCALE, "scale of Q and K", written_ratio(gap.one_norm), written_ratio(gap.other_norm)
            ),
        )
        for gap in scale_gaps(arms)
    ]
    return (*found, *scale)


def planned_sentence(found: PlannedConfound, texts: Texts = ENGLISH) -> str:
    """One warning: `oelm against baseline: lr differs (1e-3 against 3e-4)`."""
    return texts.planned_confound.format(
        arm=found.arm, control=found.control, confound=confound_phrase(found.confound, texts)
    )


def planned_task(config: RunConfig) -> str:
    """The task that a config will be trained for, by the name that its record will have."""
    return "classification" if isinstance(config.data, LabelledData) else "language-modelling"


def _planned_arms(configs: Sequence[RunConfig], names: Sequence[str] | None) -> list[PlannedArm]:
    groups: dict[str, list[int]] = {}
    for index, config in enumerate(configs):
        if config.study is None or config.study.stage == "final":
            groups.setdefault(side_key(planned_task(config), "measured", config), []).append(index)
    members = [
        tuple(sorted((configs[index] for index in group), key=lambda config: config.seed)) for group in groups.values()
    ]
    if names is None:
        labels = labels_of([(planned_task(group[0]), group[0]) for group in members])
    else:
        labels = [names[group[0]] for group in groups.values()]
    return [PlannedArm(label, group) for label, group in zip(labels, members, strict=True)]
