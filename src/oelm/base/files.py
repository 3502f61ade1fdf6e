"""Files that are either whole or absent: write beside the target, flush to the disk, rename."""

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oelm.base.errors import StorageError

# The prefix of everything half-written; `sweep_leftovers` removes what a crash left behind.
PARTIAL_PREFIX = ".partial-"


@contextlib.contextmanager
def refusing_storage(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write `path` into an error that names the fix."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"cannot write {path}: {reason}",
            "free space there, or choose a writable folder; what was finished before is intact",
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one instant: a reader or a crash sees the old file or the new one."""
    partial = path.with_name(f"{PARTIAL_PREFIX}{path.name}-{secrets.token_hex(4)}")
    with refusing_storage(path):
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 `text` in one instant."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by `value` as readable JSON in one instant."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextlib.contextmanager
def writing_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder that appears under its name only when it is complete and on the disk.

    An existing `target` is replaced; for an instant neither exists under that name, so a folder whose loss
    would matter gets a new name (checkpoints carry their step) and the old one is removed afterwards.
    """
    partial = target.with_name(f"{PARTIAL_PREFIX}{target.name}-{secrets.token_hex(4)}")
    with refusing_storage(target):
        try:
            partial.mkdir(parents=True)
            yield partial
            for path in partial.rglob("*"):
                if path.is_file():
                    with path.open("rb") as file:
                        os.fsync(file.fileno())
            sync_folder(partial)
            if target.exists():
                replaced = target.with_name(f"{PARTIAL_PREFIX}old-{target.name}-{secrets.token_hex(4)}")
                target.rename(replaced)
                partial.rename(target)
                shutil.rmtree(replaced)
            else:
                partial.rename(target)
        finally:
            if partial.exists():
                shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent)


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
