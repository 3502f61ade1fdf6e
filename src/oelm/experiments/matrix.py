"""From a study to its runs: data x axes x arms, then learning rates (tuning) or seeds (final)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from oelm.base.errors import ConfigError
from oelm.config.methods import parse_method
from oelm.config.run import RunConfig
from oelm.config.study import StudyRole, Tuning
from oelm.experiments.study import Arm, Study


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
    plan = study.tuning
    if plan is None:
        return []
    role = StudyRole(study=name, stage="tuning", primary=_primary(study), margin=study.margin)
    return [
        _run(cell, out / "tuning" / f"{cell.name}-lr{lr:g}", resolve, role, _shortened(study, cell, lr))
        for cell in among
        for lr in plan.grid
    ]


def final_folder(out: Path, cell: Cell, seed: int) -> Path:
    """Where a final run goes, whatever learning rate is chosen for it."""
    return out / "final" / f"{cell.name}-seed{seed}"


def final_runs(
    study: Study, name: str, among: Sequence[Cell], out: Path, resolve: Resolve, rates: Mapping[str, float]
) -> list[StudyRun]:
    """Every cell with every seed, at its chosen learning rate. Seeds outermost: what is stopped has whole pairs."""
    roles = {cell.name: _final_role(study, name, cell, resolve) for cell in among}
    return [
        _run(
            cell,
            final_folder(out, cell, seed),
            resolve,
            roles[cell.name],
            {"seed": seed, **({"lr": rates[cell.name]} if study.tuning else {})},
        )
        for seed in study.seeds
        for cell in among
    ]


def _run(cell: Cell, folder: Path, resolve: Resolve, role: StudyRole, changes: Mapping[str, Any]) -> StudyRun:
    return StudyRun(cell, folder, resolve(cell, changes).model_copy(update={"study": role}))


def _final_role(study: Study, name: str, cell: Cell, resolve: Resolve) -> StudyRole:
    tuning = None
    if study.tuning is not None:
        grid = study.tuning.grid
        tuned = resolve(cell, _shortened(study, cell, grid[0]))
        tuning = Tuning(
            grid=grid,
            seed=study.tuning.seed,
            steps=tuned.train.steps,
            runs=len(grid),
            split="validation" if study.finetune is None else "hold-out",
            measure="loss" if study.finetune is None else "accuracy",
        )
    return StudyRole(study=name, stage="final", primary=_primary(study), margin=study.margin, tuning=tuning)


def _primary(study: Study) -> str:
    method = next(arm.method for arm in study.arms if arm.name == study.primary)
    return parse_method(method).name


def _shortened(study: Study, cell: Cell, lr: float) -> dict[str, Any]:
    """A tuning run is the final one in small: its warm-up is shortened with it."""
    assert study.tuning is not None
    share, full = study.tuning.share, cell.settings(study)
    lengths: dict[str, float] = {
        name: max(1, round(float(full[name]) * share))
        for name in ("steps", "warmup_steps")
        if full.get(name) is not None and study.finetune is None
    }
    if study.finetune is not None:
        lengths["epochs"] = float(full.get("epochs", 3)) * share
    return {"lr": lr, "seed": study.tuning.seed, **lengths}
