"""The choice of learning rates: by validation, on a seed that is not used again, by one rule for every arm.

The grid -> while the best rate lies at an edge, at most `extend` times: one rate beyond it, of the same factor ->
the best rate, or, with `refine`, the vertex of the parabola through it and its two neighbours.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from oelm.base.errors import CheckpointError
from oelm.base.files import write_text
from oelm.config.settings import Settings
from oelm.config.study import Choice, ChosenBy, Trial
from oelm.experiments.matrix import Cell, Resolve, StudyRun, tuning_run, tuning_runs
from oelm.experiments.parabola import rounded, vertex
from oelm.experiments.standing import Stage, standing
from oelm.experiments.study import Study, TuningPlan
from oelm.train.folder import RunFolder


class Selection(Settings):
    """`selection.json`."""

    choices: tuple[Choice, ...]

    @property
    def rates(self) -> dict[str, float]:
        """The chosen learning rate of each cell."""
        return {choice.cell: choice.lr for choice in self.choices}

    @property
    def by_cell(self) -> dict[str, Choice]:
        """How each of them was chosen."""
        return {choice.cell: choice for choice in self.choices}


def all_tuning_runs(study: Study, name: str, among: Sequence[Cell], out: Path, resolve: Resolve) -> list[StudyRun]:
    """The grid of every cell, and those extensions that the runs which have ended call for.

    A function of the folders alone: whoever looks sees the same. When all of these have ended and it gives no more,
    the choice can be made.
    """
    runs, plan = tuning_runs(study, name, among, out, resolve), study.tuning
    for _ in range(plan.extend if plan else 0):
        more = [
            tuning_run(study, name, own[0].cell, out, resolve, rate)
            for own in _by_cell(runs).values()
            if plan and (rate := _beyond(plan, own)) is not None
        ]
        runs += more
        if not more:
            break
    return runs


def select(runs: Sequence[StudyRun], plan: TuningPlan) -> Selection:
    """Choose for every cell, all of whose runs have ended; a diverged run counts as the worst."""
    cells = _by_cell(runs).items()
    return Selection(choices=tuple(choose(cell, _trials(own, plan), refine=plan.refine) for cell, own in cells))


def select_where_ended(runs: Sequence[StudyRun], plan: TuningPlan) -> Selection:
    """The choices of all cells whose runs have all ended; the others are left out."""
    ended = [run for own in _by_cell(runs).values() if _have_ended(own) for run in own]
    return select(ended, plan)


def write_selection(selection: Selection, path: Path) -> None:
    """Write it down: two coordinators write the same."""
    write_text(path, selection.model_dump_json(indent=2) + "\n")


def choose(cell: str, trials: Sequence[Trial], *, refine: bool) -> Choice:
    """The learning rate that the rule gives for these trials, which are in ascending order."""
    best = _best(trials)
    if trials[best].loss is None:
        raise CheckpointError(f"every learning rate of {cell} diverged", "add smaller ones to tuning.grid")
    at_edge = best in (0, len(trials) - 1)
    rate, by = trials[best].lr, ChosenBy.BEST
    if refine:
        rate, by = (rate, ChosenBy.BEST_AT_EDGE) if at_edge else _refined(trials[best - 1 : best + 2])
    return Choice(cell=cell, lr=rate, at_edge=at_edge, trials=tuple(trials), best=trials[best].lr, by=by)


def _refined(three: Sequence[Trial]) -> tuple[float, ChosenBy]:
    """The best trial between its neighbours."""
    best = three[1].lr
    if any(trial.loss is None for trial in three):
        return best, ChosenBy.BEST_BESIDE_DIVERGED
    found = vertex([trial.lr for trial in three], [_badness(trial)[0] for trial in three])
    return (best, ChosenBy.BEST_WITHOUT_CURVATURE) if found is None else (found, ChosenBy.VERTEX)


def _beyond(plan: TuningPlan, own: Sequence[StudyRun]) -> float | None:
    """The rate that extends a cell's grid, if all its runs have ended and the best lies at an edge."""
    if not _have_ended(own):
        return None
    trials = _trials(own, plan)
    best = _best(trials)
    if best == 0:
        return rounded(trials[0].lr / plan.factor)
    return rounded(trials[-1].lr * plan.factor) if best == len(trials) - 1 else None


def _by_cell(runs: Sequence[StudyRun]) -> Mapping[str, list[StudyRun]]:
    cells: dict[str, list[StudyRun]] = {}
    for run in runs:
        cells.setdefault(run.cell.name, []).append(run)
    return cells


def _have_ended(runs: Sequence[StudyRun]) -> bool:
    return all(standing(run).stage in (Stage.FINISHED, Stage.DIVERGED) for run in runs)


def _trials(runs: Sequence[StudyRun], plan: TuningPlan) -> list[Trial]:
    return sorted((_trial(run, plan) for run in runs), key=lambda trial: trial.lr)


def _trial(run: StudyRun, plan: TuningPlan) -> Trial:
    lr = run.config.optim.lr
    extension = lr not in plan.grid
    if RunFolder(run.folder).finished:
        result = RunFolder(run.folder).record().result
        return Trial(lr=lr, loss=result.loss, accuracy=result.measures.get("accuracy"), extension=extension)
    if standing(run).stage is Stage.DIVERGED:
        return Trial(lr=lr, loss=None, extension=extension)
    raise CheckpointError(
        f"the tuning run {run.name} has no record, so no learning rate can be chosen",
        f"read {run.folder / 'console.log'}, mend the cause and run the same command again",
    )


def _best(trials: Sequence[Trial]) -> int:
    """The place of the best; where all diverged, the lowest rate."""
    return min(range(len(trials)), key=lambda place: _badness(trials[place]))


def _badness(trial: Trial) -> tuple[float, float]:
    """By accuracy where there is one (ties: the lower loss), else by loss."""
    loss = math.inf if trial.loss is None else trial.loss
    return (-trial.accuracy, loss) if trial.accuracy is not None else (loss, 0.0)
