"""Locks on files: held by a process and by those that inherited it, and gone when the last of them is gone.

The lock belongs to the open file, not to the process. A worker that inherits the descriptor goes on holding what its
coordinator took, also after the coordinator was killed: nobody else starts its run or takes its place meanwhile.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from oelm.base.files import make_folder, refusing_storage


class HeldFile:
    """A locked file; its descriptor may be passed on to a child."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Lock `path`, or None if somebody holds it."""
        make_folder(path.parent)
        with refusing_storage(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
        return cls(path, descriptor)

    def let_go(self) -> None:
        """Close our descriptor: the lock is free unless a child still has it."""
        os.close(self.descriptor)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock. To look is to take a shared lock, for an instant."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
