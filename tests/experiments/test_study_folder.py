"""A study's folder alone tells what its file tells: every run, its state and its length."""

from pathlib import Path
from typing import Any

import pytest

from oelm.experiments.ownership import Claim
from oelm.experiments.register import register
from oelm.experiments.run_status import RunStatus, Status, status_of
from oelm.experiments.study import StudyFile
from oelm.experiments.study_folder import study_status
from oelm.experiments.study_plan import plan_study
from oelm.train.folder import RunFolder, new_state

from .toy_studies import runs_of, write_study


def facts(row: RunStatus) -> tuple[object, ...]:
    return row.run.folder, row.run.steps, row.run.measure, row.status, row.state


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train": {"lr": None, "steps": 100}, "tuning": {"grid": [1e-3, 2e-3, 4e-3], "share": 0.25, "seed": 9}},
        {"axes": {"warmup_steps": [2, 20]}},
    ],
    ids=["final", "tuning", "axes"],
)
def test_the_folder_tells_what_the_file_tells(tmp_path: Path, changes: dict[str, Any]) -> None:
    file, out = write_study(tmp_path / "study.yaml", **changes), tmp_path / "out"
    assert study_status(out) is None
    out.mkdir()
    register(runs_of(file, out), amend=False)
    planned = plan_study(StudyFile.read(file), out, tmp_path).runs
    for run in planned[:2]:
        run.folder.mkdir(parents=True)
        RunFolder(run.folder).state_file.write_text(new_state(5, run.steps, "cpu").model_dump_json())
    claim = Claim.take(planned[0].folder)
    assert claim is not None
    claim.submitted("local", "here/1/1", "cpu x1")
    found = study_status(out)
    assert found is not None
    study, rows = found
    assert study == "study"
    assert [facts(row) for row in rows] == [facts(status_of(run)) for run in planned]
    assert [row.status for row in rows[:3]] == [Status.QUEUED, Status.INTERRUPTED, Status.WAITING]
    claim.give_back()


def test_seeds_that_were_added_and_rates_beyond_the_grid_are_there_too(tmp_path: Path) -> None:
    tuned = {"train": {"lr": None}, "tuning": {"grid": [1e-3, 2e-3], "extend": 1, "seed": 9}}
    out = tmp_path / "out"
    out.mkdir()
    for seeds in ([0], [0, 1]):
        register(runs_of(write_study(tmp_path / "study.yaml", seeds=seeds, **tuned), out), amend=True)
    (out / "tuning" / "oelm-lr0.004").mkdir(parents=True)
    found = study_status(out)
    assert found is not None
    names = [row.run.name for row in found[1]]
    assert len(names) == len(set(names)) == 9
    assert {"oelm-lr0.004", "oelm-seed1", "baseline-lr0.001"} <= set(names)
