"""Fine-tuning a BERT that `convert` or a comparator has worked on: random weights, random texts of full length."""

from functools import cache, partial

import numpy as np
import torch

from oelm.base.runtime import Runtime
from oelm.bench.contestant import Builder, Contestant
from oelm.bench.ours import OPTIM
from oelm.bench.spec import BenchSpec
from oelm.config.methods import parse_method
from oelm.data.labelled_sets import Encoded
from oelm.method.freezing import frozen_names
from oelm.surgery.comparators import tuned
from oelm.surgery.conversion import weight_table
from oelm.surgery.convert import apply
from oelm.surgery.random_models import random_bert, set_checkpointing
from oelm.tasks.classification import Classification
from oelm.tasks.labelled_batches import LabelledBatches
from oelm.train.engine import Engine
from oelm.train.flops import FlopRates, measure_flops

CLASSES = 2
_BATCHES = 4


def finetuning_builders(spec: BenchSpec, runtime: Runtime) -> dict[str, Builder]:
    """Every method without and with gradient checkpointing; the two share one model."""

    @cache
    def tuner(name: str) -> Tuner:
        return Tuner(spec, name, runtime)

    def built(name: str, *, checkpointing: bool) -> Contestant:
        return tuner(name).contestant(checkpointing=checkpointing)

    plain: dict[str, Builder] = {name: partial(built, name, checkpointing=False) for name in spec.methods}
    return {**plain, **{checkpointed(name): partial(built, name, checkpointing=True) for name in spec.methods}}


def checkpointed(name: str) -> str:
    """The row of a method with gradient checkpointing."""
    return f"{name}, checkpointing"


class Tuner:
    """One converted model and its engine."""

    def __init__(self, spec: BenchSpec, name: str, runtime: Runtime) -> None:
        torch.manual_seed(0)
        method = parse_method(name)
        self._model = random_bert(spec.shape, CLASSES)
        apply(self._model, method, seed=0, attention=None, train_biases=False)
        table = tuned(self._model, weight_table(self._model), method.comparator, seed=0)
        self._task = _task(spec)
        self._rates = measure_flops(self._model, self._task, method.plan, table, total_steps=1, parts=spec.batch_size)
        self._engine = Engine(self._model, table, OPTIM, runtime, precision=spec.precision, accumulate=1, seed=0)
        self._engine.ensure_frozen(frozen_names(method.plan, table, 0, 1))

    def contestant(self, *, checkpointing: bool) -> Contestant:
        """A step of the training loop, gradient checkpointing switched on or off before it."""

        def step(index: int) -> object:
            set_checkpointing(self._model, checkpointing)
            self._engine.accumulate(self._task, index)
            return self._engine.update(OPTIM.lr)

        return Contestant(step, step_flops(self._rates, checkpointing=checkpointing))


def step_flops(rates: FlopRates, *, checkpointing: bool) -> float:
    """FLOPs over those of full fine-tuning; checkpointing computes the forward pass twice."""
    forward = 2 * rates.forward if checkpointing else rates.forward
    return (forward + rates.backward) / rates.baseline


def _task(spec: BenchSpec) -> Classification:
    random = np.random.default_rng(0)
    count = _BATCHES * spec.batch_size
    ids = random.integers(spec.shape.vocabulary, size=(count, spec.shape.context))
    examples = Encoded(ids=tuple(ids), labels=random.integers(CLASSES, size=count))
    batches = LabelledBatches(
        examples,
        examples,
        padding=0,
        examples_per_step=spec.batch_size,
        evaluation_batch=spec.batch_size,
        seed=0,
    )
    return Classification(batches, classes=CLASSES)
