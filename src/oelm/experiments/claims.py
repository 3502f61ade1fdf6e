"""Claims: who is working on a run. Several coordinators share one folder and never start one run twice.

A claim is a locked file in the run's folder with a note of its holder. On one machine the lock decides: it dies with
coordinator and worker. Between machines whose file system does not share locks, the heartbeat decides: a note from
another machine counts for as long as it, or the run's own state, was renewed within the last minute.
"""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from oelm.base.errors import OelmError
from oelm.base.files import read_json, write_text
from oelm.config.settings import Settings, parse
from oelm.experiments.locks import HeldFile, is_held
from oelm.train.folder import RunFolder

BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""A heartbeat older than this is of a coordinator that died; machines' clocks must agree better than that."""


class ClaimNote(Settings):
    """`claim.json`: the holder of a claim and, afterwards, how its work ended."""

    host: str
    coordinator: int
    """Process id."""
    worker: int | None = None
    device: str | None = None
    beat_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    """Of a worker that ended by itself; none of one that its coordinator stopped, which anybody may go on with."""


class Claim:
    """A run that is ours to start."""

    def __init__(self, folder: Path, held: HeldFile) -> None:
        self._file = folder / "claim.json"
        self.held = held
        self.previous = read_note(folder)
        """What the last holder left."""
        self.note = ClaimNote(host=socket.gethostname(), coordinator=os.getpid(), beat_at=time.time())

    @classmethod
    def take(cls, folder: Path) -> Self | None:
        """Claim the run, or None if another coordinator, or a worker that outlived its own, has it."""
        held = HeldFile.take(folder / "claim.lock")
        if held is None:
            return None
        try:
            if not is_held(folder / "run.lock") and not _held_from_afar(folder):  # the first: started by hand
                return cls(folder, held)
        except BaseException:
            held.let_go()
            raise
        held.let_go()
        return None

    def begin(self) -> None:
        """Write down that it is ours, for other machines and for people, before anything is started."""
        self._renew()

    def started(self, worker: int | None, device: str) -> None:
        """Note who does the work."""
        with suppress(OelmError):  # the worker is there, and will meet the same disk
            self._renew(worker=worker, device=device)

    def beat(self) -> None:
        """Renew the note if it is time to."""
        if time.time() - self.note.beat_at > BEAT_SECONDS:
            with suppress(OelmError):  # a full disk is no reason to stop runs that have their space
                self._renew()

    def end(self, exit_code: int | None) -> None:
        """Note how the worker ended and let go."""
        try:
            with suppress(OelmError):
                self._renew(exit_code=exit_code, ended_at=time.time())
        finally:
            self.held.let_go()

    def give_back(self) -> None:
        """Let go of a claim that nothing was done with; the last holder's note stays."""
        self.held.let_go()

    def _renew(self, **changes: int | float | str | None) -> None:
        self.note = self.note.model_copy(update={"beat_at": time.time(), **changes})
        write_text(self._file, self.note.model_dump_json(indent=2) + "\n")


def read_note(folder: Path) -> ClaimNote | None:
    """The note of the present or the last holder."""
    with suppress(OSError, ValueError, OelmError):  # absent, or from another version
        return parse(ClaimNote, read_json(folder / "claim.json"), "claim")
    return None


def is_claimed(folder: Path) -> bool:
    """Whether somebody works on the run."""
    return is_held(folder / "claim.lock") or is_held(folder / "run.lock") or _held_from_afar(folder)


def _held_from_afar(folder: Path) -> bool:
    note = read_note(folder)
    if note is None or note.host == socket.gethostname() or note.ended_at is not None or note.exit_code is not None:
        return False
    with suppress(OSError, ValueError, OelmError):
        state = RunFolder(folder).state()
        if state is not None and time.time() - state.heartbeat_at < STALE_SECONDS:
            return True
    return time.time() - note.beat_at < STALE_SECONDS
