"""Batches of labelled text: examples of like length together, padded to the longest of their batch."""

# B batch  T time

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from oelm.base.streams import stream_seed
from oelm.data.labelled_sets import Encoded
from oelm.tasks.task import Batch

Ids = npt.NDArray[np.int64]
UNASKED = -100
"""Fills up targets; what torch's cross-entropy ignores."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_GROUPED_BATCHES = 50
"""So many batches are sorted by length together: little padding, yet a random order."""


class LabelledBatches:
    """The training set in random order, epoch after epoch; other sets once, shortest first."""

    def __init__(
        self,
        training: Encoded,
        validation: Encoded,
        *,
        padding: int,
        examples_per_step: int,
        evaluation_batch: int,
        seed: int,
    ) -> None:
        self._training = training
        self._validation = validation
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
        return self.padded(self._training, [self._example_at(place) for place in places])

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        """The validation set in order of length; each example belongs to exactly one part."""
        yield from self.batches_of(self._validation, part, parts)

    def batches_of(self, examples: Encoded, part: int = 0, parts: int = 1) -> Iterator[Batch]:
        """All of a set, shortest first, with their places in it."""
        order = np.argsort([len(ids) for ids in examples.ids], kind="stable")[part::parts]
        for first in range(0, len(order), self._evaluation_batch):
            yield self.padded(examples, order[first : first + self._evaluation_batch].tolist())

    def tokens(self, batch: Batch) -> int:
        """Tokens without padding, those of a target text included."""
        labels, read = batch["labels"], int(batch["attention_mask"].sum())
        return read + int((labels != UNASKED).sum()) if labels.ndim > 1 else read

    def padded(self, examples: Encoded, indices: list[int]) -> Batch:
        """These examples of a set, and how many the set has."""
        rows, labels = [examples.ids[index] for index in indices], examples.labels
        batch = {
            "input_ids": _filled(rows, self._padding),
            "attention_mask": _filled([np.ones_like(row) for row in rows], 0),
            "labels": _filled([labels[index] for index in indices], UNASKED)
            if isinstance(labels, tuple)
            else torch.from_numpy(labels[indices]),
            "places": torch.tensor(indices),
            "set_size": torch.tensor(len(examples)),
        }
        if examples.segments is not None:
            batch["token_type_ids"] = _filled([examples.segments[index] for index in indices], 0)
        return batch

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


def inputs_of(batch: Batch) -> Batch:
    """What the model is given of a batch."""
    return {name: batch[name] for name in _INPUTS if name in batch}


def _filled(rows: list[Ids], padding: int) -> Tensor:
    """Rows of unequal length as one tensor, filled up on the right."""
    filled = np.full((len(rows), max(map(len, rows))), padding, np.int64)
    for row, values in zip(filled, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(filled)
