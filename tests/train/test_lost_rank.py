"""A process of a data-parallel run that is lost: one sentence that names it, a state that says so, and resumption."""

import os
import signal
import time
from pathlib import Path

import pytest

from oelm.config.record import RunState
from oelm.train.folder import RunFolder
from train.processes import free_port, parallel, started_anew, until
from train.toys import flags, last_weights, tiny_config, trained

SETTINGS = {"steps": 400, "save_every": 20, "validate_every": 400, "log_every": 5}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_rank_is_named_within_five_seconds(tmp_path: Path, lost: int) -> None:
    folder = tmp_path / "run"
    ranks = parallel(flags(**{**SETTINGS, "steps": 100_000}, batch_size=1, out_dir=folder))
    files = RunFolder(folder)
    until(lambda: files.has_checkpoint, alive=lambda: all(rank.process.is_alive() for rank in ranks))
    ranks[lost].signal(signal.SIGKILL)
    ranks[lost].process.join()  # as torchrun does
    began = time.monotonic()
    ended = ranks[1 - lost].ended()
    assert time.monotonic() - began < 5
    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1, ended.err
    assert f"rank {lost} of 2 was lost" in ended.err
    state = files.state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED
    assert f"rank {lost} of 2 was lost" in (state.reason or "")


@pytest.mark.slow
def test_torchrun_starts_it_again_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("--nproc-per-node=2", "--max-restarts=2", f"--master-port={free_port()}", "-m", "oelm")
    torchrun = started_anew("torch.distributed.run", *words, *flags(**SETTINGS, batch_size=1, out_dir=folder))
    files = RunFolder(folder)
    until(lambda: files.has_checkpoint, alive=lambda: torchrun.poll() is None)
    state = files.state()
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    _, err = torchrun.communicate()
    assert torchrun.returncode == 0, err
    assert files.finished, err
    alone = tmp_path / "alone"
    trained(tiny_config(**SETTINGS, batch_size=1, accumulate=2), alone)  # type: ignore[arg-type]
    assert files.record().sessions == 2
    assert abs(files.record().loss - RunFolder(alone).record().loss) < 1e-4
    assert len(last_weights(folder)) == len(last_weights(alone))
