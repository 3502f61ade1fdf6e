import numpy as np
import pytest
import torch

from oelm.tasks.regression import Regression, correlation, ranks
from oelm.tasks.task import answer_entropy

from .examples import Bag, batches, encoded

EXAMPLES = encoded(classes=None)


def figures(parts: int) -> dict[str, float]:
    task, model = Regression(batches(EXAMPLES)), Bag(outputs=1)
    measured = [task.measure(model, batch) for part in range(parts) for batch in task.validation_batches(part, parts)]
    return task.summarise(torch.stack(measured).sum(0))


def test_figures_are_those_of_the_whole_set_however_it_is_shared_out() -> None:
    batch = batches(EXAMPLES).padded(EXAMPLES, list(range(17)))
    y, labels = Bag(outputs=1)(batch["input_ids"], batch["attention_mask"]).detach().numpy()[:, 0], EXAMPLES.labels
    found = figures(parts=1)
    assert found["loss"] == pytest.approx(((y - labels) ** 2).mean())
    assert found["pearson"] == pytest.approx(np.corrcoef(y, labels)[0, 1])
    places = [np.argsort(np.argsort(values)) for values in (y, labels)]  # there are no ties
    assert found["spearman"] == pytest.approx(np.corrcoef(*places)[0, 1])
    assert figures(parts=3) == pytest.approx(found)


def test_the_loss_is_the_sum_of_squared_errors() -> None:
    task, model = Regression(batches(EXAMPLES)), Bag(outputs=1)
    batch = batches(EXAMPLES).padded(EXAMPLES, [3, 5])
    loss, judged = task.loss(model, batch), task.judge(model, batch)
    assert loss.total.item() == pytest.approx((judged.predictions_B - judged.labels_B).square().sum().item())
    assert loss.count == 2


def test_equal_numbers_share_their_ranks() -> None:
    assert ranks(torch.tensor([5.0, 1.0, 5.0, 3.0])).tolist() == [3.5, 1, 3.5, 2]
    rising = torch.arange(6.0).double()
    assert correlation(ranks(rising), ranks(rising.exp())) == pytest.approx(1)
    assert correlation(rising, rising.exp()) < 0.9
    assert correlation(rising, torch.ones(6).double()) == 0


def test_always_saying_the_mean_costs_the_variance() -> None:
    assert answer_entropy(Regression(batches(EXAMPLES))) == pytest.approx(EXAMPLES.labels.astype(float).var())
