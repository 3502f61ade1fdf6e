"""The evaluation sets, read once after the last step: with the last weights and with the best ones."""

from typing import Literal

import torch

from oelm.config.record import Evaluation
from oelm.experiments.subjects import Subject
from oelm.tasks.classification import Classification, Encoded
from oelm.train.checkpoint import Checkpoints, Progress, load_weights
from oelm.train.engine import Engine


def evaluate_once(
    engine: Engine, subject: Subject, checkpoints: Checkpoints, progress: Progress
) -> tuple[Evaluation, ...]:
    """Measures and predictions on every evaluation set. The model is left with the best weights."""
    task = subject.task
    if not isinstance(task, Classification) or not subject.evaluation_sets:
        return ()
    rows = [
        _evaluation(engine, task, name, examples, "last", progress.step)
        for name, examples in subject.evaluation_sets.items()
    ]
    load_weights(subject.model, checkpoints.best())
    rows += [
        _evaluation(engine, task, name, examples, "best", progress.best_step)
        for name, examples in subject.evaluation_sets.items()
    ]
    return tuple(rows)


def _evaluation(
    engine: Engine,
    task: Classification,
    name: str,
    examples: Encoded,
    checkpoint: Literal["last", "best"],
    step: int,
) -> Evaluation:
    sums = torch.stack(list(engine.infer(task.measure, task.batches_of(examples)))).sum(0)
    predicted = torch.cat(list(engine.infer(task.predict, task.batches_of(examples))), dim=1).cpu()
    in_order = predicted[1][predicted[0].argsort()]
    return Evaluation(
        name=name,
        checkpoint=checkpoint,
        step=step,
        measures=task.summarise(sums.cpu()),
        predictions=" ".join(map(str, in_order.tolist())),
        labels=" ".join(map(str, examples.labels.tolist())),
    )
