"""The best learning rate of each arm: by validation; a diverged one is the worst; the edge is flagged."""

from pathlib import Path

import pytest

from experiments.studies import tuned
from oelm.base.errors import CheckpointError, DivergedError
from oelm.experiments.matrix import StudyRun, cells, tuning_runs
from oelm.experiments.resolving import resolve_for_plan
from oelm.experiments.selection import select
from train.toys import tokens, trained


def trials(folder: Path, grid: list[float]) -> list[StudyRun]:
    file = tuned(folder, tokens(), tuning={"grid": grid, "share": 1.0, "seed": 9}, arms=["oelm"])
    return tuning_runs(file.study, "toy", cells(file.study), folder / "out", resolve_for_plan(file, folder))


def test_the_lowest_loss_wins(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-5, 1e-2, 10.0])
    losses = {run.config.optim.lr: trained(run.config, run.folder).result.loss for run in runs}
    (choice,) = select(runs).choices
    assert choice.lr == min(losses, key=losses.__getitem__) == 1e-2
    assert not choice.at_edge
    assert {trial.lr: trial.loss for trial in choice.trials} == losses


def test_the_edge_of_the_grid_is_flagged(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-6, 1e-5, 1e-4])
    for run in runs:
        trained(run.config, run.folder)
    (choice,) = select(runs).choices
    assert choice.lr == 1e-4
    assert choice.at_edge


def test_a_diverged_run_counts_as_the_worst(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-3, 1e30])
    trained(runs[0].config, runs[0].folder)
    with pytest.raises(DivergedError):
        trained(runs[1].config, runs[1].folder)
    (choice,) = select(runs).choices
    assert choice.lr == 1e-3
    assert [trial.loss is None for trial in choice.trials] == [False, True]


def test_nothing_is_chosen_from_half_a_grid(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-3, 1e-2])
    trained(runs[0].config, runs[0].folder)
    with pytest.raises(CheckpointError, match=r"oelm-lr0\.01 has no record"):
        select(runs)
