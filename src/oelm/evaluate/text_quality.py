"""What can be said of generated text without a judge: variety and repetition, counted in tokens."""

from collections.abc import Iterator, Sequence

REPEATED = 4
"""Tokens of a phrase that counts as repeated if it was in the same text before."""


def distinct(texts: Sequence[Sequence[int]], n: int) -> float:
    """Different n-grams of all texts together, as a share of all n-grams: 1 if none comes twice, 0 without any."""
    grams = [gram for text in texts for gram in _grams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repetition(text: Sequence[int], n: int = REPEATED) -> float:
    """The share of a text's n-grams that it had before: 0 if all are new, near 1 in a loop."""
    grams = list(_grams(text, n))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def _grams(text: Sequence[int], n: int) -> Iterator[tuple[int, ...]]:
    return (tuple(text[place : place + n]) for place in range(len(text) - n + 1))
