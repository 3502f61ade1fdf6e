"""Labelled evaluation sets: one pass over each, and every measure of it from the same logits."""

# N examples of a set  B batch  C classes

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from oelm.config.record import Evaluation
from oelm.data.labelled_sets import Encoded
from oelm.tasks.classification import Classification
from oelm.tasks.task import Batch

Infer = Callable[[Callable[[nn.Module, Batch], Tensor], Iterable[Batch]], Iterator[Tensor]]
"""The engine's: applies a function to its model and every batch, without gradients."""


def evaluate_sets(
    infer: Infer, task: Classification, sets: Mapping[str, Encoded], checkpoint: Literal["last", "best"], step: int
) -> tuple[Evaluation, ...]:
    """Measures and predictions on every evaluation set with the weights that the model has now."""
    return tuple(_evaluation(infer, task, name, examples, checkpoint, step) for name, examples in sets.items())


def _evaluation(
    infer: Infer,
    task: Classification,
    name: str,
    examples: Encoded,
    checkpoint: Literal["last", "best"],
    step: int,
) -> Evaluation:
    """One pass over the set; all measures are computed from its logits."""
    answered = _Answered(_scores(infer, task, examples))
    everything = {"labels": torch.from_numpy(examples.labels), "places": torch.arange(len(examples))}
    return Evaluation(
        name=name,
        checkpoint=checkpoint,
        step=step,
        measures=task.summarise(task.measure(answered, everything)),
        predictions=" ".join(map(str, task.predict(answered, everything)[1].tolist())),
        labels=" ".join(map(str, examples.labels.tolist())),
    )


def _scores(infer: Infer, task: Classification, examples: Encoded) -> Tensor:
    """The model's logits (N, C), in the order of the set."""

    def placed_scores(model: nn.Module, batch: Batch) -> Tensor:
        return torch.cat([batch["places"].cpu().unsqueeze(1), task.logits(model, batch).cpu().double()], dim=1)

    rows = torch.cat(list(infer(placed_scores, task.batches_of(examples))))
    return rows[rows[:, 0].argsort(), 1:]


class _Answered(nn.Module):
    """Stands in for a model whose logits have been computed."""

    def __init__(self, logits_NC: Tensor) -> None:
        super().__init__()
        self._logits_NC = logits_NC

    def forward(self) -> Tensor:
        """The logits."""
        return self._logits_NC
