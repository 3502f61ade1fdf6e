import json
import os
import signal
import time
from pathlib import Path

import pytest

from oelm.base.errors import CheckpointError
from oelm.config.record import FreezeEvent, RunState, StateFile
from oelm.config.run import RunConfig
from oelm.train import folder as folder_module
from oelm.train.folder import EventLog, Heart, RunFolder, has_events, stop_request
from oelm.train.stopping import StopRequest
from train.processes import running, until
from train.toys import tiny_config


def event(step: int) -> FreezeEvent:
    return FreezeEvent(step=step, frozen=1, frozen_weights=2, thawed=(), newly_frozen=())


def state() -> StateFile:
    return StateFile(
        state=RunState.RUNNING, step=0, steps=9, pid=1, device="cpu", started_at=0.0, heartbeat_at=0.0, sessions=1
    )


def test_events_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", 0)
    log.append(event(1))
    saved, digest = log.sync()
    log.append(event(2))
    log.close()
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "fre')  # a line that a crash tore
    assert has_events(tmp_path / "events.jsonl", saved, digest)
    log = EventLog(tmp_path / "events.jsonl", saved)
    log.append(event(3))
    log.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [1, 3]


def test_a_folder_with_work_in_it_belongs_to_its_config(tmp_path: Path) -> None:
    files = RunFolder(tmp_path / "run")
    with files.opened(tiny_config(), resume=False):
        pass
    with files.opened(tiny_config(lr=0.5), resume=False):  # nothing was saved yet: it may be taken over
        assert files.config().optim.lr == 0.5
    (files.checkpoint_folder / "step-00000010").mkdir(parents=True)
    with (
        pytest.raises(CheckpointError, match=r"optim\.lr is 0\.5 there and 0\.01 here"),
        files.opened(tiny_config(), resume=True),
    ):
        pass
    with pytest.raises(CheckpointError, match="--resume"), files.opened(tiny_config(lr=0.5), resume=False):
        pass
    with files.opened(tiny_config(lr=0.5, log_every=1), resume=True):  # how often to look is no other configuration
        pass
    files.record_file.touch()
    with pytest.raises(CheckpointError, match="finished"), files.opened(tiny_config(lr=0.5), resume=True):
        pass
    assert files.config().optim.lr == 0.5


def _hold(path: Path, config: RunConfig) -> None:
    with RunFolder(path).opened(config, resume=False):
        (path / "held").touch()
        time.sleep(60)


@pytest.mark.slow
def test_a_lock_keeps_others_out_and_dies_with_its_holder(tmp_path: Path) -> None:
    config = tiny_config()
    holder = running(_hold, tmp_path / "run", config)
    until((tmp_path / "run" / "held").exists, alive=holder.process.is_alive)
    with (
        pytest.raises(CheckpointError, match="another process"),
        RunFolder(tmp_path / "run").opened(config, resume=True),
    ):
        pass
    holder.signal(signal.SIGKILL)
    holder.process.join()
    with RunFolder(tmp_path / "run").opened(config, resume=True):
        pass


def test_the_heart_beats_while_the_process_does_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "HEARTBEAT_SECONDS", 0.01)
    path = tmp_path / "state.json"
    heart = Heart(RunFolder(tmp_path), state(), StopRequest())
    heart.start()
    beats, end = set(), time.monotonic() + 0.5
    while time.monotonic() < end:  # as a long validation would; the file is whole whenever it is read
        beats.add(StateFile.model_validate_json(path.read_bytes()).heartbeat_at)
        heart.progress(step=5)
    heart.stop(RunState.INTERRUPTED, "asked to")
    assert len(beats) > 5
    last = StateFile.model_validate_json(path.read_bytes())
    assert (last.state, last.step, last.reason) == (RunState.INTERRUPTED, 5, "asked to")
    time.sleep(0.05)
    assert StateFile.model_validate_json(path.read_bytes()) == last, "a stopped heart beats no more"


def test_a_heart_that_cannot_write_does_not_hide_why_the_run_ended(tmp_path: Path) -> None:
    heart = Heart(RunFolder(tmp_path / "gone"), state(), StopRequest())
    heart.stop(RunState.FAILED, "the reason")
    assert not os.path.lexists(tmp_path / "gone")


def test_a_request_in_the_folder_stops_the_run_and_an_older_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write there, on whatever machine, can stop it."""
    monkeypatch.setattr(folder_module, "HEARTBEAT_SECONDS", 0.01)
    stop_request(tmp_path).write_text("asked to stop\n")
    os.utime(stop_request(tmp_path), (0, 0))
    asked = StopRequest()
    heart = Heart(RunFolder(tmp_path), state(), asked)
    heart.start()
    time.sleep(0.1)
    assert asked.signal is None
    stop_request(tmp_path).write_text("asked to stop\n")
    until(lambda: asked.signal == signal.SIGTERM)
    heart.stop(RunState.INTERRUPTED)
