"""The evaluation sets, read once after the last step: with the last weights and with the best ones."""

# N examples of a set  B batch  C classes

from typing import Literal

import torch
from torch import Tensor, nn

from oelm.config.record import Evaluation
from oelm.data.labelled_sets import Encoded
from oelm.experiments.subjects import Subject
from oelm.tasks.classification import Classification
from oelm.tasks.task import Batch
from oelm.train.checkpoint import Checkpoints, Progress, load_weights
from oelm.train.engine import Engine


def evaluate_once(
    engine: Engine, subject: Subject, checkpoints: Checkpoints, progress: Progress
) -> tuple[Evaluation, ...]:
    """Measures and predictions on every evaluation set. The model is left with the best weights."""
    task, sets = subject.task, subject.evaluation_sets
    if not isinstance(task, Classification) or not sets:
        return ()
    last = [_evaluation(engine, task, name, examples, "last", progress.step) for name, examples in sets.items()]
    if progress.best_step == progress.step:
        return (*last, *(row.model_copy(update={"checkpoint": "best"}) for row in last))
    load_weights(subject.model, checkpoints.best())
    best = [_evaluation(engine, task, name, examples, "best", progress.best_step) for name, examples in sets.items()]
    return (*last, *best)


def _evaluation(
    engine: Engine,
    task: Classification,
    name: str,
    examples: Encoded,
    checkpoint: Literal["last", "best"],
    step: int,
) -> Evaluation:
    """One pass over the set; all measures are computed from its logits."""
    answered = _Answered(_scores(engine, task, examples))
    everything = {"labels": torch.from_numpy(examples.labels), "places": torch.arange(len(examples))}
    return Evaluation(
        name=name,
        checkpoint=checkpoint,
        step=step,
        measures=task.summarise(task.measure(answered, everything)),
        predictions=" ".join(map(str, task.predict(answered, everything)[1].tolist())),
        labels=" ".join(map(str, examples.labels.tolist())),
    )


def _scores(engine: Engine, task: Classification, examples: Encoded) -> Tensor:
    """The model's logits (N, C), in the order of the set."""

    def placed_scores(model: nn.Module, batch: Batch) -> Tensor:
        return torch.cat([batch["places"].cpu().unsqueeze(1), task.logits(model, batch).cpu().double()], dim=1)

    rows = torch.cat(list(engine.infer(placed_scores, task.batches_of(examples))))
    return rows[rows[:, 0].argsort(), 1:]


class _Answered(nn.Module):
    """Stands in for a model whose logits have been computed."""

    def __init__(self, logits_NC: Tensor) -> None:
        super().__init__()
        self._logits_NC = logits_NC

    def forward(self) -> Tensor:
        """The logits."""
        return self._logits_NC
