"""A coordinator that survives the terminal: the same command in a session of its own, printing into the study's folder.

It holds a lock on its log for as long as it lives.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from oelm.base.errors import CheckpointError
from oelm.base.files import make_folder
from oelm.base.locks import FileLock, is_locked

_POLL_SECONDS = 0.1


def detach(arguments: Sequence[str], out: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Start `oelm ARGUMENTS` and wait until it is at work or has ended; returns it, and what it prints into."""
    log, lock = _new_log(make_folder(out))
    with lock, log.open("ab") as printed:
        coordinator = subprocess.Popen(
            [sys.executable, "-m", "oelm", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            pass_fds=[lock.descriptor],
            start_new_session=True,
        )
    while coordinator.poll() is None and not _is_at_work(log):
        time.sleep(_POLL_SECONDS)
    return coordinator, log


def _is_at_work(log: Path) -> bool:
    """Whether it has said something else than why it ends."""
    said = log.read_text(encoding="utf-8", errors="replace")
    return bool(said) and "error:" not in said


def last_log(out: Path) -> Path:
    """Of the youngest detached coordinator, one that lives before one that has ended."""
    logs = sorted(out.glob("coordinator-*.log"), key=lambda path: int(path.stem.rpartition("-")[2]))
    if not logs:
        raise CheckpointError(f"no coordinator was detached in {out}", "start one: oelm experiment run FILE --detach")
    return next((log for log in reversed(logs) if is_locked(log)), logs[-1])


def _new_log(out: Path) -> tuple[Path, FileLock]:
    """The first name that is free, locked."""
    for number in count(1):
        log = out / f"coordinator-{number}.log"
        lock = None if log.exists() else FileLock.take(log)
        if lock is not None:
            return log, lock
    raise AssertionError("numbers do not end")
