"""A folder of token files, opened without reading them: two memory-mapped arrays and their manifest."""

import errno
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from oelm.base.errors import DataError, UnreadableError
from oelm.base.files import read_json
from oelm.config.manifest import DataManifest, Split
from oelm.config.settings import parse

MANIFEST_FILE = "manifest.json"
TOKENIZER_FILE = "tokenizer.json"
TRAIN_FILE = "train.bin"
VALID_FILE = "valid.bin"

_READ_BYTES = 1 << 20
_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


def token_dtype(vocabulary: int) -> Literal["uint16", "uint32"]:
    """The narrowest type that holds every token id; files are little endian on every platform."""
    return "uint16" if vocabulary <= 1 << 16 else "uint32"


def file_dtype(name: str) -> np.dtype[Any]:
    """The little-endian numpy type of a token file by its name in the manifest."""
    return _DTYPES[name]


def file_sha256(path: Path) -> str:
    """The digest of a file's bytes, read in chunks."""
    digest = hashlib.sha256()
    if not path.is_file():  # to read from a pipe would be to wait for it
        raise FileNotFoundError(errno.ENOENT, "there is no regular file", str(path))
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True)
class TokenFolder:
    """Prepared data: the manifest and the tokens of both splits."""

    folder: Path
    manifest: DataManifest
    train: npt.NDArray[np.unsignedinteger[Any]]
    valid: npt.NDArray[np.unsignedinteger[Any]]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a complete folder; sizes are checked, contents are not (see `verify`)."""
        manifest = read_manifest(folder)
        dtype = file_dtype(manifest.dtype)
        _existing(folder, TOKENIZER_FILE)
        return cls(folder, manifest, _map(folder, manifest.train, dtype), _map(folder, manifest.valid, dtype))

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer that made these tokens."""
        return self.folder / TOKENIZER_FILE

    def verify(self) -> None:
        """Read everything once and compare it with the digests in the manifest."""
        for name, expected in (
            (TOKENIZER_FILE, self.manifest.tokenizer.sha256),
            (self.manifest.train.file, self.manifest.train.sha256),
            (self.manifest.valid.file, self.manifest.valid.sha256),
        ):
            if file_sha256(self.folder / name) != expected:
                raise DataError(
                    f"{self.folder / name} is damaged: its digest is not the one in {MANIFEST_FILE}",
                    f"make it again: oelm prepare ... --out {self.folder} --overwrite",
                )


def read_manifest(folder: Path) -> DataManifest:
    """The manifest of a complete folder."""
    from oelm.data.hub import HUB_DATASETS, HubCorpus

    path = folder / MANIFEST_FILE
    prepare = f"oelm prepare ... --out {folder}"
    if str(folder) in list(HubCorpus) and not folder.is_dir():
        raise DataError(
            f"there is no data folder {folder}, here or in tokens/",
            f"make it: oelm prepare {folder} (for the original's commands with "
            f"{HUB_DATASETS[HubCorpus(str(folder))].of_original})",
        )
    if not folder.is_dir():
        raise DataError(f"there is no data folder {folder}", f"make it: {prepare}")
    if not path.is_file():
        raise DataError(f"{folder} has no {MANIFEST_FILE}: it is not complete, or not a data folder", f"run {prepare}")
    try:
        values = read_json(path)
    except UnreadableError as error:
        raise DataError(f"{path} is damaged: {error.problem}", f"make it again: {prepare} --overwrite") from error
    return parse(DataManifest, values, where=str(path))


def _map(folder: Path, split: Split, dtype: np.dtype[Any]) -> npt.NDArray[np.unsignedinteger[Any]]:
    path = _existing(folder, split.file)
    expected, found = split.tokens * dtype.itemsize, path.stat().st_size
    if found != expected:
        raise DataError(
            f"{path} has {found} bytes where {MANIFEST_FILE} promises {expected}",
            f"copy it again, or make it again: oelm prepare ... --out {folder} --overwrite",
        )
    if not split.tokens:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _existing(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise DataError(
            f"{path} is missing", f"copy the whole folder, or run oelm prepare ... --out {folder} --overwrite"
        )
    return path
