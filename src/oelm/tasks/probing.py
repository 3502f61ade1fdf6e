"""Probing: answer what the sequence itself says, at the places that ask."""

# B batch  T time  V symbols  N places that ask

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.config.measure import PROBING
from oelm.config.probe import Probe
from oelm.data.probes import UNASKED, probe_sequences
from oelm.tasks.task import Batch, LossSum


class Probing:
    """Fresh sequences in every step, scored by cross-entropy and by the share of exact answers."""

    name = "probing"
    measures = PROBING

    def __init__(
        self, probe: Probe, *, sequences_per_step: int, validation_sequences: int, validation_batch: int, seed: int
    ) -> None:
        self._probe = probe
        self._sequences_per_step = sequences_per_step
        self._validation_sequences = validation_sequences
        self._validation_batch = validation_batch
        self._seed = seed

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        """Sequences `part` of `parts` of the step's global batch."""
        count = self._sequences_per_step
        tokens, answers = probe_sequences(self._probe, count, self._seed, "training", step, vary=True)
        own = slice(part * count // parts, (part + 1) * count // parts)
        return {"tokens": torch.from_numpy(tokens[own]), "answers": torch.from_numpy(answers[own])}

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        """Every `parts`-th batch of the fixed sequences, which are the same for every seed."""
        tokens, answers = probe_sequences(self._probe, self._validation_sequences, 0, "validation", vary=False)
        size = self._validation_batch
        for first in range(part * size, len(tokens), parts * size):
            own = slice(first, first + size)
            yield {"tokens": torch.from_numpy(tokens[own]), "answers": torch.from_numpy(answers[own])}

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(answer) and the number of answers."""
        logits_NV, answers_N = self._asked(model, batch)
        total = F.cross_entropy(logits_NV, answers_N, reduction="sum")
        return LossSum(total, torch.tensor(len(answers_N), device=total.device))

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum, right answers and all answers."""
        logits_NV, answers_N = self._asked(model, batch)
        exact = sum_dtype(logits_NV.device)
        loss = F.cross_entropy(logits_NV.to(exact), answers_N, reduction="sum")
        right = (logits_NV.argmax(1) == answers_N).sum().to(exact)
        return torch.stack([loss, right, torch.full_like(right, len(answers_N))])

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss in nats per answer, and the share of answers that are right."""
        loss, right, count = sums.tolist()
        return {"loss": loss / count, "probe_accuracy": right / count}

    def tokens(self, batch: Batch) -> int:
        """B x T."""
        return batch["tokens"].numel()

    def _asked(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        asked_BT = batch["answers"] != UNASKED
        logits_BTV: Tensor = model(batch["tokens"])
        return logits_BTV[asked_BT], batch["answers"][asked_BT]
