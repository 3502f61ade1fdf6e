import numpy as np
import pytest
import torch

from oelm.tasks.classification import Classification

from .examples import Bag, batches, encoded

EXAMPLES = encoded()


def task() -> Classification:
    return Classification(batches(EXAMPLES), classes=3)


def test_padding_is_masked_and_changes_nothing() -> None:
    model, padded = Bag(), batches(EXAMPLES).padded
    single = sum(float(task().loss(model, padded(EXAMPLES, [index])).total.detach()) for index in range(17))
    batched = task().loss(model, padded(EXAMPLES, list(range(17))))
    assert float(batched.total.detach()) == pytest.approx(single, abs=1e-12)
    assert int(batched.count) == 17


def test_measures_add_up_over_parts_and_match_sklearns_definitions() -> None:
    model, measured = Bag(), task()
    sums = [
        sum(
            measured.measure(model, batch)
            for part in range(parts)
            for batch in measured.validation_batches(part, parts)
        )
        for parts in (1, 3)
    ]
    torch.testing.assert_close(sums[0], sums[1])
    batch = batches(EXAMPLES).padded(EXAMPLES, list(range(17)))
    predicted = model(batch["input_ids"], batch["attention_mask"]).argmax(1).numpy()
    assert measured.judge(model, batch).predictions_B.tolist() == predicted.tolist()
    summary = measured.summarise(sums[0])
    assert summary["accuracy"] == pytest.approx((predicted == EXAMPLES.labels).mean())
    f1 = []
    for label in range(3):
        hits = ((predicted == label) & (EXAMPLES.labels == label)).sum()
        precision, recall = hits / max((predicted == label).sum(), 1), hits / (EXAMPLES.labels == label).sum()
        f1.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    assert summary["f1"] == pytest.approx(np.mean(f1))
