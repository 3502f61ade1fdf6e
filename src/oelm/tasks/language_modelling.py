"""Language modelling: predict the next token at every position of a window."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from oelm.config.measure import LANGUAGE_MODELLING
from oelm.data.batches import TokenBatches, ValidationWindows
from oelm.tasks.task import Batch, LossSum

# B batch  T time  V vocabulary


SummedLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""-sum log p(target) of a model, its tokens and their targets."""


def own_loss(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """The summed loss of our GPT, which never holds all logits."""
    total: Tensor = model(tokens_BT, targets_BT)
    return total


class LanguageModelling:
    """Windows of a token file, scored by the cross-entropy of the next token."""

    name = "language-modelling"
    measures = LANGUAGE_MODELLING

    def __init__(
        self,
        training: TokenBatches,
        validation: ValidationWindows,
        *,
        sequences_per_step: int,
        validation_batch: int,
        bytes_per_token: float,
        summed_loss: SummedLoss = own_loss,
    ) -> None:
        self._training = training
        self._validation = validation
        self._sequences_per_step = sequences_per_step
        self._validation_batch = validation_batch
        self._bytes_per_token = bytes_per_token
        self._summed_loss = summed_loss

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        """Sequences `part` of `parts` of the step's global batch."""
        size = self._sequences_per_step // parts
        first = step * self._sequences_per_step + part * size
        return _shifted(torch.from_numpy(self._training.sequences(range(first, first + size))))

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        """Every `parts`-th batch of the validation windows; each window belongs to exactly one part."""
        size = self._validation_batch
        for first in range(part * size, len(self._validation), parts * size):
            indices = range(first, min(first + size, len(self._validation)))
            yield _shifted(torch.from_numpy(self._validation.sequences(indices)))

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(target) and the number of targets."""
        targets_BT = batch["targets"]
        total = self._summed_loss(model, batch["tokens"], targets_BT)
        return LossSum(total, torch.tensor(targets_BT.numel(), device=total.device))

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum and token count."""
        loss = self.loss(model, batch)
        return torch.stack([loss.total.double(), loss.count.double()])

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss in nats per token, perplexity, and bits per byte, which other tokenizers can be compared in."""
        total, count = sums.tolist()
        loss = total / count
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),  # a larger loss would overflow, and JSON has no infinity
            "bits_per_byte": loss / math.log(2) / self._bytes_per_token,
        }

    def tokens(self, batch: Batch) -> int:
        """B x T."""
        return batch["tokens"].numel()


def _shifted(window_BT1: Tensor) -> Batch:
    """Inputs and the tokens that follow them."""
    return {"tokens": window_BT1[:, :-1], "targets": window_BT1[:, 1:]}
