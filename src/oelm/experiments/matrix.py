"""From a study to its runs: every cell with every learning rate (tuning) or every seed (final)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oelm.config.labelled_data import LabelledData
from oelm.config.measure import BY_TASK, Measure
from oelm.config.methods import parse_method
from oelm.config.request import FinetuneRequest
from oelm.config.run import RunConfig
from oelm.config.study_role import Choice, StudyRole, Tuning
from oelm.experiments.study import Study, StudyCell


@dataclass(frozen=True)
class StudyRun:
    """One run and where it goes."""

    cell: StudyCell
    folder: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """Unique in the study."""
        return self.folder.name

    @property
    def steps(self) -> int:
        """How long it is."""
        return self.config.train.steps

    @property
    def measure(self) -> Measure:
        """The one that it is judged by."""
        return main_measure(self.config)


def main_measure(config: RunConfig) -> Measure:
    """The one that the run's task is judged by."""
    return BY_TASK[config.task][0]


def chosen_by(config: RunConfig) -> str:
    """The measure by which learning rates are chosen: the main one, or its logarithm, which never overflows."""
    measure = main_measure(config)
    return measure.logarithm or measure.name


Resolve = Callable[[StudyCell], RunConfig]
"""The complete config of what a cell asks for."""


@dataclass(frozen=True)
class StudyRuns:
    """The runs of some cells of a study, or of all."""

    study: Study
    name: str
    out: Path
    resolve: Resolve
    cells: tuple[StudyCell, ...]

    def tuning(self) -> list[StudyRun]:
        """The grid of every cell, one seed; none if learning rates are set by hand."""
        plan = self.study.tuning
        return [self.trial(cell, lr) for cell in self.cells for lr in plan.grid] if plan else []

    def trial(self, cell: StudyCell, lr: float) -> StudyRun:
        """One learning rate of a cell, of its grid or beyond."""
        folder = self.out / "tuning" / f"{cell.name}-lr{lr:g}"
        return StudyRun(cell, folder, self._config(self._shortened(cell, lr), self._role(cell, "tuning")))

    def final(self, choices: Mapping[str, Choice] = MappingProxyType({})) -> list[StudyRun]:
        """Every cell with every seed. Seeds are the outer loop, so that an interrupted study has complete pairs.

        `choices` say which learning rate was chosen for a cell, and how; where they do not, a plan takes the lowest.
        """
        cells = []
        for cell in self.cells:
            choice = choices.get(cell.name)
            judged, role = self._judged(cell, choice), self._final_role(cell, choice)
            cells.append((judged, self._config(judged, role)))
        # A thousand runs are a few dozen configs with other seeds: only those are resolved and validated.
        return [
            StudyRun(cell, self.out / "final" / f"{cell.name}-seed{seed}", config.model_copy(update={"seed": seed}))
            for seed in self.study.seeds
            for cell, config in cells
        ]

    def _config(self, cell: StudyCell, role: StudyRole) -> RunConfig:
        return self.resolve(cell).model_copy(update={"study": role})

    def _judged(self, cell: StudyCell, choice: Choice | None) -> StudyCell:
        """A final run of a study that tunes: the chosen rate, and the half on which no rate was chosen."""
        plan = self.study.tuning
        if plan is None:
            return cell
        half = {"validation_half": "second"} if plan.validation == "half" else {}
        return cell.changed(lr=choice.lr if choice else plan.grid[0], **half)

    def _shortened(self, cell: StudyCell, lr: float) -> StudyCell:
        """A tuning run is a shorter final run: its warm-up is shortened in proportion."""
        plan, request = self.study.tuning, cell.request
        assert plan is not None, "only tuning runs are shortened"
        changes: dict[str, Any] = {"lr": lr, "seed": plan.seed}
        if isinstance(request, FinetuneRequest):
            return cell.changed(**changes, epochs=request.epochs * plan.share)
        changes["steps"] = max(1, round(request.steps * plan.share))
        if request.warmup_steps is not None:  # where it is not given, it follows from the steps
            changes["warmup_steps"] = round(request.warmup_steps * plan.share)
        if plan.validation == "half":
            changes["validation_half"] = "first"
        return cell.changed(**changes)

    def _final_role(self, cell: StudyCell, choice: Choice | None) -> StudyRole:
        plan = self.study.tuning
        if plan is None:
            return self._role(cell, "final")
        tuned = self.resolve(self._shortened(cell, plan.grid[0]))
        labelled, half = isinstance(tuned.data, LabelledData), plan.validation == "half"
        tuning = Tuning(
            grid=plan.grid,
            seed=plan.seed,
            steps=tuned.train.steps,
            runs=len(plan.grid),
            split="hold-out" if labelled else "validation-half" if half else "validation",
            measure=chosen_by(tuned),
            extend=plan.extend,
            refine=plan.refine,
            choice=choice,
        )
        return self._role(cell, "final", tuning)

    def _role(self, cell: StudyCell, stage: str, tuning: Tuning | None = None) -> StudyRole:
        primary = next(arm.method for arm in self.study.arms if arm.name == self.study.primary)
        return StudyRole.model_validate(
            {
                "study": self.name,
                "stage": stage,
                "cell": cell.name,
                "primary": parse_method(primary).name,
                "is_primary": cell.arm.name == self.study.primary,
                "margin": self.study.margin,
                "tuning": tuning,
            }
        )
