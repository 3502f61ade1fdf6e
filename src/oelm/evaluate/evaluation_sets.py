"""Labelled evaluation sets: one pass over each, measures and predictions from the same answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from oelm.config.record import Evaluation
from oelm.data.labelled_sets import Encoded
from oelm.tasks.task import Batch, LabelledTask

T = TypeVar("T")


class Infer(Protocol):
    """The engine's: applies a function to its model and every batch, without gradients."""

    def __call__(self, question: Callable[[nn.Module, Batch], T], batches: Iterable[Batch]) -> Iterator[T]:
        """The answers, batch by batch."""
        ...


def evaluate_sets(
    infer: Infer, task: LabelledTask, sets: Mapping[str, Encoded], checkpoint: Literal["last", "best"], step: int
) -> tuple[Evaluation, ...]:
    """Measures and predictions on every evaluation set with the weights that the model has now."""
    return tuple(_evaluation(infer, task, name, examples, checkpoint, step) for name, examples in sets.items())


def _evaluation(
    infer: Infer,
    task: LabelledTask,
    name: str,
    examples: Encoded,
    checkpoint: Literal["last", "best"],
    step: int,
) -> Evaluation:
    judged = list(infer(task.judge, task.batches_of(examples)))
    order = torch.cat([batch.places_B for batch in judged]).argsort()
    return Evaluation(
        name=name,
        checkpoint=checkpoint,
        step=step,
        measures=task.summarise(torch.stack([batch.sums for batch in judged]).sum(0).cpu()),
        predictions=_written(torch.cat([batch.predictions_B for batch in judged])[order]),
        labels=_written(torch.cat([batch.labels_B for batch in judged])[order]),
    )


def _written(values_N: Tensor) -> str:
    """One line, with spaces between; numbers with six digits."""
    return " ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values_N.tolist())
