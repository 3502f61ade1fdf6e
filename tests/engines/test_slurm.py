"""`--on slurm` with a real SLURM of two nodes: what it is killed, timed out and preempted by leaves no trace."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.toy_studies import final_of, steps_saved
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import read_note
from oelm.train.folder import RunFolder
from train.processes import until

from .slurm_cluster import SlurmCluster
from .studies import Commands, assert_same_records, go_on, paused, toy_study, undisturbed, was_sent

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

LONG = {"steps": 100_000, "validate_every": 100_000, "save_every": 100}


@pytest.fixture
def commands(tmp_path: Path, slurm: SlurmCluster) -> Iterator[Callable[..., Commands]]:
    """Makes the commands of a study."""
    made: list[Commands] = []

    def make(**changes: object) -> Commands:
        made.append(Commands(toy_study(tmp_path, **changes)))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


def job_of(run: StudyRun) -> str | None:
    """None while the run is claimed and not submitted yet."""
    note = read_note(run.folder)
    assert note is not None
    return note.job


def test_a_worker_a_node_and_the_coordinator_killed_the_records_are_the_same(
    tmp_path: Path, slurm: SlurmCluster, commands: Callable[..., Commands]
) -> None:
    study = commands()
    straight, runs = undisturbed(study.study, tmp_path / "straight"), final_of(study.study, study.out)

    process = study.start("run", "--on=slurm")
    run, worker = paused(runs, process)
    os.kill(worker, signal.SIGKILL)
    until(lambda: "cut off" in (process.folder / "out").read_text(), alive=process.process.is_alive)
    run, worker = paused(runs, process, beyond=steps_saved(run))
    node = slurm.ask("squeue", "--noheader", "--format=%N", f"--jobs={job_of(run)}")
    slurm.kill(node)
    slurm.start_node(node)
    run, worker = paused(runs, process, beyond=steps_saved(run))
    process.killed()
    go_on(worker)

    ended = study.end("run", "--on=slurm")
    assert "oelm" in ended.out
    assert_same_records(runs, straight)
    assert sum(RunFolder(run.folder).record().sessions for run in runs) >= 4
    until(lambda: slurm.ask("squeue", "--noheader") == "")


def test_a_run_that_is_timed_out_twice_ends_with_the_same_bytes_and_gets_further_each_time(
    tmp_path: Path, slurm: SlurmCluster, commands: Callable[..., Commands]
) -> None:
    """SLURM warns a job up to a minute early: of two minutes, at least 30 s are left to start up and train."""
    study = commands(arms=["oelm"], resources={"gpus": 0, "hours": 2 / 60, "save_seconds": 30})
    straight, runs = undisturbed(study.study, tmp_path / "straight"), final_of(study.study, study.out)
    process = study.start("run", "--on=slurm")
    jobs, saved = [], [0]
    for _ in range(2):
        run, worker = paused(runs, process, beyond=saved[-1])
        jobs.append(job_of(run))
        until(lambda: was_sent(worker, signal.SIGTERM), alive=process.process.is_alive)  # noqa: B023
        go_on(worker)
        until(lambda: job_of(runs[0]) not in (None, jobs[-1]), alive=process.process.is_alive)
        saved.append(steps_saved(run))
    ended = process.ended()
    assert ended.code == 0, (ended.out, ended.err)
    assert saved == sorted(set(saved)), "an attempt made no progress"
    assert ended.out.count("oelm-seed0 was cut off after saving step") == 2
    printed = RunFolder(runs[0].folder).console_file.read_text()
    assert all(f"SLURM job {job} ended as" in printed for job in jobs)
    assert_same_records(runs, straight)
    assert RunFolder(runs[0].folder).record().sessions == 3


def test_a_job_that_slurm_requeues_goes_on_with_the_same_bytes(
    tmp_path: Path, slurm: SlurmCluster, commands: Callable[..., Commands]
) -> None:
    study = commands(arms=["oelm"])
    straight, runs = undisturbed(study.study, tmp_path / "straight"), final_of(study.study, study.out)
    process = study.start("run", "--on=slurm")
    run, worker = paused(runs, process)
    job = job_of(run)
    assert job is not None
    slurm.ask("scontrol", "requeue", job)
    until(lambda: was_sent(worker, signal.SIGTERM), alive=process.process.is_alive)
    go_on(worker)
    ended = process.ended()
    assert ended.code == 0, (ended.out, ended.err)
    assert job_of(run) == job, "SLURM's doing: the coordinator has not submitted it again"
    assert_same_records(runs, straight)
    assert RunFolder(run.folder).record().sessions == 2


def test_queued_running_stopped(slurm: SlurmCluster, commands: Callable[..., Commands]) -> None:
    """One node each; the third run waits in the queue, also when its coordinator is dead, until it is stopped."""
    study = commands(arms=["oelm"], seeds=[0, 1, 2], train=LONG, resources={"gpus": 0, "cpus": 2})
    runs = final_of(study.study, study.out)
    process = study.start("run", "--on=slurm")
    until(lambda: all(steps_saved(run) for run in runs[:2]), alive=process.process.is_alive)
    assert "3 runs: 1 queued, 2 running" in study.end("status").out
    process.killed()
    assert "3 runs: 1 queued, 2 running" in study.end("status").out
    assert "stopped" in study.end("stop").out
    until(lambda: slurm.ask("squeue", "--noheader") == "")
    assert "3 runs: 1 waiting, 2 interrupted" in study.end("status").out

    again = study.start("run", "--on=slurm")
    before = steps_saved(runs[0])
    until(lambda: steps_saved(runs[0]) > before, alive=again.process.is_alive)
    again.signal(signal.SIGTERM)
    assert again.ended().code == 143
    assert slurm.ask("squeue", "--noheader") == ""
    assert "interrupted" in study.end("status").out


def test_a_controller_that_is_away_is_waited_for(slurm: SlurmCluster, commands: Callable[..., Commands]) -> None:
    study = commands(arms=["oelm"])
    (run,) = final_of(study.study, study.out)
    process = study.start("run", "--on=slurm")
    _, worker = paused([run], process)
    slurm.kill("slurmctld")
    go_on(worker)
    until(lambda: RunFolder(run.folder).finished, alive=process.process.is_alive)
    time.sleep(1)
    slurm.start_controller()
    ended = process.ended()
    assert ended.code == 0, (ended.out, ended.err)
    assert RunFolder(run.folder).record().sessions == 1


def test_one_run_on_two_nodes_saves_when_asked_and_ends(slurm: SlurmCluster, commands: Callable[..., Commands]) -> None:
    train = {"processes": 2, "batch_size": 1, "steps": 800}
    study = commands(arms=["oelm"], train=train, resources={"gpus": 0, "nodes": 2})
    (run,) = final_of(study.study, study.out)
    process = study.start("run", "--on=slurm")
    until(lambda: steps_saved(run), alive=process.process.is_alive)
    assert slurm.ask("squeue", "--noheader", "--format=%D", f"--jobs={job_of(run)}") == "2"
    assert "asked to save" in study.end("stop", "oelm").out
    assert process.ended().code == 2
    assert "1 interrupted" in study.end("status").out
    study.end("run", "--on=slurm")
    assert RunFolder(run.folder).record().sessions == 2


def test_what_slurm_would_never_start_is_refused_before_any_work(commands: Callable[..., Commands]) -> None:
    study = commands(resources={"gpus": 0, "partition": "none"})
    refused = study.end("run", "--on=slurm", code=2)
    assert "invalid partition" in refused.err.lower()
    assert not list(study.out.rglob("config.yaml"))


def test_the_scripts_that_a_plan_prints_are_taken_by_slurm(
    tmp_path: Path, slurm: SlurmCluster, commands: Callable[..., Commands]
) -> None:
    study = commands()
    profile = tmp_path / "profile.yaml"
    profile.write_text("partition: all\nhours: 0.5\nsetup: ['echo prepared']\n")
    printed = study.end("plan", "--on=slurm", f"--profile={profile}", "--tflops=1").out
    script = tmp_path / "script.sh"
    script.write_text(printed[printed.index("#!/bin/bash") :])
    slurm.ask("sbatch", "--test-only", str(script))
    for part in ("--array=0-1", "--requeue", "--signal=B:TERM@120", "--time=30", "--partition=all", "echo prepared"):
        assert part in printed
