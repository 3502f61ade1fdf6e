"""FLOPs of any model and task, counted by torch on one real training batch.

Our own GPT has a ledger (`oelm.model.ledger`); for models that others wrote, one step on the CPU is counted instead.
A frozen matrix that acts on every token saves exactly its weight gradient: 2 FLOPs per weight and token.
"""

from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from oelm.config.method import FreezingPlan
from oelm.config.record import FlopCounts
from oelm.method.cost import frozen_share
from oelm.method.weights import Role, Weight
from oelm.tasks.task import Task

_ON_EVERY_TOKEN = frozenset({Role.QUERY, Role.KEY, Role.QUERY_KEY, Role.VALUE, Role.OUTPUT, Role.FFN})


def measure_flops(
    model: nn.Module,
    task: Task,
    plan: FreezingPlan | None,
    table: tuple[Weight, ...],
    *,
    total_steps: int,
    tokens: int,
) -> FlopCounts:
    """Count the first training batch with everything trained, and subtract what the plan's calendar saves."""
    batch = task.training_batch(0, 0, 1)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = task.loss(model, batch)
        with FlopCounterMode(display=False) as backward:
            loss.total.backward()  # type: ignore[no-untyped-call]
    model.zero_grad(set_to_none=True)
    read, shares = task.tokens(batch), frozen_share(plan, table, total_steps)
    padded = next(iter(batch.values())).numel()
    saved = sum(
        2 * weight.count * shares.get(weight.name, 0) * padded
        for weight in table
        if weight.role in _ON_EVERY_TOKEN and not weight.name.endswith("bias")
    )
    forward_flops, free_backward = forward.get_total_flops(), backward.get_total_flops()
    return FlopCounts(
        forward_per_token=forward_flops / read,
        backward_per_token=(free_backward - saved) / read,
        baseline_per_token=(forward_flops + free_backward) / read,
        run=(forward_flops + free_backward - saved) / read * tokens,
    )
