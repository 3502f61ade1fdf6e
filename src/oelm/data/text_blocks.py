"""Blocks of a validation text: whole documents in a row, of about equal length.

Another text of the same kind would have other documents, so documents are what such a text would vary in: tokens of one
document are alike. Blocks of them keep records small. They depend on the tokens alone, so that every model that reads a
text reads the same blocks.
"""

# n tokens

from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BLOCKS = 64
"""Enough: with more, the quantile of the t-distribution falls by less than 2 %."""
FEWEST_BLOCKS = 8
"""With fewer, how much documents differ cannot be told."""


def block_ends(tokens: npt.NDArray[np.unsignedinteger[Any]], end_of_text: int) -> npt.NDArray[np.int64]:
    """Where the blocks of a text end, the last at n; none for a text of too few documents.

    K blocks should end at n/K, 2n/K, ...: each does at the end of a document that is nearest. An end-of-text belongs to
    the document before it, and what stands behind the last one is a document too.
    """
    n = len(tokens)
    ends = np.union1d(1 + np.flatnonzero(tokens == end_of_text), [n])
    blocks = min(MOST_BLOCKS, len(ends))
    wanted = n * np.arange(1, blocks + 1) / blocks
    between = (ends[:-1] + ends[1:]) / 2
    chosen = np.unique(ends[np.searchsorted(between, wanted)])
    return chosen if len(chosen) >= FEWEST_BLOCKS else chosen[:0]
