"""Language modelling: predict the next token at every position of a window."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.config.measure import LANGUAGE_MODELLING
from oelm.config.record import TextBlocks
from oelm.data.batches import TokenBatches, ValidationWindows
from oelm.tasks.task import Batch, LossSum

# B batch  T time  V vocabulary  N = B x T  K blocks of text


SummedLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""-sum log p(target) of a model, its tokens and their targets."""
TokenLosses = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]
"""The same sum without gradients, and every token's loss (B x T)."""


def own_loss(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """The summed loss of our GPT, which never holds all logits."""
    total: Tensor = model(tokens_BT, targets_BT)
    return total


def own_token_losses(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Of our GPT, to the bit what `own_loss` gives without gradients."""
    losses_N: Tensor = model.token_losses(tokens_BT, targets_BT)  # type: ignore[operator]
    return losses_N.sum(), losses_N


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
        token_losses: TokenLosses = own_token_losses,
    ) -> None:
        self._training = training
        self._validation = validation
        self._sequences_per_step = sequences_per_step
        self._validation_batch = validation_batch
        self._bytes_per_token = bytes_per_token
        self._summed_loss = summed_loss
        self._token_losses = token_losses

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
            batch = _shifted(torch.from_numpy(self._validation.sequences(indices)))
            blocks_BT = self._validation.blocks(indices)
            yield batch if blocks_BT is None else {**batch, "blocks": torch.from_numpy(blocks_BT)}

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(target) and the number of targets."""
        targets_BT = batch["targets"]
        total = self._summed_loss(model, batch["tokens"], targets_BT)
        return LossSum(total, torch.tensor(targets_BT.numel(), device=total.device))

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum and token count; where the text has blocks, then the loss sum of each."""
        if "blocks" not in batch:
            loss = self.loss(model, batch)
            return torch.stack([each.to(sum_dtype(each.device)) for each in (loss.total, loss.count)])
        total, losses_N = self._token_losses(model, batch["tokens"], batch["targets"])
        sums = total.new_zeros(2 + len(self._validation.block_tokens), dtype=sum_dtype(total.device))
        sums[0], sums[1] = total, len(losses_N)
        return sums.index_add_(0, 2 + batch["blocks"].flatten(), losses_N.to(sums.dtype))

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss in nats per token, perplexity, and bits per byte, which other tokenizers can be compared in."""
        total, count = sums[:2].tolist()
        loss = total / count
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),  # a larger loss would overflow, and JSON has no infinity
            "bits_per_byte": loss / math.log(2) / self._bytes_per_token,
        }

    def text_blocks(self, sums: Tensor) -> TextBlocks | None:
        """The loss sum of every block of the text.

        Sums of float32 miss the last digits that those of float64 have. What the whole has more or less than its blocks
        is shared out by their tokens, so that they add up to the loss that is reported.
        """
        tokens = self._validation.block_tokens
        if not len(tokens):
            return None
        total, losses_K = float(sums[0]), sums[2:].numpy()
        exact_K = losses_K + (total - losses_K.sum()) * tokens / tokens.sum()
        return TextBlocks(tokens=tuple(tokens.tolist()), losses=tuple(float(f"{loss:.11g}") for loss in exact_K))

    def tokens(self, batch: Batch) -> int:
        """B x T."""
        return batch["tokens"].numel()


def _shifted(window_BT1: Tensor) -> Batch:
    """Inputs and the tokens that follow them."""
    return {"tokens": window_BT1[:, :-1], "targets": window_BT1[:, 1:]}
