"""Coordinators and terminals: detached ones survive, attached ones save when their terminal goes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oelm.base.locks import is_locked
from oelm.config.record import RunState
from oelm.experiments.ownership import last_state
from oelm.train.folder import RunFolder
from train.processes import started, started_anew, until
from train.toys import flags

from .toy_studies import final_of, processes_of, steps_saved, write_study

LONG = {"steps": 100_000, "validate_every": 100_000, "save_every": 100}
RUN = ("oelm", "experiment", "run")


@pytest.fixture(autouse=True)
def _nobody_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for process in processes_of(tmp_path):
        os.kill(process, signal.SIGKILL)


@pytest.mark.slow
def test_a_detached_coordinator_is_attached_to_looked_at_and_stopped(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study.yaml", arms=["oelm"], seeds=[0], train=LONG)
    (run,), out = final_of(study, tmp_path / "out"), f"--out-dir={tmp_path / 'out'}"
    terminal = started_anew(*RUN, str(study), "--on=cpu", "--detach", out)
    said, err = terminal.communicate(timeout=150)
    assert terminal.returncode == 0, err
    assert "oelm experiment attach" in said
    until(lambda: steps_saved(run))
    attached = started(["experiment", "attach", str(study), out])
    shown = attached.folder / "out"
    until(lambda: shown.exists() and "oelm-seed0" in shown.read_text(), alive=attached.process.is_alive)
    attached.signal(signal.SIGINT)
    ended = attached.ended()
    assert ended.code == 0, ended.err
    assert "goes on" in ended.out
    log = tmp_path / "out" / "coordinator-1.log"
    assert is_locked(log)

    again = started(["experiment", "attach", str(study), out])
    assert started(["experiment", "stop", str(study), out]).ended().code == 0
    assert "every run has saved itself" in again.ended().out, "to its end"
    assert not is_locked(log)
    state = last_state(run.folder)
    assert state is not None
    assert state.state is RunState.INTERRUPTED


@pytest.mark.slow
def test_what_cannot_start_is_said_in_the_terminal_that_detaches(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study.yaml", arms=["oelm"], seeds=[0])
    out = f"--out-dir={tmp_path / 'out'}"
    refused = started_anew(*RUN, str(study), "--on=gpu", "--detach", out, CUDA_VISIBLE_DEVICES="")
    said, _ = refused.communicate(timeout=150)
    assert refused.returncode == 2
    assert "NVML shows no GPU" in said
    never = started(["experiment", "attach", str(study), f"--out-dir={tmp_path / 'other'}"]).ended()
    assert never.code == 2
    assert "no coordinator was detached" in never.err


@pytest.mark.slow
@pytest.mark.parametrize("what", ["train", "experiment"])
def test_a_terminal_that_goes_lets_everything_save(tmp_path: Path, what: str) -> None:
    """A real terminal: when the other side closes it, the system sends SIGHUP, and printing is an error."""
    study = write_study(tmp_path / "study.yaml", arms=["oelm"], seeds=[0], train=LONG)
    (run,) = final_of(study, tmp_path / "out")
    words = ["experiment", "run", str(study), "--on=cpu", f"--out-dir={tmp_path / 'out'}"]
    if what == "train":
        words = flags(**LONG, out_dir=run.folder)
    near, far = os.openpty()
    heard = ["env", "--default-signal=HUP"]  # also where the tests themselves were started by nohup
    command = ["setsid", "--ctty", *heard, sys.executable, "-m", "oelm", *words]
    process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far)
    os.close(far)
    reader = subprocess.Popen(["cat"], stdin=near, stdout=subprocess.DEVNULL)  # or the terminal would be full some time
    os.close(near)
    until(lambda: steps_saved(run), alive=lambda: process.poll() is None)
    reader.kill()
    reader.wait()
    assert process.wait(timeout=150) == 128 + signal.SIGHUP
    state = RunFolder(run.folder).state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED
    assert state.step > 0
