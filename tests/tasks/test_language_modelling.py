import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.data.batches import TokenBatches, ValidationWindows
from oelm.tasks.language_modelling import LanguageModelling
from oelm.tasks.task import answer_entropy

TOKENS = np.arange(1000, dtype=np.uint16) % 50
CONTEXT = 7


def task(
    *, sequences_per_step: int = 12, validation_batch: int = 4, windows: int = 10, end_of_text: int | None = None
) -> LanguageModelling:
    return LanguageModelling(
        TokenBatches(TOKENS, context=CONTEXT, seed=0),
        ValidationWindows(TOKENS, context=CONTEXT, limit=windows, end_of_text=end_of_text),
        sequences_per_step=sequences_per_step,
        validation_batch=validation_batch,
        bytes_per_token=2.0,
    )


class Uniform(nn.Module):
    """All tokens equally likely."""

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        return F.cross_entropy(torch.zeros(tokens_BT.numel(), 50), targets_BT.flatten(), reduction="sum")


def test_the_entropy_of_the_answers_is_that_of_the_validation_tokens() -> None:
    counts = np.bincount(TOKENS[1 : 10 * CONTEXT + 1])
    shares = counts[counts > 0] / counts.sum()
    assert answer_entropy(task(windows=10)) == pytest.approx(-(shares * np.log(shares)).sum())
    assert answer_entropy(task(windows=100)) < math.log(50) + 1e-12


@pytest.mark.parametrize("parts", [2, 3, 4, 12])
def test_the_parts_of_a_step_are_its_global_batch(parts: int) -> None:
    whole = task().training_batch(5, 0, 1)
    split = [task().training_batch(5, part, parts) for part in range(parts)]
    for name in ("tokens", "targets"):
        assert torch.equal(torch.cat([batch[name] for batch in split]), whole[name])


def test_steps_differ() -> None:
    assert not torch.equal(task().training_batch(0, 0, 1)["tokens"], task().training_batch(1, 0, 1)["tokens"])


def test_targets_are_the_tokens_that_follow() -> None:
    batch = task().training_batch(0, 0, 1)
    assert torch.equal(batch["targets"], (batch["tokens"] + 1) % 50)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_validation_window_belongs_to_one_part(parts: int) -> None:
    batches = [batch["tokens"] for part in range(parts) for batch in task().validation_batches(part, parts)]
    found = sorted(row.tolist() for batch in batches for row in batch)
    assert found == sorted(row.tolist() for batch in task().validation_batches(0, 1) for row in batch["tokens"])
    assert len(found) == 10


def test_a_uniform_guess_has_the_loss_of_the_vocabulary() -> None:
    batch = task().training_batch(0, 0, 1)
    loss = task().loss(Uniform(), batch)
    assert loss.count.item() == task().tokens(batch) == 12 * CONTEXT
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(50))
    measures = task().summarise(task().measure(Uniform(), batch))
    assert measures["loss"] == pytest.approx(math.log(50))
    assert measures["perplexity"] == pytest.approx(50)
    assert measures["bits_per_byte"] == pytest.approx(math.log2(50) / 2)


def test_a_huge_loss_keeps_a_perplexity_that_json_can_hold() -> None:
    measures = task().summarise(torch.tensor([5000.0, 1.0], dtype=torch.float64))
    assert math.isfinite(measures["perplexity"])
    assert measures["loss"] == 5000


class Growing(nn.Module):
    """Like our GPT in float32: the loss of a token follows from what it is and where it stands."""

    def token_losses(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        return (0.1 + targets_BT / 7 + tokens_BT / 13).float().flatten()

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        return self.token_losses(tokens_BT, targets_BT).sum()


def added_up(found: LanguageModelling, parts: int = 1) -> Tensor:
    """As the engine does over all batches of all processes."""
    batches = (batch for part in range(parts) for batch in found.validation_batches(part, parts))
    return torch.stack([found.measure(Growing(), batch) for batch in batches]).sum(0)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_blocks_of_the_text_add_up_to_the_loss_that_is_reported(parts: int) -> None:
    """A document ends with every 49: of ten windows of seven that is too few, of a hundred it is fourteen."""
    plain, blocked = task(windows=100), task(windows=100, end_of_text=49)
    assert plain.text_blocks(added_up(plain)) is None
    assert task(windows=10, end_of_text=49).text_blocks(added_up(task(windows=10, end_of_text=49))) is None
    sums = added_up(blocked, parts)
    assert torch.equal(sums[:2], added_up(plain, parts)), "blocks do not touch the loss"
    text = blocked.text_blocks(sums)
    assert text is not None
    assert sum(text.tokens) == 700
    assert text.loss == pytest.approx(blocked.summarise(sums)["loss"], rel=1e-9)
    own = Growing().token_losses(
        torch.from_numpy(TOKENS[:700].astype(int)), torch.from_numpy(TOKENS[1:701].astype(int))
    )
    ends = np.cumsum(text.tokens)
    assert text.losses == pytest.approx([part.sum() for part in np.split(own.double().numpy(), ends[:-1])], rel=1e-6)
