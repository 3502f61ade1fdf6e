"""Which text is held out for validation, when the corpus brings no validation text of its own.

With enough documents, whole documents are held out by a hash of their index. With few, the end of the text is,
cut at a line break. Both depend on nothing but the corpus, the share and the seed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from oelm.base.streams import stream_seed
from oelm.data.pieces import Piece
from oelm.data.sources import Size, utf8_size

FEWEST_DOCUMENTS = 20
"""From so many on, whole documents are held out."""

SplitName = Literal["train", "valid"]
_MASK = (1 << 64) - 1


class Routed(NamedTuple):
    """A piece and the split that it belongs to."""

    split: SplitName
    piece: Piece


@dataclass(frozen=True)
class NoHoldout:
    """The corpus has validation text of its own."""


@dataclass(frozen=True)
class HeldDocuments:
    """Documents whose hash is at most `threshold` are held out."""

    salt: int
    threshold: int


@dataclass(frozen=True)
class HeldTail:
    """The text from byte `start` on is held out; the cut moves to the next line break."""

    start: int


Holdout = NoHoldout | HeldDocuments | HeldTail


def plan_holdout(size: Size, *, share: float, most_bytes: int, seed: int) -> HeldDocuments | HeldTail:
    """Decide what is held out: a share of the corpus, at most so many bytes, at least something."""
    share = min(share, most_bytes / size.text_bytes)
    if size.documents < FEWEST_DOCUMENTS:
        return HeldTail(start=size.text_bytes - max(1, round(share * size.text_bytes)))
    salt = stream_seed(seed, "holdout")
    held = max(1, round(share * size.documents))
    hashes = _mixed(np.arange(size.documents, dtype=np.uint64), salt)
    return HeldDocuments(salt, int(np.partition(hashes, held - 1)[held - 1]))


def describe_holdout(plan: Holdout, valid: Size) -> str:
    """What was done, in words, for the manifest."""
    match plan:
        case NoHoldout():
            return "none: the validation text is a source of its own"
        case HeldDocuments():
            return f"{valid.documents} whole documents ({valid.text_bytes} bytes), chosen by a hash of their index"
        case HeldTail():
            return f"the last {valid.text_bytes} bytes of the text, cut at a line break where there is one"
        case _:
            assert_never(plan)


def route(pieces: Iterable[Piece], plan: Holdout) -> Iterator[Routed]:
    """Send each piece to its split; documents are numbered from 0 in the order of the stream."""
    match plan:
        case NoHoldout():
            return (Routed("train", piece) for piece in pieces)
        case HeldDocuments():
            return _route_documents(pieces, plan)
        case HeldTail():
            return _route_tail(pieces, plan)
        case _:
            assert_never(plan)


def _route_documents(pieces: Iterable[Piece], plan: HeldDocuments) -> Iterator[Routed]:
    document = 0
    for piece in pieces:
        yield Routed("valid" if hash_of(document, plan.salt) <= plan.threshold else "train", piece)
        document += piece.ends


def _route_tail(pieces: Iterable[Piece], plan: HeldTail) -> Iterator[Routed]:
    position, split = 0, "train"
    between_documents = True
    for piece in pieces:
        size = utf8_size(piece.text)
        if split == "valid" or position + size <= plan.start:
            yield Routed("valid" if split == "valid" else "train", piece)
        else:
            yield from _cut_piece(piece, plan.start - position, between_documents)
            split = "valid"
        between_documents = piece.ends
        position += size


def _cut_piece(piece: Piece, keep_bytes: int, between_documents: bool) -> Iterator[Routed]:
    """The piece in which the cut falls; the document that is cut ends there for the training split."""
    if keep_bytes == 0 and between_documents:
        yield Routed("valid", piece)
        return
    cut = _cut_near(piece.text, len(piece.text.encode()[:keep_bytes].decode(errors="ignore")))
    if cut or not between_documents:
        yield Routed("train", Piece(piece.text[:cut], ends=True))
    yield Routed("valid", Piece(piece.text[cut:], ends=piece.ends))


def _cut_near(text: str, wanted: int) -> int:
    """Behind the first line break from `wanted` on that has text behind it, else behind the last one before.

    Without line breaks white space will do, and without that any place.
    """
    for space in (re.compile(r"\n(?=\s*\S)"), re.compile(r"\s(?=\s*\S)")):
        if after := space.search(text, wanted):
            return after.end()
        before = [match.end() for match in space.finditer(text, 0, wanted)]
        if before and text[: before[-1]].strip():
            return before[-1]
    return wanted


def hash_of(index: int, salt: int) -> int:
    """A well mixed 64-bit hash of an index (the finaliser of SplitMix64)."""
    x = ((index + 1) * 0x9E3779B97F4A7C15 + salt) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _mixed(indices: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """`hash_of` for many indices at once; unsigned arithmetic wraps around as the mask does there."""
    x = (indices + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
