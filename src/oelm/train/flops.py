"""FLOPs of any model and task, counted by torch on one real training example.

Our own GPT has a ledger (`oelm.model.ledger`); for models that others wrote, one example on the CPU is counted instead.
What is frozen throughout is left out of the count. A matrix that is frozen in some steps saves its weight gradient in
those, 2 FLOPs per weight and token, if it acts on every token.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from oelm.config.method import FreezingPlan
from oelm.config.record import FlopCounts
from oelm.method.cost import frozen_share
from oelm.method.weights import Role, Weight
from oelm.tasks.task import Batch, Task

_ON_EVERY_TOKEN = frozenset({Role.QUERY, Role.KEY, Role.QUERY_KEY, Role.VALUE, Role.OUTPUT, Role.FFN})


@dataclass(frozen=True, kw_only=True)
class FlopRates:
    """FLOPs per token of a training step, the mean over all steps of the plan."""

    forward: float
    backward: float
    baseline: float
    """Forward and backward with everything trained."""

    def of(self, tokens: int) -> FlopCounts:
        """The counts of a run of so many tokens."""
        return FlopCounts(
            forward_per_token=self.forward,
            backward_per_token=self.backward,
            baseline_per_token=self.baseline,
            run=(self.forward + self.backward) * tokens,
        )


def measure_flops(
    model: nn.Module, task: Task, plan: FreezingPlan | None, table: tuple[Weight, ...], *, total_steps: int, parts: int
) -> FlopRates:
    """What torch counts without what is frozen throughout, less what the plan's calendar saves.

    Counted is the first of `parts` parts of the first batch. The model must be on the CPU, as batches are; it is left
    as it was.
    """
    batch = task.training_batch(0, 0, parts)
    read, shares = task.tokens(batch), frozen_share(plan, table, total_steps)
    throughout = frozenset(name for name, share in shares.items() if share == 1)
    forward, free_backward = _counted(model, task, batch, frozenset())
    backward = _counted(model, task, batch, throughout)[1] if throughout else free_backward
    padded = next(iter(batch.values())).numel()
    saved = sum(
        2 * weight.count * shares.get(weight.name, 0) * padded
        for weight in table
        if weight.role in _ON_EVERY_TOKEN and not weight.name.endswith("bias") and weight.name not in throughout
    )
    return FlopRates(
        forward=forward / read,
        backward=(backward - saved) / read,
        baseline=(forward + free_backward) / read,
    )


def _counted(model: nn.Module, task: Task, batch: Batch, fixed: frozenset[str]) -> tuple[int, int]:
    """FLOPs forward and backward with everything trained but these."""
    with _trained_but(model, fixed), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = task.loss(model, batch)
        with FlopCounterMode(display=False) as backward:
            loss.total.backward()  # type: ignore[no-untyped-call]
    return forward.get_total_flops(), backward.get_total_flops()


@contextlib.contextmanager
def _trained_but(model: nn.Module, fixed: frozenset[str]) -> Iterator[None]:
    """Every other parameter requires a gradient; afterwards the same ones do as before, and none has one."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in fixed)
    try:
        yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)
        model.zero_grad(set_to_none=True)
