import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from oelm.base.errors import StorageError
from oelm.base.files import write_text
from oelm.config.record import RunState, StateFile
from oelm.experiments import ownership
from oelm.experiments.ownership import (
    STALE_SECONDS,
    START_UP_SECONDS,
    Claim,
    ClaimNote,
    is_claimed,
    is_starting_up,
    read_note,
)
from oelm.train.folder import RunFolder
from train.processes import started, until
from train.toys import flags, tiny_config


def taken(folder: Path) -> Claim:
    claim = Claim.take(folder)
    assert claim is not None
    return claim


def leave_note(folder: Path, *, host: str = "elsewhere", seconds_ago: float, **changes: object) -> None:
    note = ClaimNote(host=host, coordinator=1, job="2", beat_at=time.time() - seconds_ago)
    write_text(folder / "claim.json", note.model_copy(update=changes).model_dump_json())


def leave_heartbeat(folder: Path, *, host: str, seconds_ago: float) -> None:
    beat_at = time.time() - seconds_ago
    state = StateFile(
        state=RunState.RUNNING, step=1, steps=2, host=host, pid=1, device="cpu", started_at=beat_at,
        heartbeat_at=beat_at, sessions=1,
    )  # fmt: skip
    write_text(RunFolder(folder).state_file, state.model_dump_json())


def test_one_claim_at_a_time_and_a_note_of_its_end(tmp_path: Path) -> None:
    claim = taken(tmp_path)
    claim.begin()
    claim.submitted("local", "here/4711/1", "cpu x1")
    assert is_claimed(tmp_path)
    assert Claim.take(tmp_path) is None
    claim.end(failed=True)
    assert not is_claimed(tmp_path)
    note = read_note(tmp_path)
    assert note is not None
    assert (note.coordinator, note.launcher, note.job) == (os.getpid(), "local", "here/4711/1")
    assert (note.device, note.failed) == ("cpu x1", True)
    again = taken(tmp_path)
    again.give_back()
    assert read_note(tmp_path) == note, "a claim that was not used leaves no trace"


def test_a_fresh_note_from_another_machine_holds_and_a_stale_one_does_not(tmp_path: Path) -> None:
    leave_note(tmp_path, seconds_ago=STALE_SECONDS / 2)
    assert is_claimed(tmp_path)
    assert Claim.take(tmp_path) is None
    leave_note(tmp_path, seconds_ago=STALE_SECONDS * 1.1)
    assert not is_claimed(tmp_path)
    taken(tmp_path).give_back()


def test_without_staleness_the_dead_hold_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above."""
    monkeypatch.setattr(ownership, "STALE_SECONDS", float("inf"))
    leave_note(tmp_path, seconds_ago=1e6)
    assert Claim.take(tmp_path) is None


def test_a_note_of_this_machine_is_nothing_without_the_lock(tmp_path: Path) -> None:
    claim = taken(tmp_path)
    claim.begin()
    claim.give_back()  # as if it had been killed
    assert not is_claimed(tmp_path)


def test_what_another_machine_has_ended_is_free_at_once(tmp_path: Path) -> None:
    leave_note(tmp_path, seconds_ago=0, ended_at=1.0)
    taken(tmp_path).give_back()


def test_a_worker_that_beats_keeps_a_claim_whose_coordinator_died(tmp_path: Path) -> None:
    """On another machine, where its lock is not seen."""
    leave_note(tmp_path, seconds_ago=1e6)
    for host, seconds_ago, held in (
        ("elsewhere", 0.0, True),
        ("elsewhere", 2 * STALE_SECONDS, False),
        (socket.gethostname(), 0.0, False),
    ):
        leave_heartbeat(tmp_path, host=host, seconds_ago=seconds_ago)
        assert is_claimed(tmp_path) is held


@pytest.mark.parametrize(
    ("submitted", "heartbeat", "waits"),
    [
        (2 * STALE_SECONDS, None, True),
        (2 * STALE_SECONDS, 3 * STALE_SECONDS, True),  # of an earlier session
        (4 * STALE_SECONDS, 2 * STALE_SECONDS, False),  # it came up, and has been silent since
        (1.1 * START_UP_SECONDS, None, False),
    ],
)
def test_a_worker_elsewhere_gets_time_until_its_first_heartbeat(
    tmp_path: Path, submitted: float, heartbeat: float | None, waits: bool
) -> None:
    leave_note(tmp_path, seconds_ago=submitted)
    if heartbeat is not None:
        leave_heartbeat(tmp_path, host="elsewhere", seconds_ago=heartbeat)
    assert not is_claimed(tmp_path)
    note = read_note(tmp_path)
    assert note is not None
    assert is_starting_up(tmp_path, note) is waits


def test_a_run_that_was_started_by_hand_is_not_claimed(tmp_path: Path) -> None:
    train = started(flags(steps=100_000, save_every=100_000, out_dir=tmp_path))
    until(lambda: (tmp_path / "events.jsonl").exists(), alive=train.process.is_alive)
    assert is_claimed(tmp_path)
    assert Claim.take(tmp_path) is None
    train.signal(signal.SIGTERM)
    assert train.ended().code == 143
    taken(tmp_path).give_back()


def test_looking_does_not_refuse_a_run(tmp_path: Path) -> None:
    """`status` holds a shared lock for an instant; a run that begins in that very instant begins all the same."""
    (tmp_path / "run.lock").touch()
    descriptor = os.open(tmp_path / "run.lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    looker = threading.Timer(0.1, os.close, [descriptor])
    looker.start()
    with RunFolder(tmp_path).opened(tiny_config(), resume=False):
        assert is_claimed(tmp_path)
    looker.join()


DIES_BEFORE_IT_STARTS_ANYTHING = """
import os, signal, sys
from pathlib import Path
from oelm.experiments.ownership import Claim
Claim.take(Path(sys.argv[1])).begin()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_coordinator_killed_between_claim_and_start_leaves_the_run_free(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", DIES_BEFORE_IT_STARTS_ANYTHING, str(tmp_path)], check=False)
    assert died.returncode == -signal.SIGKILL
    note = read_note(tmp_path)
    assert note is not None
    assert note.job is None
    taken(tmp_path).give_back()


def test_a_disk_that_refuses_the_note_stops_a_start_but_not_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claim.json").mkdir()  # cannot be replaced by a file
    claim = taken(tmp_path)
    with pytest.raises(StorageError, match=r"claim\.json"):
        claim.begin()
    monkeypatch.setattr(ownership, "BEAT_SECONDS", -1.0)
    claim.beat()
    claim.end()
    assert not is_claimed(tmp_path)
