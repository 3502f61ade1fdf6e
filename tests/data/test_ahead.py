import threading

import numpy as np
import pytest

from oelm.data.ahead import AT_ONCE, encoded_ahead
from oelm.data.holdout import Routed
from oelm.data.pieces import Piece


def chunks(count, taken=None):
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield [Routed("train", Piece(str(number), ends=True))]


def test_chunks_come_in_order_however_long_each_takes():
    """The first call ends only after the second one: both must be under way together."""
    second_done = threading.Event()

    def encode(texts):
        if texts == ["0"]:
            assert second_done.wait(10)
        if texts == ["1"]:
            second_done.set()
        return [np.array([int(text)], np.uint32) for text in texts]

    found = [(chunk[0].piece.text, int(ids[0][0])) for chunk, ids in encoded_ahead(chunks(7), encode)]
    assert found == [(str(number), number) for number in range(7)]


def test_no_more_is_read_than_is_encoded():
    taken = []
    stream = encoded_ahead(chunks(100, taken), lambda texts: [np.zeros(1, np.uint32) for _ in texts])
    next(stream)
    assert len(taken) == AT_ONCE + 1
    stream.close()
    assert len(taken) == AT_ONCE + 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("encode")]


def test_errors_of_reading_and_of_encoding_arrive():
    def damaged():
        yield from chunks(4)
        raise OSError("damaged")

    def refuse(texts):
        raise ValueError(texts[0])

    with pytest.raises(OSError, match="damaged"):
        list(encoded_ahead(damaged(), lambda texts: [np.zeros(1, np.uint32) for _ in texts]))
    with pytest.raises(ValueError, match="0"):
        list(encoded_ahead(chunks(4), refuse))
