"""How likely a text is: perplexity and bits per byte with a sliding window.

The window holds W tokens and predicts the W that follow them by one place. It begins at the first token; every further
one lies S (the stride) tokens behind it, and of its predictions only those count that no earlier window made. So each
token but the first is predicted once, from at least W - S + 1 tokens where there are so many:

    loss = -1/(N-1) sum_i log p(x_i | x_{s(i)}, ..., x_{i-1})     perplexity = exp(loss)     bits = N-1 losses / ln 2

S = W is what training validates with; S = 1 gives every token its whole context, at W times the cost. Which windows
are computed together changes nothing.
"""

# N tokens of the text  W window  B windows at a time  T tokens of the longest of them

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oelm.base.errors import ConfigError
from oelm.evaluate.language_model import LanguageModel, padded
from oelm.evaluate.pairing import Floats, Ids


class Window(NamedTuple):
    """It reads tokens start .. end-1 and is asked for tokens first .. end."""

    start: int
    first: int
    end: int


@dataclass(frozen=True)
class ScoredText:
    """The losses of all tokens but the first, and from how many tokens each was predicted."""

    targets: Ids
    losses: Floats
    seen: Ids

    @property
    def loss(self) -> float:
        """Nats per token."""
        return float(self.losses.mean())


def windows(tokens: int, window: int, stride: int) -> Iterator[Window]:
    """The windows over a text of so many tokens."""
    if stride > window:
        raise ConfigError(
            f"a stride of {stride} would leave out tokens between windows of {window}", f"use at most {window}"
        )
    start, first = 0, 1
    while first < tokens:
        end = min(start + window, tokens - 1)
        yield Window(start, first, end)
        start, first = start + stride, end + 1


def score_text(model: LanguageModel, tokens: Ids, *, window: int, stride: int, batch_size: int) -> ScoredText:
    """The loss of every token but the first."""
    losses, seen = np.empty(len(tokens) - 1), np.empty(len(tokens) - 1, np.int64)
    every = list(windows(len(tokens), window, stride))
    for place in range(0, len(every), batch_size):
        group = every[place : place + batch_size]
        read = padded([tokens[each.start : each.end].tolist() for each in group])
        asked = padded([tokens[each.start + 1 : each.end + 1].tolist() for each in group])
        losses_BT = model.token_losses(read, asked).numpy()
        for row, (start, first, end) in zip(losses_BT, group, strict=True):
            losses[first - 1 : end] = row[first - 1 - start : end - start]
            seen[first - 1 : end] = np.arange(first - start, end - start + 1)
    return ScoredText(tokens[1:], losses, seen)


class Range(NamedTuple):
    """Tokens with something in common."""

    name: str
    tokens: int
    loss: float


def by_position(text: ScoredText) -> list[Range]:
    """Loss by how many tokens were seen, in ranges that double: 1, 2-3, 4-7, ..."""
    return list(_ranges(text.losses, text.seen, factor=2))


def by_frequency(text: ScoredText) -> list[Range]:
    """Loss by how often the token occurs in this text, in ranges that grow fourfold: 1-3, 4-15, 16-63, ..."""
    _, place, counts = np.unique(text.targets, return_inverse=True, return_counts=True)
    return list(_ranges(text.losses, counts[place], factor=4))


def _ranges(losses: Floats, keys: Ids, factor: int) -> Iterator[Range]:
    low = 1
    while low <= keys.max():
        high = low * factor - 1
        inside = (keys >= low) & (keys <= high)
        if inside.any():
            name = str(low) if low == high else f"{low}-{high}"
            yield Range(name, int(inside.sum()), float(losses[inside].mean()))
        low *= factor
