"""Locks on files: held by a process, and gone when it is gone, however it ended."""

import errno
import fcntl
import math
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from oelm.base.errors import StorageError
from oelm.base.files import make_folder, refusing_storage

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_POLL_SECONDS = 0.02


class FileLock:
    """A locked file or folder. The lock belongs to the open file: a child that inherits `descriptor` holds it too."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._open = True

    @classmethod
    def take(cls, path: Path, *, wait_seconds: float = 0.0) -> Self | None:
        """Lock `path`, which is created if it does not exist, or return None if somebody else holds it."""
        deadline = time.monotonic() + wait_seconds
        while True:
            descriptor = _opened(path)
            try:
                locked = _lock(descriptor, fcntl.LOCK_EX, path)
            except BaseException:
                os.close(descriptor)
                raise
            if locked:
                return cls(descriptor)
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)

    @classmethod
    def wait_for(cls, path: Path) -> Self:
        """Lock `path`, however long somebody else holds it."""
        lock = cls.take(path, wait_seconds=math.inf)
        assert lock is not None
        return lock

    def release(self) -> None:
        """Close our descriptor: the lock is free unless a child still has it."""
        if self._open:  # once only: by now the number may belong to another file
            self._open = False
            os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock. Looking takes a shared lock for an instant; a link is no lock of ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    if path.is_dir():
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    make_folder(path.parent)
    with refusing_storage(path):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def _lock(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StorageError(
            f"the file system of {path} has no file locks, so two processes could write the same files",
            "choose a folder on a local disk, or mount the network one with locks",
        ) from error
    return True
