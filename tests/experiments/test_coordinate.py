"""Coordinators in real processes on one folder: what is started, how often, and what becomes of it."""

import os
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from oelm.base.errors import CheckpointError
from oelm.base.files import read_json, write_json, write_text
from oelm.base.locks import FileLock
from oelm.config.record import RunState
from oelm.experiments import coordinate, ownership
from oelm.experiments.coordinate import bring_to_records
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import (
    STALE_SECONDS,
    START_UP_SECONDS,
    ClaimNote,
    is_claimed,
    read_note,
    stop_run,
    stop_study,
)
from oelm.experiments.run_status import Status, status_of
from oelm.train.folder import RunFolder, stop_request
from train.processes import running, until
from train.toys import last_weights, timeless_record, trained

from .forked import ForkLauncher, coordinate_forks, coordinator, outcome_of, started_in
from .toy_studies import broken, is_alive, steps_saved, toy_run, worker_of

NOTHING: dict[str, list[str]] = {"failed": [], "diverged": [], "interrupted": []}
LONG = {"steps": 100_000, "save_every": 20}
BRIEF = {"steps": 200, "save_every": 20, "validate_every": 200}


@pytest.mark.slow
def test_three_coordinators_never_run_one_run_twice(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path, f"run{seed}", seed=seed, steps=2, validate_every=2) for seed in range(30)]
    for each in [coordinator(runs, tmp_path, of=3) for _ in range(3)]:
        assert outcome_of(each) == NOTHING
    assert sorted(started_in(tmp_path)) == sorted(run.name for run in runs)
    assert {RunFolder(run.folder).record().sessions for run in runs} == {1}
    assert len({str(read_note(run.folder)).split()[1] for run in runs}) > 1, "one coordinator did all the work"


def _without_locks(*arguments: object) -> None:
    """A coordinator for which every claim is free."""
    ownership.FileLock.take = classmethod(lambda cls, path, **_: cls(os.open(path, os.O_RDWR | os.O_CREAT)))  # type: ignore[method-assign,assignment]
    ownership.is_locked = coordinate.is_claimed = coordinate._Coordinator._is_queued = lambda *_: False  # type: ignore[assignment,method-assign]
    coordinate_forks(*arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_without_claims_runs_are_run_twice(tmp_path: Path) -> None:
    """The twin of the test above."""
    assert ownership.FileLock is FileLock
    runs = [toy_run(tmp_path, f"run{seed}", seed=seed, steps=2) for seed in range(2)]
    launcher = ForkLauncher(tmp_path / "starts", start_up_seconds=2.0)  # nothing is finished before both have looked
    for each in [running(_without_locks, runs, tmp_path, launcher, 2, True, 2) for _ in range(2)]:
        each.process.join()
    assert max(Counter(started_in(tmp_path)).values()) > 1


def test_finished_runs_are_skipped_and_a_failed_one_does_not_stop_the_others(tmp_path: Path) -> None:
    runs = [
        toy_run(tmp_path, "done", steps=2),
        broken(toy_run(tmp_path, "broken", method="baseline", steps=2)),
        toy_run(tmp_path, "new", seed=1, steps=2),
    ]
    trained(runs[0].config, runs[0].folder)
    written = RunFolder(runs[0].folder).record_file.stat().st_mtime_ns
    process = coordinator(runs, tmp_path, at_once=1)
    assert outcome_of(process) == {**NOTHING, "failed": ["broken"]}
    assert started_in(tmp_path) == ["broken", "new"]
    assert RunFolder(runs[2].folder).finished
    assert RunFolder(runs[0].folder).record_file.stat().st_mtime_ns == written
    printed = process.ended().out
    assert "broken failed\n    " in printed
    assert "/nowhere" in printed.partition("broken failed")[2]
    now = status_of(runs[1])
    assert now.status is Status.FAILED
    assert now.reason is not None
    assert "/nowhere" in now.reason, "it failed before its first step"


def test_a_study_goes_on_from_its_committed_records(tmp_path: Path) -> None:
    """Of a finished run a repository keeps the record alone."""
    runs = [toy_run(tmp_path, "committed", steps=2), toy_run(tmp_path, "new", seed=1, steps=2)]
    trained(runs[0].config, tmp_path / "earlier")
    runs[0].folder.mkdir()
    shutil.copy(tmp_path / "earlier" / "record.json", runs[0].folder)
    assert outcome_of(coordinator(runs, tmp_path)) == NOTHING
    assert started_in(tmp_path) == ["new"]
    assert RunFolder(runs[0].folder).config().fingerprint == runs[0].config.fingerprint


@pytest.mark.slow
def test_a_failed_run_is_not_repeated_by_the_other_coordinator_but_by_the_next(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path, "long", **BRIEF), broken(toy_run(tmp_path, "broken", steps=2))]
    both = [coordinator(runs, tmp_path, at_once=1) for _ in range(2)]
    assert [outcome_of(each)["failed"] for each in both] == [["broken"], ["broken"]]
    assert sorted(started_in(tmp_path)) == ["broken", "long"]
    assert outcome_of(coordinator(runs, tmp_path))["failed"] == ["broken"]
    assert started_in(tmp_path).count("broken") == 2


@pytest.mark.parametrize("only_record", [False, True])
def test_a_run_of_another_configuration_is_refused_before_anything_starts(tmp_path: Path, only_record: bool) -> None:
    trained(toy_run(tmp_path, "old", steps=2).config, tmp_path / "old")
    if only_record:
        RunFolder(tmp_path / "old").config_file.unlink()
    runs = [toy_run(tmp_path, "new", steps=2), toy_run(tmp_path, "old", steps=3)]
    with pytest.raises(CheckpointError, match=r"train\.steps is 2 there and 3 here"):
        bring_to_records(
            runs,
            ForkLauncher(tmp_path / "starts"),
            tmp_path,
            at_once=1,
            keep_checkpoints=True,
            console=Console(quiet=True),
        )
    assert started_in(tmp_path) == []
    assert not runs[0].folder.exists()


@pytest.mark.slow
def test_a_record_that_another_coordinator_made_with_other_settings_is_not_taken_for_ours(tmp_path: Path) -> None:
    theirs, ours = toy_run(tmp_path, "run", **BRIEF), toy_run(tmp_path, "run", **{**BRIEF, "steps": 201})
    first = coordinator([theirs], tmp_path)
    until(lambda: is_claimed(theirs.folder), alive=first.process.is_alive)
    second = coordinator([ours], tmp_path)
    assert outcome_of(first) == NOTHING
    end = second.ended()
    assert end.code == 1
    assert "train.steps is 200 there and 201 here" in end.err
    assert RunFolder(theirs.folder).config().train.steps == 200


def test_a_diverged_run_is_decided_and_with_other_settings_it_is_not(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path, "wild", lr=1e30, steps=30), toy_run(tmp_path, "tame", steps=2)]
    process = coordinator(runs, tmp_path)
    assert outcome_of(process) == {**NOTHING, "diverged": ["wild"]}
    assert "wild diverged\n    the loss is nan" in process.ended().out.replace("gradient", "loss")
    assert status_of(runs[0]).status is Status.DIVERGED
    assert outcome_of(coordinator(runs, tmp_path)) == {**NOTHING, "diverged": ["wild"]}
    assert started_in(tmp_path).count("wild") == 1
    assert not RunFolder(runs[0].folder).has_checkpoint
    assert outcome_of(coordinator([toy_run(tmp_path, "wild", steps=2)], tmp_path)) == NOTHING


@pytest.mark.slow
def test_a_diverged_run_is_not_started_by_a_coordinator_that_came_too_late_to_see_it(tmp_path: Path) -> None:
    """Two coordinators want few runs that diverge at once: the claim is free again, and there is nothing to start."""
    runs = [toy_run(tmp_path, f"wild{seed}", lr=1e30, steps=30, seed=seed) for seed in range(8)]
    names = [run.name for run in runs]
    for each in [coordinator(runs, tmp_path, of=3) for _ in range(3)]:
        assert sorted(outcome_of(each)["diverged"]) == names
    assert sorted(started_in(tmp_path)) == names


@pytest.mark.slow
def test_a_killed_worker_is_resumed_by_the_same_coordinator(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "run", **BRIEF)
    trained(run.config, tmp_path / "straight")
    process = coordinator([run], tmp_path)
    until(lambda: steps_saved(run) >= 40, alive=process.process.is_alive)
    worker = worker_of(run)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    assert outcome_of(process) == NOTHING
    assert re.search(r"run was cut off after saving step \d+; it will be resumed", process.ended().out)
    assert RunFolder(run.folder).record().sessions == 2
    assert timeless_record(run.folder) == timeless_record(tmp_path / "straight")
    assert last_weights(run.folder) == last_weights(tmp_path / "straight")


@pytest.mark.slow
@pytest.mark.parametrize("progress", [False, True])
def test_a_run_that_is_always_killed_is_given_up_unless_it_gets_further(tmp_path: Path, progress: bool) -> None:
    run = toy_run(tmp_path, "run", **LONG)
    process = coordinator([run], tmp_path, start_up_seconds=0 if progress else 30)
    killed: set[int | None] = {None}
    for starts in range(1, 5 if progress else 4):
        saved = steps_saved(run)
        until(
            lambda: (
                len(started_in(tmp_path)) == starts  # noqa: B023
                and worker_of(run) not in killed
                and (steps_saved(run) > saved or not progress)  # noqa: B023
            ),
            alive=process.process.is_alive,
        )
        worker = worker_of(run)
        assert worker is not None
        killed.add(worker)
        os.kill(worker, signal.SIGKILL)
    if progress:
        until(lambda: len(started_in(tmp_path)) == 5, alive=process.process.is_alive)
        process.signal(signal.SIGTERM)
        assert process.ended().code == 143
        return
    assert outcome_of(process) == {**NOTHING, "failed": ["run"]}
    assert started_in(tmp_path) == ["run"] * 3
    assert status_of(run).status is Status.FAILED


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_every_run_resumable_and_nobody_behind(tmp_path: Path, how: signal.Signals) -> None:
    runs = [toy_run(tmp_path, f"run{seed}", seed=seed, **LONG) for seed in range(3)]
    process = coordinator(runs, tmp_path)
    until(lambda: all(steps_saved(run) for run in runs[:2]), alive=process.process.is_alive)
    workers = [worker_of(run) for run in runs[:2]]
    process.signal(how)
    assert process.ended().code == 128 + how
    for run, worker in zip(runs, workers, strict=False):
        state = RunFolder(run.folder).state()
        assert state is not None
        assert state.state is RunState.INTERRUPTED
        assert RunFolder(run.folder).has_checkpoint
        assert worker is not None
        assert not is_alive(worker)
        assert status_of(run).status is Status.INTERRUPTED
    assert status_of(runs[2]).status is Status.WAITING
    assert started_in(tmp_path) == ["run0", "run1"]


def test_a_second_ctrl_c_ends_the_coordinator_at_once_and_the_runs_still_save(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "run", **LONG)
    process = coordinator([run], tmp_path, start_up_seconds=0)
    until(lambda: steps_saved(run), alive=process.process.is_alive)
    worker = worker_of(run)
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)  # a worker that takes its time
    process.signal(signal.SIGINT)
    time.sleep(0.3)
    process.signal(signal.SIGINT)
    assert process.ended().code == -signal.SIGINT
    assert is_claimed(run.folder), "the worker has it still"
    os.kill(worker, signal.SIGCONT)
    until(lambda: not is_claimed(run.folder))
    assert status_of(run).status is Status.INTERRUPTED


@pytest.mark.slow
def test_what_one_coordinator_was_told_to_leave_another_takes_over(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path, f"run{seed}", seed=seed, **BRIEF) for seed in range(2)]
    first = coordinator(runs, tmp_path)
    until(lambda: all(steps_saved(run) for run in runs), alive=first.process.is_alive)
    second = coordinator(runs, tmp_path)
    first.signal(signal.SIGTERM)
    assert first.ended().code == 143
    assert outcome_of(second) == NOTHING
    assert {RunFolder(run.folder).record().sessions for run in runs} == {2}


@pytest.mark.slow
def test_a_worker_that_outlives_its_coordinator_ends_its_run_and_nobody_starts_it_again(tmp_path: Path) -> None:
    run = toy_run(tmp_path, "run", **BRIEF)
    first = coordinator([run], tmp_path, keep=False)
    until(lambda: worker_of(run) is not None, alive=first.process.is_alive)
    first.killed()
    assert outcome_of(coordinator([run], tmp_path, keep=False)) == NOTHING
    assert started_in(tmp_path) == ["run"]
    assert RunFolder(run.folder).record().sessions == 1
    assert not RunFolder(run.folder).checkpoint_folder.exists(), "nobody was there to remove it"


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_one_run_is_stopped_and_no_coordinator_starts_it_again(tmp_path: Path, seconds: float) -> None:
    """Also in its start-up, where the signal kills it before it can save."""
    run, other = toy_run(tmp_path, "run", **LONG), toy_run(tmp_path, "other", method="baseline", **LONG)
    both = [coordinator([run, other], tmp_path, at_once=1, start_up_seconds=seconds) for _ in range(2)]
    until(lambda: all(worker_of(each) for each in (run, other)))
    until(lambda: seconds or all(steps_saved(each) for each in (run, other)))
    assert stop_run(run.folder)
    until(lambda: not is_claimed(run.folder))
    assert status_of(run).status is (Status.WAITING if seconds else Status.INTERRUPTED)
    time.sleep(0.3)
    assert stop_run(other.folder)
    for each in both:
        assert sorted(outcome_of(each)["interrupted"]) == ["other", "run"]
    assert sorted(started_in(tmp_path)) == ["other", "run"]
    assert not stop_run(run.folder), "nobody has it"
    again = coordinator([run], tmp_path)
    until(lambda: worker_of(run) is not None, alive=again.process.is_alive)
    assert not stop_request(run.folder).exists()
    again.signal(signal.SIGTERM)
    assert again.ended().code == 143


@pytest.mark.slow
def test_stop_reaches_coordinators_and_workers_that_have_none(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path, f"run{seed}", seed=seed, **LONG) for seed in range(2)]
    orphaned, process = coordinator(runs[:1], tmp_path), coordinator(runs[1:], tmp_path)
    until(lambda: all(steps_saved(run) for run in runs))
    orphaned.killed()
    assert stop_study([run.folder for run in runs], tmp_path, wait_seconds=30) == []
    assert process.ended().code == 143
    assert [status_of(run).status for run in runs] == [Status.INTERRUPTED] * 2


def test_stop_is_seen_by_a_coordinator_that_has_no_run(tmp_path: Path) -> None:
    """It waits for a run that is somebody else's; to find no run is not to find no coordinator."""
    run = toy_run(tmp_path, "run", **LONG)
    held = FileLock.take(run.folder / "claim.lock")
    assert held is not None
    process = coordinator([run], tmp_path)
    printed = process.folder / "out"
    until(lambda: printed.exists() and "waiting" in printed.read_text(), alive=process.process.is_alive)
    assert stop_study([], tmp_path, wait_seconds=30) == []
    assert process.ended().code == 143
    held.release()


@pytest.mark.slow
def test_a_worker_in_its_start_up_whose_coordinator_died_is_waited_for(tmp_path: Path) -> None:
    """It has not locked its folder yet; the claim names its process."""
    run = toy_run(tmp_path, "run", steps=2)
    first = coordinator([run], tmp_path, start_up_seconds=2)
    until(lambda: worker_of(run) is not None, alive=first.process.is_alive)
    first.killed()
    assert not is_claimed(run.folder)
    assert outcome_of(coordinator([run], tmp_path)) == NOTHING
    assert started_in(tmp_path) == ["run"]


def _left_by_another_machine(run: StudyRun, *, seconds_ago: float) -> None:
    """A coordinator there submitted the run, and nothing has been heard of it since."""
    run.folder.mkdir()
    beat_at = time.time() - seconds_ago
    note = ClaimNote(host="elsewhere", coordinator=122, launcher="fork", job="elsewhere/123/456", beat_at=beat_at)
    write_text(run.folder / "claim.json", note.model_dump_json())


def test_a_run_whose_machine_is_gone_is_started_here(tmp_path: Path) -> None:
    """Also where a container was started again: it has another name."""
    run = toy_run(tmp_path, "run", steps=2)
    _left_by_another_machine(run, seconds_ago=START_UP_SECONDS * 1.1)
    assert outcome_of(coordinator([run], tmp_path)) == NOTHING
    assert started_in(tmp_path) == ["run"]
    assert RunFolder(run.folder).finished


def test_a_worker_in_its_start_up_on_another_machine_is_waited_for(tmp_path: Path) -> None:
    """The twin of the test above: its coordinator has died, and it has not written its first heartbeat."""
    run = toy_run(tmp_path, "run", steps=2)
    _left_by_another_machine(run, seconds_ago=2 * STALE_SECONDS)
    assert not is_claimed(run.folder)
    process = coordinator([run], tmp_path)
    printed = process.folder / "out"
    until(lambda: printed.exists() and "waiting" in printed.read_text(), alive=process.process.is_alive)
    process.signal(signal.SIGTERM)
    assert process.ended().code == 143
    assert started_in(tmp_path) == []


def test_unknown_is_waiting(tmp_path: Path) -> None:
    """A launcher that cannot say for a while what has become of its jobs."""
    run = toy_run(tmp_path, "run", steps=2)
    assert outcome_of(coordinator([run], tmp_path, forgetful=True)) == NOTHING
    assert started_in(tmp_path) == ["run"]


@pytest.mark.slow
def test_what_an_older_version_left_is_resumed(tmp_path: Path) -> None:
    """Its claims had other fields and its state no host."""
    run = toy_run(tmp_path, "run", **BRIEF)
    straight = trained(run.config, tmp_path / "straight")
    first = coordinator([run], tmp_path)
    until(lambda: steps_saved(run) >= 20, alive=first.process.is_alive)
    first.signal(signal.SIGTERM)
    assert first.ended().code == 143
    old = {"host": "elsewhere", "coordinator": 1, "worker": 2, "device": "cpu x1", "beat_at": 1.0, "exit_code": None}
    write_json(run.folder / "claim.json", old)
    state = read_json(RunFolder(run.folder).state_file)
    del state["host"]
    write_json(RunFolder(run.folder).state_file, state)
    assert outcome_of(coordinator([run], tmp_path)) == NOTHING
    assert RunFolder(run.folder).record().result == straight.result
