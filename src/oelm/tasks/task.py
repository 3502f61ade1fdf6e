"""The contract between a task and the one training loop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from oelm.config.measure import Measure
from oelm.config.record import TextBlocks
from oelm.data.labelled_sets import Encoded

Batch = dict[str, Tensor]
"""Named tensors; the engine moves them to the device."""


@dataclass(frozen=True)
class LossSum:
    """A sum of losses and how many there were. Only the engine divides, over all micro-batches and all processes:

    a mean of means is wrong as soon as counts differ.
    """

    total: Tensor
    count: Tensor


@dataclass(frozen=True)
class Judged:
    """A batch of labelled examples with what the model said of each."""

    sums: Tensor
    """What `measure` gives."""
    places_B: Tensor
    """Of the examples in their set."""
    predictions_B: Tensor
    labels_B: Tensor


class Task(Protocol):
    """Batches are a pure function of their position, so a resumed or distributed run sees the same ones."""

    name: str
    measures: tuple[Measure, ...]
    """What `summarise` gives a value of, the most important first; those that are judged have a scale."""

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        """Micro-batch `part` of the `parts` that make up the global batch of `step`."""
        ...

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        """This part's batches of the fixed validation set; together the parts cover it once."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """The loss to train on."""
        ...

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """A vector of statistics (`sum_dtype`) that add up over batches and processes."""
        ...

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """The measures of the added-up statistics; `loss` is among them."""
        ...

    def tokens(self, batch: Batch) -> int:
        """How many tokens the model reads in this batch."""
        ...


@runtime_checkable
class TextTask(Task, Protocol):
    """A task that is validated on a text."""

    def text_blocks(self, sums: Tensor) -> TextBlocks | None:
        """From the added-up statistics, the loss of every block of the text; None where it has too few documents."""
        ...


@runtime_checkable
class LabelledTask(Task, Protocol):
    """A task on labelled text, which also has evaluation sets."""

    def batches_of(self, examples: Encoded, part: int = 0, parts: int = 1) -> Iterator[Batch]:
        """All of a set, with their places in it."""
        ...

    def judge(self, model: nn.Module, batch: Batch) -> Judged:
        """The sums of `measure`, and what the model says of every example."""
        ...


def answer_entropy(task: Task) -> float:
    """H = -sum_c p_c log p_c over the answers c of the validation set (tokens, labels, or what a probe asks for).

    That is the loss of the best prediction that looks at nothing: a model that has learnt lies well below it. Of
    numbers, whose loss is the squared error, it is their variance.
    """
    kinds = ("targets", "labels", "answers")
    answers = torch.cat(
        [batch[kind].flatten().cpu() for batch in task.validation_batches(0, 1) for kind in kinds if kind in batch]
    )
    if answers.is_floating_point():
        return float(answers.double().var(correction=0))
    counts = torch.bincount(answers[answers >= 0]).double()  # below 0: nothing is asked there
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())
