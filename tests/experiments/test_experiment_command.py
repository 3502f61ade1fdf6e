"""`oelm experiment` itself, its coordinators and workers in real processes: killed, stopped, looked at, resumed."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oelm.base.errors import ConfigError
from oelm.cli.main import command_line
from oelm.config.record import RunState
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import is_claimed
from oelm.experiments.selection import Selection
from oelm.experiments.study import StudyFile
from oelm.train.folder import RunFolder, stop_request
from train.processes import Running, started, until
from train.toys import last_weights, timeless_record, toy_text, trained

from .toy_studies import final_of, is_alive, processes_of, steps_saved, steps_told, worker_of, write_study

LONG = {"steps": 100_000, "validate_every": 100_000, "save_every": 100}


_commands: list[Running] = []


@pytest.fixture(autouse=True)
def _nobody_is_left(tmp_path: Path) -> Iterator[None]:
    """However a test ends, its processes end with it."""
    yield
    for command in _commands:
        command.killed()
    _commands.clear()
    for process in processes_of(tmp_path):
        os.kill(process, signal.SIGKILL)


def experiment(verb: str, study: Path, *arguments: str) -> Running:
    """`oelm experiment VERB` on a study whose runs are in `out` beside it."""
    command = started(["experiment", verb, str(study), *arguments, f"--out-dir={study.parent / 'out'}"], COLUMNS="160")
    _commands.append(command)
    return command


def said(verb: str, study: Path, *arguments: str, code: int = 0) -> str:
    ended = experiment(verb, study, *arguments).ended()
    assert ended.code == code, ended.err
    return ended.out


def saved_more(runs: list[StudyRun], process: Running) -> None:
    """Wait until a run has got further than it is now."""
    before = {run.name: steps_saved(run) for run in runs}
    until(lambda: any(steps_saved(run) > before[run.name] for run in runs), alive=process.process.is_alive)


def kill_a_worker(runs: list[StudyRun], dice: random.Random) -> bool:
    workers = [worker for run in runs if (worker := worker_of(run)) is not None]
    if not workers:
        return False
    os.kill(dice.choice(workers), signal.SIGKILL)
    return True


def planless_record(folder: Path) -> dict[str, object]:
    """A record without time and plan: what is trained by itself has none."""
    values: dict[str, Any] = timeless_record(folder)
    del values["config"]["study"]["plan"]
    return values


@pytest.mark.slow
def test_killed_at_random_and_started_again_the_records_are_the_same(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study.yaml", train={"steps": 600, "validate_every": 300})
    straight, runs = final_of(study, tmp_path / "straight"), final_of(study, tmp_path / "out")
    for run in straight:
        trained(run.config, run.folder)
    dice, hits = random.Random(4), 0
    for victim in ("both", "worker", "coordinator"):
        process = experiment("run", study, "--on=cpu")
        saved_more(runs, process)
        time.sleep(dice.uniform(0, 0.3))
        if victim != "coordinator":
            hits += kill_a_worker(runs, dice)
        if victim == "worker":
            saved_more(runs, process)  # resumed by the same coordinator
        hits += process.process.is_alive()
        process.killed()
    assert hits >= 4, "too few kills hit something that lived"
    printed = said("run", study, "--on=cpu")
    assert "oelm" in printed
    assert "baseline" in printed
    for run, undisturbed in zip(runs, straight, strict=True):
        assert planless_record(run.folder) == planless_record(undisturbed.folder)
        assert last_weights(run.folder) == last_weights(undisturbed.folder)
        assert not list(run.folder.rglob(".partial-*"))
    assert sum(RunFolder(run.folder).record().sessions for run in runs) > len(runs)
    assert processes_of(tmp_path / "out") == []
    written = [RunFolder(run.folder).record_file.stat().st_mtime_ns for run in runs]
    said("run", study, "--on=cpu")
    assert [RunFolder(run.folder).record_file.stat().st_mtime_ns for run in runs] == written, "trained twice"


@pytest.mark.slow
def test_watched_stopped_and_resumed_from_other_terminals(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study.yaml", seeds=[0], train=LONG)
    baseline, oelm = final_of(study, tmp_path / "out")
    assert "2 runs: 2 waiting" in said("status", study)
    assert "has not been started" in experiment("logs", study, "oelm").ended().err
    process = experiment("run", study, "--on=cpu")
    until(lambda: steps_saved(baseline) and steps_told(oelm), alive=process.process.is_alive)
    follower = experiment("logs", study, "-f", "oelm-seed0")

    shown = said("status", study)
    assert "2 runs: 2 running" in shown
    (line,) = [line for line in shown.splitlines() if "oelm-seed0" in line]
    assert "cpu x1" in line
    assert "/100,000" in line

    assert "asked to save and end" in said("stop", study, "oelm")
    until(lambda: not is_claimed(oelm.folder), alive=process.process.is_alive)
    followed = follower.ended()
    assert followed.code == 0, followed.err
    assert "stopped by SIGTERM after saving" in followed.out
    assert "1 running, 1 interrupted" in said("status", study)
    assert worker_of(baseline) is not None, "the other goes on"
    assert "is not running" in said("stop", study, "oelm", code=1)

    assert "stopped" in said("stop", study)
    ended = process.ended()
    assert ended.code == 143
    assert "oelm-seed0 stopped" in ended.out
    assert "2 runs: 2 interrupted" in said("status", study)
    assert "stopped by SIGTERM after saving" in said("logs", study, "--lines=1", "baseline")
    assert processes_of(tmp_path / "out") == []

    before = steps_saved(oelm)
    again = experiment("run", study, "--on=cpu", "--only=oelm")
    until(lambda: steps_saved(oelm) > before, alive=again.process.is_alive)
    worker = worker_of(oelm)
    assert worker is not None
    again.signal(signal.SIGINT)
    assert again.ended().code == 130
    now = RunFolder(oelm.folder).state()
    assert now is not None
    assert (now.state, now.sessions) == (RunState.INTERRUPTED, 2)
    assert not is_alive(worker)
    assert worker_of(baseline) is None, "only the other was asked for"


def test_a_folder_of_studies_is_stopped_as_a_whole_and_asked_for_one_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("all").mkdir()
    for name in ("a", "b", "c"):
        write_study(Path("all") / f"{name}.yaml")

    def called(*arguments: str) -> object:
        words = ["experiment", *arguments]
        return command_line(words)(args=words, standalone_mode=False)

    for arguments in (["logs", "all", "oelm"], ["attach", "all"], ["stop", "all", "oelm"]):
        with pytest.raises(ConfigError, match=r"all holds 3 studies.*: all/a\.yaml, all/b\.yaml, all/c\.yaml\.$"):
            called(*arguments)
    assert called("stop", "all") == 1
    assert "there is no runs/a and no runs/b and no runs/c" in capsys.readouterr().out
    for started_before in ("runs/a", "runs/b"):
        Path(started_before).mkdir(parents=True)
    assert not called("stop", "all", "--wait=0")
    assert "stopped" in capsys.readouterr().out
    assert stop_request(Path("runs/a")).is_file()
    assert stop_request(Path("runs/b")).is_file()
    assert not Path("runs/c").exists()


@pytest.mark.slow
def test_learning_rates_are_chosen_then_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a text file: one rate diverges, and what is chosen from the others is written down and used."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.txt").write_text(toy_text())
    source = {"source": {"kind": "files", "paths": ["toy.txt"]}, "tokenizer": "bytes"}
    study = write_study(
        tmp_path / "study.yaml",
        data={"toy": source},
        train={"lr": None, "steps": 40},
        arms=["oelm"],
        tuning={"grid": [1e-3, 1e-2, 1e30], "share": 0.5, "seed": 7},
        seeds=[0],
        keep_checkpoints=False,
    )
    ended = started(["experiment", "run", str(study), "--on=cpu", "--out-dir=out", "--results=kept"]).ended()
    assert ended.code == 0, ended.err
    assert "oelm-lr1e+30 diverged" in ended.out
    assert "cannot be checked" not in " ".join(ended.out.split()), "the tuning records are here"
    selection = Selection.model_validate_json((tmp_path / "out" / "selection.json").read_text())
    (choice,) = selection.choices
    assert (choice.cell, choice.lr, choice.at_edge) == ("oelm", 1e-2, False)
    assert [(trial.lr, trial.loss is None) for trial in choice.trials] == [(1e-3, False), (1e-2, False), (1e30, True)]
    record = RunFolder(Path("out/final/oelm-seed0")).record()
    assert (record.config.optim.lr, record.config.train.steps, record.config.seed) == (1e-2, 40, 0)
    tuned = RunFolder(Path("out/tuning/oelm-lr0.01")).record()
    assert (tuned.config.train.steps, tuned.config.seed) == (20, 7)
    assert not list((tmp_path / "out").rglob("step-*")), "it was not to keep them"
    kept = json.loads((tmp_path / "kept" / "final" / "oelm-seed0" / "record.json").read_text())
    assert kept["result"]["loss"] == record.result.loss


@pytest.mark.slow
def test_a_final_run_that_diverges_is_a_result_and_the_study_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the second time; what was kept says so, and asks for just what was run."""
    monkeypatch.chdir(tmp_path)
    wild = {"method": "oelm", "settings": {"lr": 1e30}}
    study = write_study(tmp_path / "study.yaml", train={"steps": 20}, arms=["baseline", wild], seeds=[0])
    command = ["experiment", "run", str(study), "--on=cpu", "--out-dir=out", "--results=kept", "--set=margin=1.2"]
    for _ in range(2):
        ended = started(command).ended()
        assert ended.code == 0, ended.err
        assert "1 of 2 runs diverged (oelm-seed0)" in ended.out
        assert Path("out/report.html").is_file()
    assert Path("kept/final/baseline-seed0/record.json").is_file()
    assert json.loads(Path("kept/final/oelm-seed0/state.json").read_text())["host"] is None
    compared = started(["compare", "kept"]).ended()
    assert "Of these diverged: 1 (oelm-seed0)" in " ".join(compared.out.split())
    kept, given = StudyFile.read(Path("kept/study.yaml")).study, StudyFile.read(study).study
    assert kept == given.model_copy(update={"margin": 1.2})
    assert kept != given


@pytest.mark.slow
def test_a_grid_is_extended_by_itself_and_the_records_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rule = {"grid": [1e-4, 1e-3], "seed": 7, "extend": 2, "refine": True, "validation": "half"}
    study = write_study(tmp_path / "study.yaml", train={"lr": None, "steps": 20}, arms=["oelm"], seeds=[0], tuning=rule)
    ended = started(["experiment", "run", str(study), "--on=cpu", "--out-dir=out", "--results=kept"]).ended()
    assert ended.code == 0, ended.err
    assert "grids extended" in ended.out
    record = RunFolder(Path("out/final/oelm-seed0")).record()
    assert record.config.study is not None
    assert record.config.study.tuning is not None
    choice = record.config.study.tuning.choice
    assert choice is not None
    assert choice.lr == record.config.optim.lr
    assert [trial.lr for trial in choice.trials] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert [trial.extension for trial in choice.trials] == [False, False, True, True]
    for trial in choice.trials:
        tuned = RunFolder(Path(f"out/tuning/oelm-lr{trial.lr:g}")).record()
        assert (tuned.result.loss, tuned.config.train.validation_half) == (trial.loss, "first")
        assert (tmp_path / "kept" / "tuning" / f"oelm-lr{trial.lr:g}" / "record.json").is_file()
    assert record.config.train.validation_half == "second"


@pytest.mark.slow
def test_two_processes_per_run_through_torchrun(tmp_path: Path) -> None:
    """Placed on CPU slots, stopped in the middle, a process killed, and brought to its record."""
    study = write_study(
        tmp_path / "study.yaml", arms=["oelm"], seeds=[0], train={"processes": 2, "batch_size": 1, "steps": 1000}
    )
    (run,) = final_of(study, tmp_path / "out")
    process = experiment("run", study, "--on=cpu", "--at-once=1")
    until(lambda: steps_saved(run), alive=process.process.is_alive)
    assert "asked to save" in said("stop", study, "oelm")
    ended = process.ended()
    assert ended.code == 2
    assert "oelm-seed0 stopped" in ended.out
    assert "1 of 1 runs were stopped, as somebody asked" in ended.err
    assert "correct the cause" not in ended.err
    state = RunFolder(run.folder).state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED
    assert processes_of(tmp_path / "out") == []

    process = experiment("run", study, "--on=cpu", "--at-once=1")
    saved_more([run], process)
    state = RunFolder(run.folder).state()
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    ended = process.ended()
    assert ended.code == 0, (ended.out, ended.err)
    assert "oelm-seed0 was cut off" in ended.out
    assert RunFolder(run.folder).record().sessions == 3
    assert processes_of(tmp_path / "out") == []
