import numpy as np
import pytest
import torch
from torch import nn

from oelm.tasks.classification import Classification, Encoded


def encoded(lengths, classes=3, segments=False):
    random = np.random.default_rng(0)
    ids = tuple(random.integers(1, 50, size=length) for length in lengths)
    labels = random.integers(classes, size=len(lengths))
    return Encoded(ids, labels, tuple(np.zeros_like(row) for row in ids) if segments else None)


def task(training, *, per_step=4, seed=0, holdout=None, classes=3):
    return Classification(
        training,
        holdout or training,
        classes=classes,
        padding=0,
        examples_per_step=per_step,
        evaluation_batch=5,
        seed=seed,
    )


LENGTHS = [3, 9, 4, 8, 5, 7, 6, 10, 3, 4, 11, 12, 2, 6, 7, 5, 9]


class Bag(nn.Module):
    """Scores that do not depend on padding: the mean embedding of the tokens under the mask."""

    def __init__(self, classes=3):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, classes, dtype=torch.float64)

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        mask = attention_mask.double()
        return (self.embedding(input_ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def places(task, steps, parts=1):
    return [
        place
        for step in range(steps)
        for part in range(parts)
        for place in task.training_batch(step, part, parts)["places"].tolist()
    ]


def test_each_epoch_shows_every_example_once():
    seen = places(task(encoded(LENGTHS)), steps=17)  # 17 steps of 4 are 4 epochs of 17
    for epoch in range(4):
        assert sorted(seen[epoch * 17 : (epoch + 1) * 17]) == list(range(17))
    assert seen[:17] != seen[17:34]


def test_batches_depend_on_position_and_seed_only():
    once, again = task(encoded(LENGTHS)), task(encoded(LENGTHS))
    again.training_batch(9, 0, 1)
    assert places(once, 5) == places(again, 5)
    assert places(once, 5) != places(task(encoded(LENGTHS), seed=1), 5)


def test_parts_share_out_the_global_batch():
    whole, halves = task(encoded(LENGTHS)), task(encoded(LENGTHS))
    for step in range(9):
        expected = whole.training_batch(step, 0, 1)["places"].tolist()
        shared = [halves.training_batch(step, part, 2)["places"].tolist() for part in range(2)]
        assert sorted(shared[0] + shared[1]) == sorted(expected)
        assert len(shared[0]) == len(shared[1]) == 2


def test_grouping_by_length_saves_padding():
    lengths = np.random.default_rng(1).integers(2, 100, size=400).tolist()
    grouped = task(encoded(lengths), per_step=8)
    padded = sum(grouped.training_batch(step, 0, 1)["input_ids"].numel() for step in range(50))
    order = np.random.default_rng(2).permutation(400).reshape(50, 8)
    ungrouped = sum(8 * max(lengths[index] for index in batch) for batch in order)
    assert padded < 1.1 * sum(lengths) < 0.75 * ungrouped


def test_padding_is_masked_and_changes_nothing():
    examples, model = encoded(LENGTHS), Bag()
    single = sum(
        float(task(examples).loss(model, task(examples)._padded(examples, [index])).total.detach())
        for index in range(17)
    )
    batched = task(examples).loss(model, task(examples)._padded(examples, list(range(17))))
    assert float(batched.total.detach()) == pytest.approx(single, abs=1e-12)
    assert int(batched.count) == 17


def test_measures_add_up_over_parts_and_match_sklearns_definitions():
    examples, model = encoded(LENGTHS), Bag()
    measured = task(examples)
    sums = [
        sum(
            measured.measure(model, batch)
            for part in range(parts)
            for batch in measured.validation_batches(part, parts)
        )
        for parts in (1, 3)
    ]
    torch.testing.assert_close(sums[0], sums[1])
    batch = measured._padded(examples, list(range(17)))
    predicted = model(batch["input_ids"], batch["attention_mask"]).argmax(1).numpy()
    summary = measured.summarise(sums[0])
    assert summary["accuracy"] == pytest.approx((predicted == examples.labels).mean())
    f1 = []
    for label in range(3):
        hits = ((predicted == label) & (examples.labels == label)).sum()
        precision, recall = hits / max((predicted == label).sum(), 1), hits / (examples.labels == label).sum()
        f1.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    assert summary["f1"] == pytest.approx(np.mean(f1))


def test_segments_reach_the_model_only_where_there_are_any():
    with_segments = task(encoded(LENGTHS, segments=True))
    assert "token_type_ids" in with_segments.training_batch(0, 0, 1)
    assert "token_type_ids" not in task(encoded(LENGTHS)).training_batch(0, 0, 1)
