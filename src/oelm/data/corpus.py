"""The inputs of a preparation together: opened, counted, and read as one stream in which each piece has its split."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from oelm.base.errors import DataError
from oelm.config.manifest import Source
from oelm.data.holdout import Holdout, NoHoldout, Routed, plan_holdout, route
from oelm.data.pieces import Piece
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Progress
from oelm.data.sources import Input, Size, measure, open_source, utf8_size


@dataclass
class _Budget:
    """How much more of the training text may be read; None: all of it."""

    text_bytes: int | None = None
    documents: int | None = None

    def capped(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The pieces that the budget allows, which they use up; nothing behind them is read."""
        if self == _Budget():
            yield from pieces
            return
        inside = False
        for piece in pieces if self._left else ():
            size = utf8_size(piece.text)
            if self.text_bytes is not None and size > self.text_bytes:
                kept = _fitting(piece.text, self.text_bytes)
                self.text_bytes = 0  # a document was cut: nothing may follow it
                if inside or kept.strip():
                    yield Piece(kept, ends=True)
                return
            yield piece
            inside = not piece.ends
            self.text_bytes = None if self.text_bytes is None else self.text_bytes - size
            self.documents = None if self.documents is None else self.documents - piece.ends
            if not inside and not self._left:
                return

    @property
    def _left(self) -> bool:
        return self.text_bytes != 0 and self.documents != 0


@dataclass(frozen=True)
class Corpus:
    """Opened inputs; without inputs for validation a part of the training inputs, up to the cap, is held out."""

    train: tuple[Input, ...]
    valid: tuple[Input, ...]
    max_bytes: int | None = None
    max_documents: int | None = None

    def train_pieces(self) -> Iterator[Iterator[Piece]]:
        """The pieces of every training input, up to the cap."""
        budget = _Budget(self.max_bytes, self.max_documents)
        return (budget.capped(each.pieces()) for each in self.train)


@dataclass(frozen=True)
class Scanned:
    """What one reading of a corpus shows."""

    sources: tuple[Source, ...]
    plan: Holdout

    @property
    def text_bytes(self) -> int:
        """All text, both splits."""
        return sum(source.bytes for source in self.sources)


def open_corpus(request: PrepareRequest) -> Corpus:
    """Find all inputs, or say which is missing; the digests of files are taken here."""
    validation, whole = request.validation, request.max_bytes is None and request.max_documents is None
    valid = open_source(validation, whole=whole) if validation else ()
    return Corpus(open_source(request.source, whole=whole), valid, request.max_bytes, request.max_documents)


def scan(corpus: Corpus, request: PrepareRequest, progress: Progress) -> Scanned:
    """Read everything once: count it, and decide what is held out."""
    progress.start("counting", None)
    train = _sources(corpus.train, corpus.train_pieces(), "train" if corpus.valid else "both", progress)
    valid = _sources(corpus.valid, (each.pieces() for each in corpus.valid), "valid", progress)
    if not sum(source.documents for source in train):
        raise DataError(f"there is no text in {_names(corpus.train)}", "give an input that holds text")
    if corpus.valid:
        if not sum(source.documents for source in valid):
            raise DataError(
                f"there is no validation text in {_names(corpus.valid)}",
                "give another, or leave it out to hold out a part of the training text",
            )
        return Scanned(train + valid, NoHoldout())
    size = Size(sum(source.documents for source in train), sum(source.bytes for source in train))
    plan = plan_holdout(size, share=request.holdout_share, most_bytes=request.holdout_bytes, seed=request.seed)
    return Scanned(train, plan)


def routed_pieces(corpus: Corpus, plan: Holdout) -> Iterator[Routed]:
    """All pieces with their splits, always in the same order."""
    yield from route(itertools.chain.from_iterable(corpus.train_pieces()), plan)
    for piece in itertools.chain.from_iterable(each.pieces() for each in corpus.valid):
        yield Routed("valid", piece)


def _fitting(text: str, most_bytes: int) -> str:
    """The beginning of a text in at most so many bytes, cut before white space where there is any."""
    fits = text.encode()[:most_bytes].decode(errors="ignore")
    end = next((at for at in range(len(fits), 0, -1) if text[at].isspace()), 0)
    return fits[:end] if end else fits


def _sources(
    inputs: tuple[Input, ...],
    pieces: Iterator[Iterator[Piece]],
    split: Literal["train", "valid", "both"],
    progress: Progress,
) -> tuple[Source, ...]:
    return tuple(_source(each, measure(own, progress.advance), split) for each, own in zip(inputs, pieces, strict=True))


def _source(each: Input, size: Size, split: Literal["train", "valid", "both"]) -> Source:
    return Source(
        name=each.name,
        split=split,
        bytes=size.text_bytes,
        documents=size.documents,
        sha256=each.sha256,
        revision=each.revision,
    )


def _names(inputs: tuple[Input, ...]) -> str:
    return ", ".join(each.name for each in inputs)
