"""The choice of learning rates: each arm's best of the grid, by validation, on a seed that is not used again."""

import math
from collections.abc import Sequence
from pathlib import Path

from oelm.base.errors import CheckpointError
from oelm.base.files import write_text
from oelm.config.settings import Settings
from oelm.experiments.matrix import StudyRun
from oelm.experiments.standing import Stage, standing
from oelm.train.folder import RunFolder


class Trial(Settings):
    """One learning rate of one cell; `loss` is None where the run diverged."""

    lr: float
    loss: float | None
    accuracy: float | None = None


class Choice(Settings):
    """What was chosen for a cell, and from what. At the edge of the grid a better one may lie beyond it."""

    cell: str
    lr: float
    at_edge: bool
    trials: tuple[Trial, ...]


class Selection(Settings):
    """`selection.json`."""

    choices: tuple[Choice, ...]

    @property
    def rates(self) -> dict[str, float]:
        """The chosen learning rate of each cell."""
        return {choice.cell: choice.lr for choice in self.choices}


def select(runs: Sequence[StudyRun]) -> Selection:
    """Choose for every cell whose whole grid has ended; a diverged run counts as the worst."""
    grids: dict[str, list[Trial]] = {}
    for run in runs:
        grids.setdefault(run.cell.name, []).append(_trial(run))
    return Selection(choices=tuple(_choose(cell, trials) for cell, trials in grids.items()))


def select_where_ended(runs: Sequence[StudyRun]) -> Selection:
    """The choices of all cells whose whole grid has ended; the others are left out."""
    open_cells = {run.cell.name for run in runs if standing(run).stage not in (Stage.FINISHED, Stage.DIVERGED)}
    return select([run for run in runs if run.cell.name not in open_cells])


def write_selection(selection: Selection, path: Path) -> None:
    """Write it down: two coordinators write the same."""
    write_text(path, selection.model_dump_json(indent=2) + "\n")


def _trial(run: StudyRun) -> Trial:
    lr = run.config.optim.lr
    if RunFolder(run.folder).finished:
        result = RunFolder(run.folder).record().result
        return Trial(lr=lr, loss=result.loss, accuracy=result.measures.get("accuracy"))
    if standing(run).stage is Stage.DIVERGED:
        return Trial(lr=lr, loss=None)
    raise CheckpointError(
        f"the tuning run {run.name} has no record, so no learning rate can be chosen",
        f"read {run.folder / 'console.log'}, mend the cause and run the same command again",
    )


def _choose(cell: str, trials: list[Trial]) -> Choice:
    best = min(trials, key=_badness)
    if best.loss is None:
        raise CheckpointError(f"every learning rate of {cell} diverged", "add smaller ones to tuning.grid")
    grid = [trial.lr for trial in trials]
    return Choice(cell=cell, lr=best.lr, at_edge=best.lr in (min(grid), max(grid)), trials=tuple(trials))


def _badness(trial: Trial) -> tuple[float, float]:
    """By accuracy where there is one (ties: the lower loss), else by loss."""
    loss = math.inf if trial.loss is None else trial.loss
    return (-trial.accuracy, loss) if trial.accuracy is not None else (loss, 0.0)
