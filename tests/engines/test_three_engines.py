"""This machine, Ray and SLURM at work on one study in one folder."""

from pathlib import Path

import pytest

from experiments.toy_studies import final_of
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import read_note
from oelm.train.folder import RunFolder
from train.processes import until

from .ray_cluster import RayCluster
from .slurm_cluster import SlurmCluster
from .studies import Commands, assert_same_records, go_on, paused, toy_study, undisturbed

pytestmark = [pytest.mark.slurm, pytest.mark.ray, pytest.mark.slow]

LAUNCHERS = {"slurm": "slurm", "ray": "ray", "cpu": "local"}


def launcher_of(run: StudyRun) -> str | None:
    note = read_note(run.folder)
    return note.launcher if note else None


def test_three_coordinators_on_three_engines_run_every_run_once(
    tmp_path: Path, slurm: SlurmCluster, ray: RayCluster
) -> None:
    """One run at a time each, which is held until all three have one: so all of them take part."""
    study = Commands(toy_study(tmp_path, seeds=[0, 1, 2], train={"steps": 200, "validate_every": 200}))
    try:
        straight, runs = undisturbed(study.study, tmp_path / "straight"), final_of(study.study, study.out)
        coordinators, held = [], []
        for engine, launcher in LAUNCHERS.items():
            process = study.start("run", f"--on={engine}", "--at-once=1", "--threads=1")
            until(lambda: any(launcher_of(run) == launcher for run in runs), alive=process.process.is_alive)  # noqa: B023
            (first,) = [run for run in runs if launcher_of(run) == launcher]
            held.append(paused([first], process)[1])
            coordinators.append(process)
        for worker in held:
            go_on(worker)
        for process in coordinators:
            ended = process.ended()
            assert ended.code == 0, (ended.out, ended.err)
        assert {RunFolder(run.folder).record().sessions for run in runs} == {1}
        assert_same_records(runs, straight)
    finally:
        study.kill_all()
