"""The state of a preparation on disk: two growing token files, and a journal of how much of each is valid."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

import numpy as np

from oelm.base.errors import ConfigError, UnreadableError
from oelm.base.files import open_regular, read_json, refusing_storage, write_json
from oelm.config.manifest import Source
from oelm.config.settings import Settings, parse
from oelm.data.holdout import Routed, SplitName
from oelm.data.pieces import Piece
from oelm.data.sources import utf8_size
from oelm.data.tokenizer import Ids
from oelm.data.tokens import TRAIN_FILE, VALID_FILE, file_dtype

JOURNAL_FILE = "journal.json"
_FILES: dict[SplitName, str] = {"train": TRAIN_FILE, "valid": VALID_FILE}


class Written(Settings):
    """How much of one token file is valid."""

    tokens: int = 0
    documents: int = 0
    text_bytes: int = 0


class Journal(Settings):
    """`journal.json`: where to go on, and from what the tokens so far were made."""

    sources: tuple[Source, ...]
    tokenizer_sha256: str
    pieces: int = 0
    """Pieces of the stream that are done."""
    train: Written = Written()
    valid: Written = Written()

    @property
    def text_bytes(self) -> int:
        """Text that is done."""
        return self.train.text_bytes + self.valid.text_bytes


def read_journal(folder: Path) -> Journal | None:
    """The journal of an interrupted preparation, if there is one that can be read."""
    try:
        return parse(Journal, read_json(folder / JOURNAL_FILE), where=JOURNAL_FILE)
    except (FileNotFoundError, UnreadableError, ConfigError):
        return None


def holds_tokens(folder: Path, journal: Journal, *, dtype: str) -> bool:
    """Whether both token files are there with all that the journal speaks of: a gap would be filled with zeros."""
    size, written = file_dtype(dtype).itemsize, {"train": journal.train, "valid": journal.valid}
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size >= written[split].tokens * size
        for split, name in _FILES.items()
    )


class TokenWriter:
    """Appends chunks to both token files; after each one the journal is renewed, in this order."""

    def __init__(self, folder: Path, journal: Journal, *, dtype: str, end_of_text: int) -> None:
        self.journal = journal
        self._folder = folder
        self._dtype = file_dtype(dtype)
        self._end = np.array([end_of_text], self._dtype)
        self._files: dict[SplitName, IO[bytes]] = {}

    def __enter__(self) -> Self:
        for split, name in _FILES.items():
            path = self._folder / name
            file = self._files[split] = open_regular(path, "r+b")
            with refusing_storage(path):
                # Bytes beyond the journal's length were written by a process that died before it updated the journal.
                file.truncate(self._written(split).tokens * self._dtype.itemsize)
                file.seek(0, os.SEEK_END)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def append(self, chunk: Sequence[Routed], ids: Sequence[Ids]) -> None:
        """Add the tokens of a chunk, with end-of-text behind each document that ends."""
        pairs = list(zip(chunk, ids, strict=True))
        after = {
            split: self._append_to(split, [(routed.piece, tokens) for routed, tokens in pairs if routed.split == split])
            for split in _FILES
        }
        done = {"pieces": self.journal.pieces + len(chunk), "train": after["train"], "valid": after["valid"]}
        self.journal = self.journal.model_copy(update=done)
        write_json(self._folder / JOURNAL_FILE, self.journal.model_dump(mode="json"))

    def _append_to(self, split: SplitName, encoded: Sequence[tuple[Piece, Ids]]) -> Written:
        parts = [part for piece, tokens in encoded for part in ((tokens, self._end) if piece.ends else (tokens,))]
        joined = np.concatenate([np.empty(0, self._dtype), *parts]).astype(self._dtype)
        self._write(split, joined.tobytes())
        before = self._written(split)
        return Written(
            tokens=before.tokens + len(joined),
            documents=before.documents + sum(piece.ends for piece, _ in encoded),
            text_bytes=before.text_bytes + sum(utf8_size(piece.text) for piece, _ in encoded),
        )

    def _write(self, split: SplitName, content: bytes) -> None:
        with refusing_storage(self._folder / _FILES[split]):
            self._files[split].write(content)
            self._files[split].flush()
            os.fsync(self._files[split].fileno())

    def _written(self, split: SplitName) -> Written:
        return self.journal.train if split == "train" else self.journal.valid
