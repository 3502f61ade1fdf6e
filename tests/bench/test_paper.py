"""Bytes on paper."""

from oelm.bench.paper import paper_rows, ring_bytes
from oelm.bench.spec import BenchRequest, specs_of


def test_a_ring_sends_almost_twice_the_gradients():
    assert ring_bytes(800, 8) == 1400
    assert ring_bytes(64, 64) == 126
    assert ring_bytes(100, 1) == 0


def test_medium_512():
    request = BenchRequest(sizes=("medium-512",), vocab_size=50257, seq_len=512, methods=("baseline", "oelm"))
    baseline, oelm = paper_rows(specs_of(request)[0])
    assert (baseline.trained, oelm.trained) == (44_896_768, 41_751_040)
    assert baseline.weight_bytes == oelm.weight_bytes == 4 * 44_896_768
    assert oelm.optimiser_bytes == 8 * 41_751_040
    assert oelm.all_reduce_bytes[8] == 7 / 4 * 4 * 41_751_040
