import math

import pytest
import torch
from torch import Tensor, nn

from oelm.config.probe import Probe, ProbeKind
from oelm.tasks.probing import Probing

PROBE = Probe(probe=ProbeKind.INDUCTION, length=24, alphabet=5)


def probing(seed: int = 0) -> Probing:
    return Probing(PROBE, sequences_per_step=6, validation_sequences=20, validation_batch=7, seed=seed)


class Searching(nn.Module):
    """Answers by looking: logits of 9 for what stood behind the last `symbol`; `off` looks one place too far."""

    def __init__(self, off: int = 0) -> None:
        super().__init__()
        self.off = off

    def forward(self, tokens_BT: Tensor) -> Tensor:
        logits_BTV = torch.zeros(*tokens_BT.shape, PROBE.vocabulary)
        for row, tokens in enumerate(tokens_BT.tolist()):
            for place, token in enumerate(tokens):
                earlier = [other for other in range(place) if tokens[other] == token]
                if earlier:
                    logits_BTV[row, place, tokens[min(earlier[-1] + 1 + self.off, place)]] = 9.0
        return logits_BTV


def figures(model: nn.Module, parts: int = 1) -> dict[str, float]:
    task = probing()
    sums = [task.measure(model, batch) for part in range(parts) for batch in task.validation_batches(part, parts)]
    return task.summarise(torch.stack(sums).sum(0))


def test_a_model_that_searches_is_right() -> None:
    found = figures(Searching())
    assert found["probe_accuracy"] == 1
    assert found["loss"] == pytest.approx(math.log(1 + 4 * math.exp(-9)), rel=1e-6)
    assert figures(Searching(off=1))["probe_accuracy"] < 0.5


def test_processes_share_the_work() -> None:
    assert figures(Searching(off=1), parts=3) == pytest.approx(figures(Searching(off=1)))
    whole = probing().training_batch(3, 0, 1)
    halves = [probing().training_batch(3, part, 2) for part in range(2)]
    for name in ("tokens", "answers"):
        assert torch.equal(torch.cat([half[name] for half in halves]), whole[name])


def test_seeds_train_on_other_sequences_and_validate_on_the_same() -> None:
    one, other = probing(0), probing(1)
    assert not torch.equal(one.training_batch(0, 0, 1)["tokens"], other.training_batch(0, 0, 1)["tokens"])
    (first, *_), (same, *_) = one.validation_batches(0, 1), other.validation_batches(0, 1)
    assert torch.equal(first["tokens"], same["tokens"])


def test_the_loss_is_of_the_answers_only() -> None:
    task = probing()
    batch = task.training_batch(0, 0, 1)
    loss = task.loss(Searching(off=1), batch)
    assert loss.count == (batch["answers"] >= 0).sum()
    assert loss.total / loss.count > 1
