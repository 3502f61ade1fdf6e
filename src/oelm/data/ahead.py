"""Chunks of text and their ids: while one chunk is written, the next ones are encoded and the one after is read."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from oelm.data.holdout import Routed
from oelm.data.tokenizer import Encoder, Ids

AT_ONCE = 2
"""Chunks that are encoded at the same time.

The library shares its cores among them, so that no core waits for the last texts of a chunk, nor for the step from
the library's results to numbers. Threads suffice: the library works outside Python's lock.
"""


def encoded_ahead(chunks: Iterable[list[Routed]], encode: Encoder) -> Iterator[tuple[list[Routed], list[Ids]]]:
    """Each chunk with the ids of its pieces, in the order of the chunks; at most `AT_ONCE` + 1 are under way."""
    under_way: deque[tuple[list[Routed], Future[list[Ids]]]] = deque()
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="encode")
    try:
        for chunk in chunks:
            under_way.append((chunk, pool.submit(encode, [routed.piece.text for routed in chunk])))
            if len(under_way) > AT_ONCE:
                yield _finished(under_way)
        while under_way:
            yield _finished(under_way)
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(under_way: deque[tuple[list[Routed], Future[list[Ids]]]]) -> tuple[list[Routed], list[Ids]]:
    chunk, ids = under_way.popleft()
    return chunk, ids.result()
