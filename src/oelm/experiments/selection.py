"""The choice of learning rates: by validation, on a seed that is not used again, by one rule for every arm.

The grid -> while the best rate lies at an edge, at most `extend` times: one rate beyond it, of the same factor ->
the best rate, or, with `refine`, the vertex of the parabola through it and its two neighbours.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from oelm.base.errors import CheckpointError
from oelm.base.files import write_text
from oelm.config.rate_choice import best_place, choose
from oelm.config.settings import Settings
from oelm.config.study_role import Choice, Trial
from oelm.experiments.matrix import StudyRun, StudyRuns, chosen_by, main_measure
from oelm.experiments.run_status import Status, status_of
from oelm.experiments.study import TuningPlan
from oelm.train.folder import RunFolder


class Selection(Settings):
    """`selection.json`."""

    choices: tuple[Choice, ...]

    @property
    def by_cell(self) -> dict[str, Choice]:
        """How each of them was chosen."""
        return {choice.cell: choice for choice in self.choices}


def all_tuning_runs(planned: StudyRuns) -> list[StudyRun]:
    """The grid of every cell, and the extensions that are needed given the runs that have ended.

    A function of the folders alone: every process gets the same. When all of these runs have ended and there are no
    further extensions, the choice can be made.
    """
    runs, plan = planned.tuning(), planned.study.tuning
    for _ in range(plan.extend if plan else 0):
        more = [
            planned.trial(own[0].cell, rate)
            for own in _by_cell(runs).values()
            if plan and (rate := _beyond(plan, own)) is not None
        ]
        runs += more
        if not more:
            break
    return runs


def select(runs: Sequence[StudyRun], plan: TuningPlan) -> Selection:
    """Choose for every cell, all of whose runs have ended; a diverged run counts as the worst."""
    return Selection(
        choices=tuple(
            choose(cell, _trials(own, plan), main_measure(own[0].config), refine=plan.refine)
            for cell, own in _by_cell(runs).items()
        )
    )


def select_where_ended(runs: Sequence[StudyRun], plan: TuningPlan) -> Selection:
    """The choices of all cells whose runs have all ended; the others are left out."""
    ended = [run for own in _by_cell(runs).values() if _have_ended(own) for run in own]
    return select(ended, plan)


def write_selection(selection: Selection, path: Path) -> None:
    """Write it to a file; two coordinators write the same content."""
    write_text(path, selection.model_dump_json(indent=2) + "\n")


def _beyond(plan: TuningPlan, own: Sequence[StudyRun]) -> float | None:
    """The rate that extends a cell's grid, if all its runs have ended and the best lies at an edge."""
    if not _have_ended(own):
        return None
    trials = _trials(own, plan)
    best = best_place(trials, main_measure(own[0].config))
    if best == 0:
        return plan.below(trials[0].lr)
    return plan.above(trials[-1].lr) if best == len(trials) - 1 else None


def _by_cell(runs: Sequence[StudyRun]) -> Mapping[str, list[StudyRun]]:
    cells: dict[str, list[StudyRun]] = {}
    for run in runs:
        cells.setdefault(run.cell.name, []).append(run)
    return cells


def _have_ended(runs: Sequence[StudyRun]) -> bool:
    return all(status_of(run).status in (Status.FINISHED, Status.DIVERGED) for run in runs)


def _trials(runs: Sequence[StudyRun], plan: TuningPlan) -> list[Trial]:
    return sorted((_trial(run, plan) for run in runs), key=lambda trial: trial.lr)


def _trial(run: StudyRun, plan: TuningPlan) -> Trial:
    lr = run.config.optim.lr
    extension = lr not in plan.grid
    if RunFolder(run.folder).finished:
        result, by = RunFolder(run.folder).record().result, chosen_by(run.config)
        value = None if by == "loss" else result.measures[by]
        return Trial(lr=lr, loss=result.loss, value=value, extension=extension)
    if status_of(run).status is Status.DIVERGED:
        return Trial(lr=lr, loss=None, extension=extension)
    raise CheckpointError(
        f"the tuning run {run.name} has no record, so no learning rate can be chosen",
        f"read {run.folder / 'console.log'}, correct the cause and run the same command again",
    )
