"""Random tokens through the data classes of real runs: the time of a step does not depend on their meaning."""

import numpy as np
from torch import Tensor, from_numpy

from oelm.bench.spec import BenchSpec
from oelm.bench.useful import VALIDATION_BATCHES
from oelm.data.batches import TokenBatches, Tokens, ValidationWindows
from oelm.tasks.language_modelling import LanguageModelling

_BATCHES = 16


def language_modelling(spec: BenchSpec, processes: int = 1) -> LanguageModelling:
    """The task of `oelm train` on random tokens; `batch_size` is that of one process."""
    return LanguageModelling(
        training_windows(spec),
        validation_windows(spec),
        sequences_per_step=spec.batch_size * processes,
        validation_batch=spec.batch_size,
        bytes_per_token=1.0,
    )


def training_windows(spec: BenchSpec) -> TokenBatches:
    """Training sequences."""
    return TokenBatches(_tokens(spec, _BATCHES), context=spec.shape.context, seed=0)


def validation_windows(spec: BenchSpec) -> ValidationWindows:
    """A validation set of two batches."""
    windows = VALIDATION_BATCHES * spec.batch_size
    return ValidationWindows(_tokens(spec, VALIDATION_BATCHES), context=spec.shape.context, limit=windows)


def prompt(spec: BenchSpec) -> list[int]:
    """What generation continues."""
    return [int(token) for token in _tokens(spec, 1)[: spec.prompt_length]]


def batch_at(windows: TokenBatches | ValidationWindows, batch_size: int, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of a step in a plain loop."""
    window_BT1 = from_numpy(windows.sequences(range(step * batch_size, (step + 1) * batch_size)))
    return window_BT1[:, :-1], window_BT1[:, 1:]


def _tokens(spec: BenchSpec, batches: int) -> Tokens:
    kind = np.uint16 if spec.shape.vocabulary <= 2**16 else np.uint32
    count = batches * spec.batch_size * spec.shape.context + 1
    tokens: Tokens = np.random.default_rng(0).integers(spec.shape.vocabulary, size=count, dtype=kind)
    return tokens
