import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from oelm.base.errors import CheckpointError
from oelm.config.record import RunState
from oelm.experiments.local import Planned, run_all
from oelm.train.folder import RunFolder
from train.processes import running, until
from train.toys import tiny_config, trained


def planned(folder: Path, label: str, **changes: object) -> Planned:
    return Planned(label=label, config=tiny_config(**changes), folder=folder / label)  # type: ignore[arg-type]


@pytest.mark.slow
def test_finished_runs_are_skipped_and_a_failed_one_does_not_stop_the_others(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "done"), planned(tmp_path, "broken", method="baseline"), planned(tmp_path, "new", seed=1)]
    trained(runs[0].config, runs[0].folder)
    before = runs[0].folder.stat().st_mtime_ns
    broken = runs[1].config.model_copy(update={"data": runs[1].config.data.model_copy(update={"folder": "nowhere"})})
    runs[1] = Planned(runs[1].label, broken, runs[1].folder)
    printed = io.StringIO()
    with pytest.raises(CheckpointError, match=r"1 of 3 runs failed \(broken\).*console\.log"):
        run_all(runs, at_once=2, console=Console(file=printed))
    assert "broken failed" in printed.getvalue()
    assert "nowhere" in printed.getvalue()
    assert RunFolder(tmp_path / "new").finished
    assert runs[0].folder.stat().st_mtime_ns == before


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    run = planned(tmp_path, "run", steps=2)
    trained(run.config, run.folder)
    run_all([run], at_once=1, console=Console(quiet=True))
    with pytest.raises(CheckpointError, match=r"train\.steps is 2 there and 3 here"):
        run_all([planned(tmp_path, "run", steps=3)], at_once=1, console=Console(quiet=True))


def _run_all(runs: list[Planned]) -> None:
    run_all(runs, at_once=1, console=Console())


@pytest.mark.slow
def test_ctrl_c_leaves_the_runs_resumable(tmp_path: Path) -> None:
    runs = [planned(tmp_path, label, steps=30_000, save_every=30_000, log_every=1) for label in ("first", "second")]
    everything, files = running(_run_all, runs), RunFolder(tmp_path / "first")
    until(lambda: files.events_file.exists() and files.events_file.stat().st_size, alive=everything.process.is_alive)
    everything.signal(signal.SIGINT)
    assert everything.ended().code == 130
    state = files.state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED
    assert files.has_checkpoint
    with pytest.raises(ProcessLookupError):
        os.kill(state.pid, 0)
    assert not RunFolder(tmp_path / "second").config_file.exists()
