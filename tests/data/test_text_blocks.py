"""Blocks of a text: whole documents, about equal, the same for every reader."""

import numpy as np
import pytest

from oelm.data.batches import ValidationWindows, half_of
from oelm.data.text_blocks import FEWEST_BLOCKS, MOST_BLOCKS, block_ends

END = 0


def text_of(lengths: list[int]) -> np.ndarray:
    """Documents of so many tokens, their end-of-text included."""
    return np.concatenate([[*([1] * (length - 1)), END] for length in lengths]).astype("<u2")


def drawn_lengths(documents: int) -> list[int]:
    return np.random.default_rng(documents).integers(2, 40, documents).tolist()


@pytest.mark.parametrize("documents", [20, 63, 64, 65, 200, 5000])
def test_blocks_are_whole_documents_of_about_equal_length(documents: int) -> None:
    lengths = drawn_lengths(documents)
    ends = block_ends(text_of(lengths), END)
    assert set(ends.tolist()) <= set(np.cumsum(lengths).tolist())
    assert FEWEST_BLOCKS <= len(ends) <= min(MOST_BLOCKS, documents)
    assert (np.diff(ends, prepend=0) > 0).all()
    assert ends[-1] == sum(lengths)
    wanted = sum(lengths) / min(MOST_BLOCKS, documents)
    assert np.abs(np.diff(ends, prepend=0) - wanted).max() <= 2 * 40


def test_a_block_is_cut_at_the_nearest_end_of_a_document() -> None:
    lengths = [10] * 30 + [64 * 10] + [10] * 33  # one document is as long as all the others together
    ends = block_ends(text_of(lengths), END).tolist()
    assert ends[-3:] == [300 + 640 + 290, 300 + 640 + 310, 300 + 640 + 330]
    assert [end for end in ends if 300 < end < 940] == []


@pytest.mark.parametrize(
    "tokens",
    [text_of([100]), text_of([20] * (FEWEST_BLOCKS - 1)), np.ones(500, "<u2"), text_of([1000] + [2] * 30)],
    ids=["one document", "few documents", "no separator", "one document and little else"],
)
def test_a_text_of_too_few_documents_has_no_blocks(tokens: np.ndarray) -> None:
    windows = ValidationWindows(tokens, context=5, limit=1000, end_of_text=END)
    assert len(windows.block_tokens) == 0
    assert windows.blocks([0, 1]) is None


@pytest.mark.parametrize("limit", [30, 50, 1000])
def test_every_target_of_the_windows_is_in_the_block_of_its_document(limit: int) -> None:
    """Windows cut documents: what of them is scored counts to them, and nothing else does."""
    tokens, context = text_of(drawn_lengths(40)), 13
    windows = ValidationWindows(tokens, context=context, limit=limit, end_of_text=END)
    every = range(len(windows))
    blocks, targets = windows.blocks(every), windows.sequences(every)[:, 1:]
    assert blocks is not None
    assert blocks.shape == targets.shape
    assert np.bincount(blocks.ravel()).tolist() == windows.block_tokens.tolist()
    assert windows.block_tokens.sum() == len(windows) * context
    changes = np.flatnonzero(np.diff(blocks.ravel()))
    assert set(targets.ravel()[changes]) == {END}, "a block changes only behind an end of text"
    assert (windows.blocks([3, 1]) == blocks[[3, 1]]).all()


def test_blocks_are_of_the_half_that_is_validated_on() -> None:
    tokens = text_of(drawn_lengths(100))
    halves = [
        ValidationWindows(half_of(tokens, half, END), context=7, limit=10_000, end_of_text=END).block_tokens
        for half in ("first", "second")
    ]
    whole = ValidationWindows(tokens, context=7, limit=10_000, end_of_text=END).block_tokens
    assert [len(each) >= FEWEST_BLOCKS for each in (*halves, whole)] == [True] * 3
    assert abs(sum(each.sum() for each in halves) - whole.sum()) < 2 * 7
    assert halves[0].tolist() != halves[1].tolist()
