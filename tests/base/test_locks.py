import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oelm.base.errors import StorageError
from oelm.base.locks import FileLock, is_locked
from train.processes import until

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from oelm.base.locks import FileLock
held = FileLock.take(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "300"], pass_fds=[held.descriptor] if sys.argv[2] == "inherited" else [])
print(child.pid, flush=True)
time.sleep(300)
"""


def taken(path: Path) -> FileLock:
    held = FileLock.take(path)
    assert held is not None
    return held


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    assert not is_locked(path)
    first = taken(path)
    assert FileLock.take(path) is None
    assert is_locked(path)
    first.release()
    assert not is_locked(path)
    taken(path).release()


def test_to_look_is_not_to_hold(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    taken(path).release()
    assert not is_locked(path)
    taken(path).release()


def test_a_pipe_or_a_link_in_its_place_is_no_lock_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    held = taken(tmp_path / "held")
    (tmp_path / "link").symlink_to(tmp_path / "held")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not any(is_locked(tmp_path / name) for name in ("pipe", "link", "loop"))
    held.release()


def test_to_let_go_twice_closes_nothing_else(tmp_path: Path) -> None:
    first = taken(tmp_path / "first")
    first.release()
    second = taken(tmp_path / "second")
    assert second.descriptor == first.descriptor, "the number is used again"
    first.release()
    assert is_locked(tmp_path / "second")
    second.release()


@pytest.mark.parametrize("how", ["inherited", "not inherited"])
def test_a_child_holds_what_its_killed_parent_took(tmp_path: Path, how: str) -> None:
    """And the twin: a child that did not inherit the file does not."""
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            parent.kill()
            parent.wait()
            assert is_locked(path) == (how == "inherited")
            mine = FileLock.take(path)
            assert (mine is None) == (how == "inherited")
            if mine is not None:
                mine.release()
        finally:
            os.kill(child, signal.SIGKILL)
        until(lambda: not is_locked(path))


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    (tmp_path / "lock").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))

    def refuse(_descriptor: int, _kind: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=r"no file locks.*local disk"):
        FileLock.take(tmp_path / "lock")
    with pytest.raises(StorageError, match=r"no file locks.*local disk"):
        is_locked(tmp_path / "lock")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
