"""Where text comes from: the built-in stories, local files, or a corpus of the Hub. All become one stream of pieces."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, assert_never

from pydantic import Field, model_validator

from oelm.config.settings import Settings
from oelm.data.hub import HubCorpus, HubSplit, SplitRows, fetch
from oelm.data.pieces import Piece, sized
from oelm.data.stories import GENERATOR_VERSION, stories
from oelm.data.textfiles import file_pieces
from oelm.data.tokenizer import END_OF_TEXT
from oelm.data.tokens import file_sha256


class Stories(Settings):
    """The built-in corpus: so many stories, or whole stories until so many bytes are reached."""

    kind: Literal["stories"] = "stories"
    seed: Annotated[int, Field(ge=0)] = 0
    count: Annotated[int, Field(ge=1)] | None = None
    text_bytes: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.count is None) == (self.text_bytes is None):
            raise ValueError("give the size of the corpus either as a number of stories or in bytes")
        return self


class Files(Settings):
    """Local files: text with separator lines, JSON lines or parquet; plain or .gz, .xz, .zst."""

    kind: Literal["files"] = "files"
    paths: Annotated[tuple[str, ...], Field(min_length=1)]
    separator: Annotated[str, Field(min_length=1)] = END_OF_TEXT
    """The line between two documents of a text file."""
    text_field: str = "text"
    """The field of a JSON line, or the column of a parquet file, that holds the text."""

    @model_validator(mode="after")
    def _separator_is_a_line(self) -> Self:
        if "\n" in self.separator or "\r" in self.separator:
            raise ValueError("the separator is one line and cannot hold a line break")
        return self


class Hub(Settings):
    """A corpus of the Hub, at its pinned commit unless a revision is given."""

    kind: Literal["hub"] = "hub"
    corpus: HubCorpus
    revision: str | None = None
    split: HubSplit = "train"


TextSource = Annotated[Stories | Files | Hub, Field(discriminator="kind")]


class Size(NamedTuple):
    """How much text there is."""

    documents: int
    text_bytes: int


@dataclass(frozen=True)
class Input:
    """One file, one split of a Hub corpus, or the stories; `pieces` gives the same stream each time it is called."""

    name: str
    pieces: Callable[[], Iterator[Piece]]
    sha256: str | None = None
    revision: str | None = None


def open_source(source: Stories | Files | Hub, *, whole: bool = True) -> tuple[Input, ...]:
    """The inputs of a source, each with its identity: the digest of a file, the commit of a Hub corpus.

    Unless the `whole` is wanted, a Hub corpus is fetched only as far as it is read.
    """
    match source:
        case Stories():
            return (_open_stories(source),)
        case Files():
            return tuple(_open_file(Path(path), source) for path in source.paths)
        case Hub():
            return (_open_hub(source, whole=whole),)
        case _:
            assert_never(source)


def measure(pieces: Iterator[Piece], advance: Callable[[int], None]) -> Size:
    """Count documents and UTF-8 bytes by reading everything once; `advance` is told of the bytes."""
    documents = text_bytes = 0
    for piece in pieces:
        size = utf8_size(piece.text)
        documents += piece.ends
        text_bytes += size
        advance(size)
    return Size(documents, text_bytes)


def utf8_size(text: str) -> int:
    """How many bytes the text has as UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _open_stories(source: Stories) -> Input:
    name = f"stories, seed {source.seed}"
    return Input(name, lambda: sized(_told(source)), revision=f"generator {GENERATOR_VERSION}")


def _told(source: Stories) -> Iterator[Piece]:
    text_bytes = 0
    for told, text in enumerate(stories(source.seed)):
        if told == source.count or (source.text_bytes is not None and text_bytes >= source.text_bytes):
            return
        yield Piece(text, ends=True)
        text_bytes += len(text)  # the stories are ASCII


def _open_file(path: Path, source: Files) -> Input:
    def pieces() -> Iterator[Piece]:
        return sized(file_pieces(path, separator=source.separator, text_field=source.text_field))

    pieces()  # a missing file is noticed here, before anything is read
    return Input(path.name, pieces, sha256=file_sha256(path))


def _open_hub(source: Hub, *, whole: bool) -> Input:
    split = fetch(source.corpus, source.split, source.revision, whole=whole)
    documents = _articles if split.dataset.rows_are_lines else _rows
    name = f"{split.dataset.repository}, {source.split}"
    return Input(name, lambda: sized(documents(split)), revision=split.commit)


def _rows(split: SplitRows) -> Iterator[Piece]:
    return (Piece(text, ends=True) for text in split.rows())


_TOP_HEADING = re.compile(r" = [^=].* = \n?")


def _articles(split: SplitRows) -> Iterator[Piece]:
    """WikiText's rows are lines; an article begins at a top-level heading, ` = Title = `, behind an empty line."""
    previous: str | None = None
    for line in split.rows():
        if previous is not None:
            yield Piece(previous, ends=not previous.strip() and _TOP_HEADING.fullmatch(line) is not None)
        previous = line
    if previous is not None:
        yield Piece(previous, ends=True)
