import numpy as np
import torch

from oelm.data.labelled_sets import Encoded
from oelm.tasks.labelled_batches import UNASKED, LabelledBatches

from .examples import LENGTHS, batches, encoded


def places(found: LabelledBatches, steps: int) -> list[int]:
    return [place for step in range(steps) for place in found.training_batch(step, 0, 1)["places"].tolist()]


def test_each_epoch_shows_every_example_once() -> None:
    seen = places(batches(encoded()), steps=17)  # 17 steps of 4 are 4 epochs of 17
    for epoch in range(4):
        assert sorted(seen[epoch * 17 : (epoch + 1) * 17]) == list(range(17))
    assert seen[:17] != seen[17:34]


def test_batches_depend_on_position_and_seed_only() -> None:
    once, again = batches(encoded()), batches(encoded())
    again.training_batch(9, 0, 1)
    assert places(once, 5) == places(again, 5)
    assert places(once, 5) != places(batches(encoded(), seed=1), 5)


def test_parts_share_out_the_global_batch() -> None:
    whole, halves = batches(encoded()), batches(encoded())
    for step in range(9):
        expected = whole.training_batch(step, 0, 1)["places"].tolist()
        shared = [halves.training_batch(step, part, 2)["places"].tolist() for part in range(2)]
        assert sorted(shared[0] + shared[1]) == sorted(expected)
        assert len(shared[0]) == len(shared[1]) == 2


def test_grouping_by_length_saves_padding() -> None:
    lengths = np.random.default_rng(1).integers(2, 100, size=400).tolist()
    grouped = batches(encoded(lengths), per_step=8)
    padded = sum(grouped.training_batch(step, 0, 1)["input_ids"].numel() for step in range(50))
    order = np.random.default_rng(2).permutation(400).reshape(50, 8)
    ungrouped = sum(8 * max(lengths[index] for index in batch) for batch in order)
    assert padded < 1.1 * sum(lengths) < 0.75 * ungrouped


def test_segments_reach_the_model_only_where_there_are_any() -> None:
    assert "token_type_ids" in batches(encoded(segments=True)).training_batch(0, 0, 1)
    assert "token_type_ids" not in batches(encoded()).training_batch(0, 0, 1)


def test_target_texts_are_filled_up_and_counted() -> None:
    examples = encoded(LENGTHS[:3])
    targets = tuple(np.arange(1, length + 1) for length in (2, 4, 1))
    texts = Encoded(examples.ids, targets)
    batch = batches(texts).padded(texts, [0, 1, 2])
    assert batch["labels"].tolist() == [[1, 2, *[UNASKED] * 2], [1, 2, 3, 4], [1, *[UNASKED] * 3]]
    assert batches(texts).tokens(batch) == sum(LENGTHS[:3]) + 7
    assert batches(examples).tokens(batches(examples).padded(examples, [0, 1, 2])) == sum(LENGTHS[:3])
    assert torch.equal(batch["set_size"], torch.tensor(3))
