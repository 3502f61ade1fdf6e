import numpy as np
import pytest

from oelm.base.errors import DataError
from oelm.data.batches import TokenBatches, ValidationWindows, half_of


def ramp(length: int) -> np.ndarray:
    return np.arange(length, dtype="<u2")


@pytest.mark.parametrize(("length", "context"), [(1000, 10), (1003, 10), (11, 10), (20, 10), (97, 1)])
def test_an_epoch_predicts_every_token_once_but_for_a_remainder_shorter_than_the_context(length, context):
    batches = TokenBatches(ramp(length), context=context, seed=3)
    windows = batches.windows_per_epoch
    for epoch in range(3):
        targets = batches.sequences(range(epoch * windows, (epoch + 1) * windows))[:, 1:].ravel()
        assert len(set(targets.tolist())) == len(targets) == windows * context
        assert length - len(targets) < context


def test_sequences_are_consecutive_tokens_of_the_ring():
    sequences = TokenBatches(ramp(503), context=50, seed=0).sequences(range(40))
    assert sequences.shape == (40, 51)
    assert sequences.dtype == np.int64
    assert (np.diff(sequences) % 503 == 1).all()


def test_epochs_differ_in_order_and_in_phase():
    batches = TokenBatches(ramp(5000), context=10, seed=0)
    windows = batches.windows_per_epoch
    first, second = (batches.sequences(range(e * windows, (e + 1) * windows))[:, 0] for e in (0, 1))
    assert (first != second).mean() > 0.9
    assert first[0] % 10 != second[0] % 10


def test_a_sample_depends_on_seed_and_index_only():
    tokens = ramp(2000)
    whole = TokenBatches(tokens, context=16, seed=7).sequences(range(400))
    fresh = TokenBatches(tokens, context=16, seed=7)
    order = np.random.default_rng(0).permutation(400)
    assert (fresh.sequences(order) == whole[order]).all()
    assert not (TokenBatches(tokens, context=16, seed=8).sequences(range(400)) == whole).all()


def test_ranks_and_micro_batches_slice_the_same_global_batch():
    tokens, per_step = ramp(1000), 12
    one_process = TokenBatches(tokens, context=8, seed=1)
    ranks = [TokenBatches(tokens, context=8, seed=1) for _ in range(2)]
    for step in range(40):  # several epochs
        indices = step * per_step + np.arange(per_step)
        parts = [
            ranks[rank].sequences(indices[rank * 6 + micro * 3 : rank * 6 + micro * 3 + 3])
            for rank in (0, 1)
            for micro in (0, 1)
        ]
        assert (np.concatenate(parts) == one_process.sequences(indices)).all()


def test_the_first_batches_of_a_seed_never_change():
    sequences = TokenBatches(ramp(1000), context=4, seed=0).sequences([0, 1, 249, 250])
    assert sequences[:, 0].tolist() == [826, 486, 258, 671]


def test_too_little_data_names_the_lengths_and_the_fix():
    with pytest.raises(DataError, match=r"training data has 10 tokens.*sequences of 10 .*--seq-len 9"):
        TokenBatches(ramp(10), context=10, seed=0)
    with pytest.raises(DataError, match=r"validation data has 10 tokens.*sequences of 10 .*--seq-len 9"):
        ValidationWindows(ramp(10), context=10, limit=5)


def test_validation_is_the_first_windows_one_behind_the_other():
    windows = ValidationWindows(ramp(1000), context=10, limit=7)
    assert len(windows) == 7
    sequences = windows.sequences(range(7))
    assert sequences[:, :-1].ravel().tolist() == list(range(70))
    assert (windows.sequences([5, 2]) == sequences[[5, 2]]).all()


def test_validation_is_shorter_when_the_data_is_and_never_wraps_around():
    windows = ValidationWindows(ramp(35), context=10, limit=100)
    assert len(windows) == 3
    assert windows.sequences([2])[0].tolist() == list(range(20, 31))
    assert len(ValidationWindows(ramp(30), context=10, limit=100)) == 2
    with pytest.raises(IndexError, match="0 to 2"):
        windows.sequences([3])


@pytest.mark.parametrize(
    ("documents", "cut"),
    [
        ([4, 4, 4, 4], 8),  # a document ends in the very middle
        ([4, 5, 4, 3], 9),  # the one that is under way there is finished
        ([2, 2, 12], 8),  # no other ends behind the middle, so it is cut
        ([16], 8),
    ],
)
def test_halves_are_of_whole_documents_disjoint_and_complete(documents, cut):
    tokens = np.concatenate([[*range(1, length), 0] for length in documents]).astype("<u2")
    first, second = half_of(tokens, "first", 0), half_of(tokens, "second", 0)
    assert len(first) == cut
    assert np.concatenate([first, second]).tolist() == tokens.tolist()


def test_windows_of_the_halves_share_no_token():
    tokens = ramp(1000)
    halves = [ValidationWindows(half_of(tokens, half, 499), context=9, limit=30) for half in ("first", "second")]
    seen = [set(windows.sequences(range(len(windows))).ravel().tolist()) for windows in halves]
    assert [len(windows) for windows in halves] == [30, 30]
    assert seen[0].isdisjoint(seen[1])
    assert min(seen[1]) == 500


def test_a_boundary_far_behind_the_middle_is_found_by_pieces(monkeypatch):
    monkeypatch.setattr("oelm.data.batches._PIECE", 7)
    assert len(half_of(ramp(1000), "first", 777)) == 778
