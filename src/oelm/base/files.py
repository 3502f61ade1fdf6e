"""Files that are either whole or absent: write beside the target, flush to the disk, rename.

What is written never follows a link and never replaces what is not a regular file; what is read has a largest size.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from oelm.base.errors import StorageError, UnreadableError

# The prefix of everything half-written; `sweep_leftovers` removes what a crash left behind.
PARTIAL_PREFIX = ".partial-"


_MOST_TEXT_BYTES = 256 << 20
"""Records, plans, configs and tokenizers are far smaller; a larger one is a mistake, or meant to fill our memory."""


@contextlib.contextmanager
def refusing_storage(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write `path` into an error that names the fix."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":
            raise
        reason = getattr(error, "strerror", None) or str(error)  # of a full disk safetensors has its own error
        raise StorageError(
            f"cannot write {path}: {reason}",
            "free space there, or choose a writable folder; what was finished before is intact",
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one instant: a reader or a crash sees the old file or the new one."""
    _refuse_other(path, stat.S_ISREG, "a regular file")
    partial = _beside(path)
    with refusing_storage(path):
        try:
            with open_regular(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def open_regular(path: Path, mode: str) -> IO[bytes]:
    """Open a regular file for writing, new or not: no link is followed, no pipe is waited for (`ab`, `wb`, `r+b`)."""
    flags = {"ab": os.O_WRONLY | os.O_APPEND, "wb": os.O_WRONLY | os.O_TRUNC, "r+b": os.O_RDWR}[mode]
    with refusing_storage(path):
        _refuse_other(path, stat.S_ISREG, "a regular file")
        # The look above explains; these flags hold also where somebody puts a link there just now.
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        return os.fdopen(descriptor, mode)


def ready_to_write(path: Path) -> None:
    """See that a file can be written later: what would be refused then is refused before the work."""
    make_folder(path.parent)
    _refuse_other(path, stat.S_ISREG, "a regular file")


def _refuse_other(path: Path, expected: Callable[[int], bool], what: str) -> None:
    """Refuse a target that is there and is something else than what we would write."""
    try:
        found = path.lstat()
    except OSError:  # nothing there, or nothing that we could replace: writing will say why
        return
    if not expected(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else f"not {what}"
        raise StorageError(f"{path} is {kind}, and is not replaced", "remove it, or choose another path")


def _beside(path: Path) -> Path:
    """A name for what is not whole yet; a long one is cut, for a name has 255 bytes at most."""
    name = path.absolute().name.encode()[:200].decode(errors="ignore")
    return path.absolute().with_name(f"{PARTIAL_PREFIX}{name}-{secrets.token_hex(4)}")


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 `text` in one instant; halves of characters, which have no UTF-8, are spelt out."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by `value` as readable JSON in one instant."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_text(path: Path, *, most_bytes: int = _MOST_TEXT_BYTES) -> str:
    """The UTF-8 text of a file, whoever wrote it; one that is not there is `FileNotFoundError`, as always."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError(f"{path} is not a regular file", "give the path of a file")
    if found.st_size > most_bytes:
        raise UnreadableError(f"{path} has {found.st_size:,} bytes, at most {most_bytes:,} are read", "check the file")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", _AGAIN) from error


def read_json(path: Path) -> Any:
    """The value in a JSON file, whoever wrote it."""
    return parsed_json(read_text(path), str(path))


def parsed_json(text: str, where: str) -> Any:
    """The value of a JSON text, whoever wrote it; `where` stands in the error."""
    try:
        value = json.loads(text)
        if "\\u" in text and _HALF_A_CHARACTER.search(text):  # most texts have no escape, and that is seen at once
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise UnreadableError(f"{where} is nested too deeply to be read", _AGAIN) from error
    except UnicodeEncodeError as error:
        raise UnreadableError(f"{where} holds half a surrogate pair, which is no character", _AGAIN) from error
    except ValueError as error:  # no JSON, or a number of thousands of digits
        raise UnreadableError(f"{where} is not JSON: {error}", _AGAIN) from error
    return value


_HALF_A_CHARACTER = re.compile(r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")
"""Escapes are the only way in for what can be neither shown nor written. (Or an escaped backslash before a `u`.)"""


_AGAIN = "put it back from a copy, or have it made again"


@contextlib.contextmanager
def writing_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder that appears under its name only when it is complete and on the disk.

    An existing `target` is replaced; for an instant neither exists under that name, so a folder whose loss
    would matter gets a new name (checkpoints carry their step) and the old one is removed afterwards.
    """
    _refuse_other(target, stat.S_ISDIR, "a folder")
    partial = _beside(target)
    with refusing_storage(target):
        try:
            partial.mkdir(parents=True)
            yield partial
            _settle(partial)
            if target.exists():
                replaced = _beside(target)
                target.rename(replaced)
                partial.rename(target)
                shutil.rmtree(replaced)
            else:
                partial.rename(target)
        finally:
            if partial.exists():
                shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent)


def _settle(folder: Path) -> None:
    """Bring every file in a new folder to the disk, with the permissions that the folder has.

    The umask decided those; some libraries write through temporary files that only their owner may read.
    """
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def private_folder(path: Path, elsewhere: str) -> Path:
    """A folder in a place where everybody may make some: it is ours, nobody else may write there, or it is refused.

    `elsewhere` is the environment variable that names another one: somebody else's cannot be removed.
    """
    with refusing_storage(path):
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            path.chmod(0o700)
            return path
    raise StorageError(f"{path} is a link or belongs to somebody else", f"set {elsewhere} to a folder of yours")


def make_folder(path: Path) -> Path:
    """Create a folder and its parents, or say why it cannot be had."""
    with refusing_storage(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def sweep_leftovers(folder: Path) -> None:
    """Remove what a crash left half-written directly inside `folder`."""
    for path in folder.glob(f"{PARTIAL_PREFIX}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot sync a folder; the rename itself is still atomic
        pass
    finally:
        os.close(descriptor)
