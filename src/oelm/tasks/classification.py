"""Classification: one label per text or pair of texts."""

# B batch  T time  C classes

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.streams import stream_seed
from oelm.config.measure import CLASSIFICATION
from oelm.data.labelled_sets import Encoded
from oelm.tasks.task import Batch, LossSum

Ids = npt.NDArray[np.int64]
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_GROUPED_BATCHES = 50
"""So many batches are sorted by length together: little padding, yet a random order."""


class Classification:
    """Examples padded to the longest of their batch, scored by cross-entropy, accuracy and macro F1."""

    name = "classification"
    measures = CLASSIFICATION

    def __init__(
        self,
        training: Encoded,
        holdout: Encoded,
        *,
        classes: int,
        padding: int,
        examples_per_step: int,
        evaluation_batch: int,
        seed: int,
    ) -> None:
        self._training = training
        self._holdout = holdout
        self._classes = classes
        self._padding = padding
        self._examples_per_step = examples_per_step
        self._evaluation_batch = evaluation_batch
        self._lengths = np.array([len(ids) for ids in training.ids])
        self._seed = seed
        self._epoch = -1
        self._order = np.empty(0, np.int64)

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        """Every `parts`-th example of the step's global batch: parts are of equal length and size."""
        first = step * self._examples_per_step
        places = range(first + part, first + self._examples_per_step, parts)
        return self._padded(self._training, [self._example_at(place) for place in places])

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        """The hold-out in order of length; each example belongs to exactly one part."""
        yield from self.batches_of(self._holdout, part, parts)

    def batches_of(self, examples: Encoded, part: int = 0, parts: int = 1) -> Iterator[Batch]:
        """All of a set, shortest first, with their places in it."""
        order = np.argsort([len(ids) for ids in examples.ids], kind="stable")[part::parts]
        for first in range(0, len(order), self._evaluation_batch):
            yield self._padded(examples, order[first : first + self._evaluation_batch].tolist())

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(label) and the number of examples."""
        logits_BC = self.logits(model, batch)
        total = F.cross_entropy(logits_BC, batch["labels"], reduction="sum")
        return LossSum(total, torch.tensor(len(logits_BC), device=total.device))

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """The model's scores of the classes."""
        output = model(**{name: batch[name] for name in _INPUTS if name in batch})
        logits_BC: Tensor = output if isinstance(output, Tensor) else output.logits
        return logits_BC.float() if logits_BC.dtype in (torch.bfloat16, torch.float16) else logits_BC

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum, then the confusion matrix (label by prediction)."""
        logits_BC, labels_B = self.logits(model, batch), batch["labels"]
        loss = F.cross_entropy(logits_BC, labels_B, reduction="sum").double()
        cells = torch.bincount(labels_B * self._classes + logits_BC.argmax(1), minlength=self._classes**2)
        return torch.cat([loss.view(1), cells.double()])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        """The places of the examples and the classes predicted for them (2, B)."""
        return torch.stack([batch["places"], self.logits(model, batch).argmax(1)])

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss, accuracy and macro F1 (the mean of the classes' F1; a class that nobody has or predicts counts 0)."""
        confusion_CC = sums[1:].view(self._classes, self._classes)
        right_C = confusion_CC.diagonal()
        f1_C = 2 * right_C / (confusion_CC.sum(0) + confusion_CC.sum(1)).clamp(min=1)
        count = confusion_CC.sum()
        return {
            "loss": (sums[0] / count).item(),
            "accuracy": (right_C.sum() / count).item(),
            "f1": f1_C.mean().item(),
        }

    def tokens(self, batch: Batch) -> int:
        """Tokens without padding."""
        return int(batch["attention_mask"].sum())

    def _example_at(self, place: int) -> int:
        """The example at a place of the endless stream of epochs."""
        epoch, within = divmod(place, len(self._training))
        if epoch != self._epoch:
            self._order, self._epoch = self._epoch_order(epoch), epoch
        return int(self._order[within])

    def _epoch_order(self, epoch: int) -> Ids:
        """A random order in which each global batch holds examples of like length."""
        random = np.random.Generator(np.random.PCG64(stream_seed(self._seed, "examples", epoch)))
        order, size = random.permutation(len(self._training)), self._examples_per_step
        # The first few complete the batch that the epoch before began; from there on batches are whole.
        begun = -epoch * len(self._training) % size
        groups = [order[:begun]]
        for first in range(begun, len(order), size * _GROUPED_BATCHES):
            group = order[first : first + size * _GROUPED_BATCHES]
            by_length = group[np.argsort(self._lengths[group], kind="stable")]
            batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
            whole = [batch for batch in batches if len(batch) == size]
            groups += [whole[index] for index in random.permutation(len(whole))]
            groups += [batch for batch in batches if len(batch) < size]  # only at the end of the epoch
        return np.concatenate(groups)

    def _padded(self, examples: Encoded, indices: list[int]) -> Batch:
        rows = [examples.ids[index] for index in indices]
        batch = {
            "input_ids": _filled(rows, self._padding),
            "attention_mask": _filled([np.ones_like(row) for row in rows], 0),
            "labels": torch.from_numpy(examples.labels[indices]),
            "places": torch.tensor(indices),
        }
        if examples.segments is not None:
            batch["token_type_ids"] = _filled([examples.segments[index] for index in indices], 0)
        return batch


def _filled(rows: list[Ids], padding: int) -> Tensor:
    """Rows of unequal length as one tensor, filled up on the right."""
    filled = np.full((len(rows), max(map(len, rows))), padding, np.int64)
    for row, values in zip(filled, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(filled)
