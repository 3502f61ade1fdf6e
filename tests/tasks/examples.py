"""Labelled examples of random tokens, and a model that reads them."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from oelm.data.labelled_sets import Encoded
from oelm.tasks.labelled_batches import LabelledBatches

LENGTHS = [3, 9, 4, 8, 5, 7, 6, 10, 3, 4, 11, 12, 2, 6, 7, 5, 9]


def encoded(lengths: Sequence[int] = LENGTHS, *, classes: int | None = 3, segments: bool = False) -> Encoded:
    """With a class for each, or without classes a number."""
    random = np.random.default_rng(0)
    ids = tuple(random.integers(1, 50, size=length) for length in lengths)
    count = len(lengths)
    labels = random.integers(classes, size=count) if classes else random.normal(size=count).astype(np.float32)
    return Encoded(ids, labels, tuple(np.zeros_like(row) for row in ids) if segments else None)


def batches(training: Encoded, *, per_step: int = 4, seed: int = 0) -> LabelledBatches:
    return LabelledBatches(training, training, padding=0, examples_per_step=per_step, evaluation_batch=5, seed=seed)


class Bag(nn.Module):
    """Scores that do not depend on padding: the mean embedding of the tokens under the mask."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, outputs, dtype=torch.float64)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        mask = attention_mask.double()
        return (self.embedding(input_ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
