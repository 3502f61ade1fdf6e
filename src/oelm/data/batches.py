"""Batches as a pure function: sample g of a seed is the same tokens on any machine, rank or resumed run.

The tokens of a split are one long ring. In each epoch it is cut into windows of T tokens from a random
phase on, and the windows are dealt in a random order without replacement: each epoch predicts every token
once, apart from the fewer than T that are left over when T does not divide the length.

Windows cross document boundaries: a window may begin in the middle of one document and go on, after
end-of-text, with the next; nothing is masked there. One window per epoch joins the end of the data to its
beginning, which is such a boundary too.
"""

# B batch  T context  n tokens of the split
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oelm.base.errors import DataError
from oelm.base.streams import stream_seed
from oelm.data.text_blocks import block_ends
from oelm.data.tokens import TokenFolder

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Indices = npt.NDArray[np.int64]

_PIECE = 1 << 20


class TokenBatches:
    """Training sequences: global sample index g = step * sequences_per_step + i  ->  T + 1 tokens."""

    def __init__(self, tokens: Tokens, *, context: int, seed: int) -> None:
        _require_one_window(tokens, context, split="training")
        self.tokens = tokens
        self.context = context
        self.seed = seed
        self._epoch = -1
        self._starts = np.empty(0, np.int64)

    @property
    def windows_per_epoch(self) -> int:
        """How many samples deal out the whole split once."""
        return len(self.tokens) // self.context

    def sequences(self, indices: npt.ArrayLike) -> Indices:
        """The samples with these global indices, int64 (B, T+1): inputs [:, :-1], targets [:, 1:]."""
        epochs, places = np.divmod(np.asarray(indices, np.int64), self.windows_per_epoch)
        starts = np.empty_like(places)
        for epoch in np.unique(epochs):
            inside = epochs == epoch
            starts[inside] = self._window_starts(int(epoch))[places[inside]]
        return _gather(self.tokens, starts, self.context)

    def _window_starts(self, epoch: int) -> Indices:
        # Only the newest epoch is kept: a batch that straddles two draws the earlier one again at most once.
        if epoch != self._epoch:
            random = np.random.Generator(np.random.PCG64(stream_seed(self.seed, "batches", epoch)))
            phase = random.integers(self.context)
            self._starts = phase + self.context * random.permutation(self.windows_per_epoch)
            self._epoch = epoch
        return self._starts


def half_of(tokens: Tokens, half: Literal["first", "second"], end_of_text: int) -> Tokens:
    """One of two disjoint halves of the documents of a split, cut behind the first that ends in its second half.

    A split whose second half ends no document but the last is cut in the middle.
    """
    middle = len(tokens) // 2
    cut = next(_ends_of_documents(tokens, max(middle - 1, 0), end_of_text), len(tokens))
    cut = cut if cut < len(tokens) else middle
    return tokens[:cut] if half == "first" else tokens[cut:]


def validated_tokens(data: TokenFolder, half: Literal["first", "second"] | None) -> Tokens:
    """The tokens to validate on. Bits per byte of a half use the bytes per token of the whole split."""
    return data.valid if half is None else half_of(data.valid, half, data.manifest.tokenizer.end_of_text)


def _ends_of_documents(tokens: Tokens, start: int, end_of_text: int) -> Iterator[int]:
    """Where documents end from `start` on (behind their end-of-text), read piece by piece."""
    for first in range(start, len(tokens), _PIECE):
        yield from (first + 1 + np.flatnonzero(tokens[first : first + _PIECE] == end_of_text)).tolist()


class ValidationWindows:
    """The fixed validation set: the first windows of the split, one behind the other, at most `limit`."""

    def __init__(self, tokens: Tokens, *, context: int, limit: int, end_of_text: int | None = None) -> None:
        """With the id that ends a document, the targets also have blocks."""
        _require_one_window(tokens, context, split="validation")
        self.tokens = tokens
        self.context = context
        self._count = min(limit, (len(tokens) - 1) // context)
        targets = tokens[1 : self._count * context + 1]
        self._block_ends = np.empty(0, np.int64) if end_of_text is None else block_ends(targets, end_of_text)

    def __len__(self) -> int:
        return self._count

    def sequences(self, indices: npt.ArrayLike) -> Indices:
        """The windows with these indices below len(self), int64 (B, T+1)."""
        places = np.asarray(indices, np.int64)
        if places.size and not 0 <= places.min() <= places.max() < len(self):
            raise IndexError(f"validation windows are 0 to {len(self) - 1}, asked for {places.min()} to {places.max()}")
        return _gather(self.tokens, places * self.context, self.context)

    @property
    def block_tokens(self) -> Indices:
        """How many targets each block of the text has; empty for a text of too few documents."""
        return np.diff(self._block_ends, prepend=0)

    def blocks(self, indices: npt.ArrayLike) -> Indices | None:
        """The block of every target of these windows (B, T); None for a text of too few documents."""
        places_BT = np.asarray(indices, np.int64)[:, None] * self.context + np.arange(self.context)
        return np.searchsorted(self._block_ends, places_BT, side="right") if len(self._block_ends) else None


def _gather(tokens: Tokens, starts: Indices, context: int) -> Indices:
    positions_BT1 = starts[:, None] + np.arange(context + 1)
    tokens_BT1: Indices = tokens[positions_BT1 % len(tokens)].astype(np.int64)
    return tokens_BT1


def _require_one_window(tokens: Tokens, context: int, *, split: str) -> None:
    if len(tokens) <= context:
        raise DataError(
            f"the {split} data has {len(tokens)} tokens, too few for sequences of {context} + 1",
            f"shorten the sequences to --seq-len {max(len(tokens) - 1, 1)} or less, or prepare more text",
        )
