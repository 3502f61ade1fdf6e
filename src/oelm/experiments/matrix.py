"""From a study to its runs: data x axes x arms, then learning rates (tuning) or seeds (final)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from oelm.base.errors import ConfigError
from oelm.config.finetune import FinetuneRequest
from oelm.config.labelled import LabelledData
from oelm.config.methods import parse_method
from oelm.config.request import TrainRequest
from oelm.config.run import RunConfig
from oelm.config.settings import Settings
from oelm.config.study import Choice, StudyRole, Tuning
from oelm.experiments.study import Arm, Study, TuningPlan


@dataclass(frozen=True)
class Cell:
    """One arm at one point of the axes on one of the data sets: the runs in it differ in seed and learning rate."""

    data: str
    arm: Arm
    point: tuple[tuple[str, Any], ...]
    name: str
    """Unique in the study: the arm, with the point and the data where there are several."""

    def settings(self, study: Study) -> dict[str, Any]:
        """What the file says of its runs."""
        return {**study.shared, **dict(self.point), **self.arm.settings, "method": self.arm.method}


@dataclass(frozen=True)
class StudyRun:
    """One run and where it goes."""

    cell: Cell
    folder: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """Unique in the study."""
        return self.folder.name


Resolve = Callable[[Cell, Mapping[str, Any]], RunConfig]
"""The config of a cell with some settings changed."""


def cells(study: Study, only: Sequence[str] = ()) -> tuple[Cell, ...]:
    """All cells, or those of the arms that are asked for by name, id or method."""
    chosen = [arm for arm in study.arms if not only or {arm.name, arm.id, arm.method} & set(only)]
    for wanted in only:
        if not any(wanted in (arm.name, arm.id, arm.method) for arm in study.arms):
            names = ", ".join(f"{arm.name} ({arm.id})" if arm.id else arm.name for arm in study.arms)
            raise ConfigError(f"the study has no arm {wanted!r}", f"give one of: {names}")
    points = [tuple(zip(study.axes, values, strict=True)) for values in product(*study.axes.values())]
    return tuple(
        Cell(data, arm, point, _cell_name(study, data, arm, point))
        for data in study.data
        for point in points
        for arm in chosen
    )


def _cell_name(study: Study, data: str, arm: Arm, point: Sequence[tuple[str, Any]]) -> str:
    varied = [f"{setting}={value}" for setting, value in point if len(study.axes[setting]) > 1]
    prefix = [data] if len(study.data) > 1 else []
    return "-".join([*prefix, arm.name, *varied]).replace("/", "_").replace(" ", "")


def tuning_runs(study: Study, name: str, among: Sequence[Cell], out: Path, resolve: Resolve) -> list[StudyRun]:
    """The grid of every cell, one seed; none if learning rates are set by hand."""
    if study.tuning is None:
        return []
    return [tuning_run(study, name, cell, out, resolve, lr) for cell in among for lr in study.tuning.grid]


def tuning_run(study: Study, name: str, cell: Cell, out: Path, resolve: Resolve, lr: float) -> StudyRun:
    """One learning rate of a cell, of its grid or beyond."""
    role = StudyRole(study=name, stage="tuning", primary=_primary(study), margin=study.margin)
    return _run(cell, out / "tuning" / f"{cell.name}-lr{lr:g}", resolve, role, _shortened(study, cell, lr))


def final_folder(out: Path, cell: Cell, seed: int) -> Path:
    """Where a final run goes, whatever learning rate is chosen for it."""
    return out / "final" / f"{cell.name}-seed{seed}"


def final_runs(
    study: Study,
    name: str,
    among: Sequence[Cell],
    out: Path,
    resolve: Resolve,
    rates: Mapping[str, float],
    choices: Mapping[str, Choice] | None = None,
) -> list[StudyRun]:
    """Every cell with every seed, at its learning rate. Seeds outermost: what is stopped has whole pairs.

    `choices` say how each rate was chosen; a plan knows none yet.
    """
    roles = {cell.name: _final_role(study, name, cell, resolve, (choices or {}).get(cell.name)) for cell in among}
    return [
        _run(
            cell,
            final_folder(out, cell, seed),
            resolve,
            roles[cell.name],
            {"seed": seed, **_tuned(study.tuning, rates.get(cell.name))},
        )
        for seed in study.seeds
        for cell in among
    ]


def _run(cell: Cell, folder: Path, resolve: Resolve, role: StudyRole, changes: Mapping[str, Any]) -> StudyRun:
    own = role.model_copy(update={"cell": cell.name})
    return StudyRun(cell, folder, resolve(cell, changes).model_copy(update={"study": own}))


def _tuned(plan: TuningPlan | None, rate: float | None) -> dict[str, Any]:
    """What a study that tunes sets in its final runs: the rate, and the half on which no rate was chosen."""
    if plan is None:
        return {}
    return {"lr": rate, **({"validation_half": "second"} if plan.validation == "half" else {})}


def _final_role(study: Study, name: str, cell: Cell, resolve: Resolve, choice: Choice | None) -> StudyRole:
    tuning = None
    if study.tuning is not None:
        grid = study.tuning.grid
        tuned = resolve(cell, _shortened(study, cell, grid[0]))
        tuning = Tuning(
            grid=grid,
            seed=study.tuning.seed,
            steps=tuned.train.steps,
            runs=len(grid),
            split="hold-out" if isinstance(tuned.data, LabelledData) else _split(study.tuning),
            measure="accuracy" if isinstance(tuned.data, LabelledData) else "loss",
            extend=study.tuning.extend,
            refine=study.tuning.refine,
            choice=choice,
        )
    return StudyRole(study=name, stage="final", primary=_primary(study), margin=study.margin, tuning=tuning)


def _split(plan: TuningPlan) -> Literal["validation", "validation-half"]:
    return "validation" if plan.validation == "whole" else "validation-half"


def _primary(study: Study) -> str:
    method = next(arm.method for arm in study.arms if arm.name == study.primary)
    return parse_method(method).name


def _shortened(study: Study, cell: Cell, lr: float) -> dict[str, Any]:
    """A tuning run is the final one in small: its warm-up is shortened with it."""
    assert study.tuning is not None, "only tuning runs are shortened"
    plan, full = study.tuning, cell.settings(study)
    changes: dict[str, Any] = {"lr": lr, "seed": plan.seed}
    if study.finetune is not None:
        return {**changes, "epochs": _length(full, "epochs", FinetuneRequest) * plan.share}
    changes["steps"] = max(1, round(_length(full, "steps", TrainRequest) * plan.share))
    if full.get("warmup_steps") is not None:  # where it is not given, it follows from the steps
        changes["warmup_steps"] = round(float(full["warmup_steps"]) * plan.share)
    if plan.validation == "half":
        changes["validation_half"] = "first"
    return changes


def _length(full: Mapping[str, Any], setting: str, request: type[Settings]) -> float:
    """A length as the file gives it, or else its default."""
    return float(full.get(setting, request.model_fields[setting].default))
