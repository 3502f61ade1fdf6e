"""Locks on files: held by a process and by those that inherited it, and gone when the last of them is gone.

The lock belongs to the open file, not to the process. A worker that inherits the descriptor goes on holding what its
coordinator took, also after the coordinator was killed: nobody else starts its run or takes its place meanwhile.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from oelm.base.errors import StorageError
from oelm.base.files import make_folder, refusing_storage

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


class HeldFile:
    """A locked file; its descriptor may be passed on to a child."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._open = True

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Lock `path`, or None if somebody holds it."""
        make_folder(path.parent)
        with refusing_storage(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            locked = _lock(descriptor, fcntl.LOCK_EX, path)
        except BaseException:
            os.close(descriptor)
            raise
        if not locked:
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def let_go(self) -> None:
        """Close our descriptor: the lock is free unless a child still has it."""
        if self._open:  # once only: the number may be another file's by now
            self._open = False
            os.close(self.descriptor)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock. To look is to take a shared lock, for an instant."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)


def has_open(process: int, path: Path) -> bool:
    """Whether a process of this machine has the file open: a number alone may have been given to another process."""
    descriptors = Path(f"/proc/{process}/fd")
    if not Path("/proc/self/fd").is_dir():  # not Linux: take the number's word for it
        return True
    with suppress(OSError):  # gone, or another person's
        for descriptor in descriptors.iterdir():
            with suppress(OSError):
                if descriptor.samefile(path):
                    return True
    return False


def _lock(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StorageError(
            f"the file system of {path} has no file locks, so two coordinators could start one run",
            "choose a folder on a local disk, or mount the network one with locks",
        ) from error
    return True
