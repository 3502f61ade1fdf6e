"""The inputs of a preparation together: opened, counted, and read as one stream in which each piece has its split."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from oelm.base.errors import DataError
from oelm.config.manifest import Source
from oelm.data.holdout import Holdout, NoHoldout, Routed, plan_holdout, route
from oelm.data.pieces import Piece
from oelm.data.progress import Progress
from oelm.data.request import PrepareRequest
from oelm.data.sources import Input, Size, measure, open_source


@dataclass(frozen=True)
class Corpus:
    """Opened inputs; without inputs for validation a part of the training inputs is held out."""

    train: tuple[Input, ...]
    valid: tuple[Input, ...]


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
    validation = request.validation
    return Corpus(open_source(request.source), open_source(validation) if validation else ())


def scan(corpus: Corpus, request: PrepareRequest, progress: Progress) -> Scanned:
    """Read everything once: count it, and decide what is held out."""
    progress.start("counting", None)
    train = _sources(corpus.train, "train" if corpus.valid else "both", progress)
    valid = _sources(corpus.valid, "valid", progress)
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
    yield from route(_pieces(corpus.train), plan)
    for piece in _pieces(corpus.valid):
        yield Routed("valid", piece)


def _pieces(inputs: tuple[Input, ...]) -> Iterator[Piece]:
    return itertools.chain.from_iterable(each.pieces() for each in inputs)


def _sources(
    inputs: tuple[Input, ...], split: Literal["train", "valid", "both"], progress: Progress
) -> tuple[Source, ...]:
    return tuple(_source(each, measure(each.pieces(), progress.advance), split) for each in inputs)


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
