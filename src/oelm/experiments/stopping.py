"""Stopping a study, or one run of it, from another terminal or another machine."""

import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oelm.base.files import make_folder, write_text
from oelm.experiments.claims import is_claimed, read_note
from oelm.experiments.coordinate import POLL_SECONDS, stop_file
from oelm.experiments.locks import has_open
from oelm.experiments.matrix import StudyRun
from oelm.experiments.standing import last_state

_POLL_SECONDS = 0.2
_FOR_COORDINATORS_SECONDS = 5.0
_QUIET_SECONDS = 3 * POLL_SECONDS
"""A coordinator between two runs has none, and looks for a request as often as this."""


def stop_study(runs: Sequence[StudyRun], out: Path, *, wait_seconds: float) -> list[StudyRun]:
    """Ask all coordinators to stop, then workers that have none; returns the runs that are still under way.

    The request stays: a coordinator that waits for an idle GPU has no run, and sees it when it looks. `run` removes it.
    """
    write_text(stop_file(make_folder(out)), "asked to stop\n")
    still = _wait(runs, min(_FOR_COORDINATORS_SECONDS, wait_seconds))
    for run in still:
        _signal_worker(run)
    return _wait(still, wait_seconds) if still else []


def ask_to_save(run: StudyRun) -> bool:
    """Ask whoever has the run to let it save and end, and not to start it again; False if nobody has it."""
    if not is_claimed(run.folder):
        return False
    write_text(stop_file(run.folder), "asked to stop\n")
    _signal_worker(run)  # its coordinator may be gone
    return True


def _signal_worker(run: StudyRun) -> None:
    """SIGTERM to the run's process if it is on this machine, known by the lock that it holds, not by number alone."""
    note, state = read_note(run.folder), last_state(run.folder)
    worker = note.worker if note is not None and note.host == socket.gethostname() else None
    holders = [(worker, "claim.lock"), (state.pid if state else None, "run.lock")]  # the second: started by hand
    for process, lock in holders:
        if process is not None and has_open(process, run.folder / lock):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
            return


def _wait(runs: Sequence[StudyRun], seconds: float) -> list[StudyRun]:
    """Wait until nobody has had any of the runs for a moment; the rest when time is up."""
    quiet_since, deadline = time.monotonic(), time.monotonic() + seconds
    while True:
        still, now = [run for run in runs if is_claimed(run.folder)], time.monotonic()
        if still:
            quiet_since = now
        if now >= deadline or now - quiet_since >= _QUIET_SECONDS:
            return still
        time.sleep(_POLL_SECONDS)
