"""Who works on a run, and how to ask them to stop. Several coordinators share one folder and never start a run twice.

    coordinator: locks claim.lock from before it submits the run until it has seen its end; heartbeat in claim.json
    worker:      locks run.lock while it trains; heartbeat in state.json

On one machine the locks decide: they die with their holders. Between machines whose file system does not share locks,
the heartbeats decide: one from elsewhere counts for a minute. A worker has none before it has read its data and model:
if its coordinator dies until then, it is given ten minutes.
"""

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from oelm.base.errors import OelmError
from oelm.base.files import make_folder, read_json, write_text
from oelm.base.locks import FileLock, is_locked
from oelm.config.record import RunState, StateFile
from oelm.config.settings import Settings, parse
from oelm.train.folder import RunFolder, stop_request

BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""A heartbeat older than this counts as dead; clocks of different machines must agree to well within this."""
START_UP_SECONDS = 600.0
"""How long a worker on another machine may take from its submission to its first heartbeat."""

_POLL_SECONDS = 0.2
_FOR_COORDINATORS_SECONDS = 5.0
_QUIET_SECONDS = 1.5
"""A coordinator between two runs has none, and looks for a request several times within this."""


class ClaimNote(Settings):
    """`claim.json`: the holder of a claim and, afterwards, when it let go."""

    host: str
    coordinator: int
    """Process id."""
    launcher: str | None = None
    job: str | None = None
    """What the launcher calls the run that it was given; None before it was submitted."""
    device: str | None = None
    beat_at: float
    ended_at: float | None = None
    failed: bool = False
    """The coordinator gave up: the run ended several times without a new checkpoint and without saying why."""


class Claim:
    """A run that is ours to submit."""

    def __init__(self, folder: Path, lock: FileLock) -> None:
        self._file = folder / "claim.json"
        self._lock = lock
        self.note = ClaimNote(host=socket.gethostname(), coordinator=os.getpid(), beat_at=time.time())

    @classmethod
    def take(cls, folder: Path) -> Self | None:
        """Claim the run, or None if another coordinator or a worker has it."""
        lock = FileLock.take(folder / "claim.lock")
        if lock is None:
            return None
        try:
            if not is_locked(RunFolder(folder).lock_file) and not _beats_elsewhere(folder):
                return cls(folder, lock)
        except BaseException:
            lock.release()
            raise
        lock.release()
        return None

    def begin(self) -> None:
        """Write down that it is ours, before anything is submitted."""
        self._write()

    def submitted(self, launcher: str, job: str, device: str) -> None:
        """Note who does the work."""
        with suppress(OelmError):  # the worker is running and will report the same disk error
            self._write(launcher=launcher, job=job, device=device)

    def beat(self) -> None:
        """Renew the note if it is time to."""
        if time.time() - self.note.beat_at > BEAT_SECONDS:
            with suppress(OelmError):  # a full disk here is no reason to stop runs that can still write
                self._write()

    def end(self, *, failed: bool = False) -> None:
        """Note that the job has ended, and let go."""
        try:
            with suppress(OelmError):
                self._write(ended_at=time.time(), failed=failed)
        finally:
            self._lock.release()

    def give_back(self) -> None:
        """Let go of a claim that nothing was done with; the last holder's note stays."""
        self._lock.release()

    def _write(self, **changes: Any) -> None:
        self.note = self.note.model_copy(update={"beat_at": time.time(), **changes})
        write_text(self._file, self.note.model_dump_json(indent=2) + "\n")


def read_note(folder: Path) -> ClaimNote | None:
    """The note of the present or the last holder."""
    with suppress(OSError, ValueError, OelmError):  # absent, or from another version
        return parse(ClaimNote, read_json(folder / "claim.json"), "claim")
    return None


def last_state(folder: Path) -> StateFile | None:
    """What the run itself last wrote of its state."""
    with suppress(OSError, ValueError, OelmError):  # from another version
        return RunFolder(folder).state()
    return None


def is_claimed(folder: Path) -> bool:
    """Whether somebody works on the run."""
    return is_locked(folder / "claim.lock") or is_locked(RunFolder(folder).lock_file) or _beats_elsewhere(folder)


def is_training(folder: Path) -> bool:
    """Whether a worker has begun, and lives."""
    return is_locked(RunFolder(folder).lock_file) or _worker_beats_elsewhere(folder)


def is_starting_up(folder: Path, note: ClaimNote) -> bool:
    """Whether a worker elsewhere may still come up, which nobody beats for: it was submitted before the note's beat.

    A state that is younger than the note is its own: it has come up, and its heartbeats or its end speak for it.
    """
    state = last_state(folder)
    if state is not None and state.heartbeat_at > note.beat_at:
        return False
    return time.time() - note.beat_at < START_UP_SECONDS


def left_behind(folder: Path) -> ClaimNote | None:
    """The note of a coordinator that is gone, about a job whose end nobody has seen."""
    note = read_note(folder)
    if note is None or note.job is None or note.ended_at is not None or is_claimed(folder):
        return None
    return note


def _beats_elsewhere(folder: Path) -> bool:
    here, since = socket.gethostname(), time.time() - STALE_SECONDS
    note = read_note(folder)
    if note is not None and note.host != here and note.ended_at is None and note.beat_at > since:
        return True
    return _worker_beats_elsewhere(folder)


def _worker_beats_elsewhere(folder: Path) -> bool:
    here, since = socket.gethostname(), time.time() - STALE_SECONDS
    state = last_state(folder)
    runs = state is not None and state.state is RunState.RUNNING and state.host not in (None, here)
    return runs and state is not None and state.heartbeat_at > since


def stop_run(folder: Path) -> bool:
    """Ask whoever has the run to let it save and end, and not to start it again; False if nobody has it."""
    if not is_claimed(folder):
        return False
    write_text(stop_request(folder), "asked to stop\n")
    return True


def stop_study(folders: Sequence[Path], out: Path, *, wait_seconds: float) -> list[Path]:
    """Ask all coordinators to stop, then workers that have none; returns the runs that are still under way.

    The request stays: a coordinator that waits for an idle GPU has no run, and sees it when it looks. `run` removes it.
    """
    write_text(stop_request(make_folder(out)), "asked to stop\n")
    still = _wait(folders, min(_FOR_COORDINATORS_SECONDS, wait_seconds))
    for folder in still:
        stop_run(folder)
    return _wait(still, wait_seconds) if still else []


def _wait(folders: Sequence[Path], seconds: float) -> list[Path]:
    """Wait until nobody has had any of the runs for a moment; the rest when time is up."""
    quiet_since, deadline = time.monotonic(), time.monotonic() + seconds
    while True:
        still, now = [folder for folder in folders if is_claimed(folder)], time.monotonic()
        if still:
            quiet_since = now
        if now >= deadline or now - quiet_since >= _QUIET_SECONDS:
            return still
        time.sleep(_POLL_SECONDS)
