"""`--on ray` with a real Ray: joined, or started for the study alone; what is killed resumes to the same records."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.toy_studies import final_of, is_alive, steps_saved
from oelm.experiments.ownership import last_state
from oelm.train.folder import RunFolder
from train.processes import until

from .ray_cluster import RayCluster
from .studies import Commands, assert_same_records, go_on, paused, toy_study, undisturbed

pytestmark = [pytest.mark.ray, pytest.mark.slow]

LONG = {"steps": 100_000, "validate_every": 100_000, "save_every": 100}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Callable[..., Commands]]:
    """Makes the commands of a study."""
    made: list[Commands] = []

    def make(**changes: object) -> Commands:
        made.append(Commands(toy_study(tmp_path, **changes)))
        return made[-1]

    yield make
    for each in made:
        each.kill_all()


def test_a_worker_a_node_and_the_coordinator_killed_the_records_are_the_same(
    tmp_path: Path, ray: RayCluster, commands: Callable[..., Commands]
) -> None:
    """One run on each node. The node that dies takes its run's process with it; its run waits for the other node."""
    study = commands()
    straight, runs = undisturbed(study.study, tmp_path / "straight"), final_of(study.study, study.out)

    process = study.start("run", "--on=ray")
    run, worker = paused(runs, process)
    os.kill(worker, signal.SIGKILL)
    until(lambda: "cut off" in (process.folder / "out").read_text(), alive=process.process.is_alive)
    run, worker = paused(runs, process, beyond=steps_saved(run))
    ray.lose(ray.node_of(worker), worker)
    until(lambda: (process.folder / "out").read_text().count("cut off") == 2, alive=process.process.is_alive)
    run, worker = paused(runs, process, beyond=steps_saved(run))
    process.killed()
    go_on(worker)

    ended = study.end("run", "--on=ray")
    assert "oelm" in ended.out
    assert_same_records(runs, straight)
    assert sum(RunFolder(run.folder).record().sessions for run in runs) >= 4


@pytest.mark.usefixtures("no_ray")
def test_a_ray_of_its_own_is_started_and_gone_with_the_coordinator(commands: Callable[..., Commands]) -> None:
    study = commands(arms=["oelm"], train=LONG)
    (run,) = final_of(study.study, study.out)
    process = study.start("run", "--on=ray")
    until(lambda: steps_saved(run), alive=process.process.is_alive)
    assert "1 running" in study.end("status").out
    state = last_state(run.folder)
    assert state is not None
    process.signal(signal.SIGTERM)
    ended = process.ended()
    assert ended.code == 143, (ended.out, ended.err)
    assert "1 interrupted" in study.end("status").out
    assert not is_alive(state.pid)

    saved = steps_saved(run)
    again = study.start("run", "--on=ray")
    until(lambda: steps_saved(run) > saved, alive=again.process.is_alive)
    state = last_state(run.folder)
    assert state is not None
    again.killed()
    until(lambda: not is_alive(state.pid))
    assert "1 interrupted" in study.end("status").out


def test_what_the_cluster_could_never_start_is_refused_before_any_work(
    ray: RayCluster, commands: Callable[..., Commands]
) -> None:
    study = commands(resources={"gpus": 1})
    refused = study.end("run", "--on=ray", code=2)
    assert "needs a node with 1 CPU and 1 GPU, and the Ray cluster has none" in refused.err
    assert "gpus: 0" in refused.err
    assert not list(study.out.rglob("config.yaml"))
