"""Token files against the digests of their manifest, before anything is trained on them.

SHA-256 reads about 0.7 GB/s on one core of a small machine, twice that or more on others: 0.1 s for TinyStories' 16 MB
at its slowest, half a minute for 18 GB of OpenWebText. So a file that was found whole is remembered beside the data, by
its size, its times of change and its inode, and is read again only when one of them differs. The tokenizer is small
and is read every time.
"""

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oelm.base.errors import DataError, StorageError
from oelm.base.files import read_json, write_json
from oelm.data.tokens import MANIFEST_FILE, TOKENIZER_FILE, TokenFolder, file_sha256

Tokens = npt.NDArray[np.unsignedinteger[Any]]
_PIECE = 1 << 22
VERIFIED_FILE = ".verified.json"
_SETTLED_NANOSECONDS = 2_000_000_000
"""A file that changed so shortly before it was read could change again without a later time: it is not remembered."""


def require_whole(data: TokenFolder) -> None:
    """Refuse token files and a tokenizer that are not those of the manifest."""
    manifest = data.manifest
    _require(data.folder, TOKENIZER_FILE, manifest.tokenizer.sha256)
    known = _remembered(data.folder)
    now = dict(known)
    for split, tokens in ((manifest.train, data.train), (manifest.valid, data.valid)):
        seen = {**_seen(data.folder / split.file, split.sha256), "vocabulary": manifest.tokenizer.vocabulary}
        if known.get(split.file) != seen:
            _require(data.folder, split.file, split.sha256)
            _require_known(data.folder / split.file, tokens, manifest.tokenizer.vocabulary)
            now[split.file] = seen
            if time.time_ns() - seen["changed_ns"] < _SETTLED_NANOSECONDS:
                del now[split.file]
    if now != known:
        with contextlib.suppress(StorageError):  # a folder that cannot be written is read again each time
            write_json(data.folder / VERIFIED_FILE, now)


def _require(folder: Path, name: str, expected: str) -> None:
    if file_sha256(folder / name) != expected:
        raise DataError(
            f"{folder / name} is damaged: its digest is not the one in {MANIFEST_FILE}",
            f"copy it again, or make it again: oelm prepare ... --out {folder} --overwrite",
        )


def _require_known(path: Path, tokens: Tokens, vocabulary: int) -> None:
    """Refuse ids that the model would have no embedding for; read in pieces, as the digest was just before."""
    largest = max((int(tokens[at : at + _PIECE].max()) for at in range(0, len(tokens), _PIECE)), default=0)
    if largest >= vocabulary:
        raise DataError(
            f"{path} holds the token {largest}, and its tokenizer has only {vocabulary:,}",
            "make it again: oelm prepare ... --overwrite",
        )


def _seen(path: Path, digest: str) -> dict[str, Any]:
    """What cannot stay as it is when the content changes; nobody can set the time of the last change of status."""
    found = path.stat()
    return {
        "size": found.st_size,
        "modified_ns": found.st_mtime_ns,
        "changed_ns": found.st_ctime_ns,
        "inode": found.st_ino,
        "sha256": digest,
    }


def _remembered(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        values = read_json(folder / VERIFIED_FILE)
        if isinstance(values, dict):
            return values
    return {}
