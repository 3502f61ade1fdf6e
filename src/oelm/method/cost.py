"""What a method costs: weights by kind and role, and matrix-multiplication FLOPs of any freezing plan, exactly.

A product of an activation with a weight costs 2m FLOPs forward (m multiply-adds), 2m backward for the gradient of
its input, and 2m more for the gradient of the weight, which a frozen weight saves. A product of two activations
(attention) costs 2m forward and 4m backward, for the pairs that the causal mask leaves. These are the FLOPs of the
mathematics, whatever a kernel computes besides: the bound on what freezing can save.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from oelm.config.method import FreezingPlan
from oelm.config.record import FlopCounts, RoleCount, WeightCounts
from oelm.method.freezing import chosen, frozen_names, frozen_steps
from oelm.method.weights import QUERY_KEY_SIDE, Product, Role, Weight, layer_count


def weight_counts(plan: FreezingPlan | None, table: tuple[Weight, ...], total_steps: int) -> WeightCounts:
    """Count the weights: trained, frozen (of these: trained later) and absent, at the start of a run."""
    frozen = frozen_names(plan, table, 0, total_steps)
    later = frozen - always_frozen(plan, table, total_steps)

    def total(weights: Iterable[Weight]) -> int:
        return sum(weight.count for weight in weights)

    def kinds(role: Role | None) -> tuple[int, int, int]:
        rows = [weight for weight in table if role in (None, weight.role)]
        stored = [weight for weight in rows if weight.stored]
        still = [weight for weight in stored if weight.name in frozen]
        absent = total(rows) - total(stored) + sum(weight.cut for weight in stored)
        return total(stored) - total(still), total(still), absent

    present = [role for role in Role if any(weight.role is role for weight in table)]
    trained, still, absent = kinds(None)
    return WeightCounts(
        trained=trained,
        frozen=still,
        absent=absent,
        later=total(weight for weight in table if weight.name in later),
        later_query_key=total(w for w in table if w.name in later and w.role in QUERY_KEY_SIDE),
        roles=tuple(
            RoleCount(role=role.value, trained=counts[0], frozen=counts[1], absent=counts[2])
            for role in present
            for counts in [kinds(role)]
        ),
    )


def always_frozen(plan: FreezingPlan | None, table: tuple[Weight, ...], total_steps: int) -> frozenset[str]:
    """The tensors that no step of the run may change."""
    return frozenset(name for name, share in frozen_share(plan, table, total_steps).items() if share == 1)


def forward_flops(products: tuple[Product, ...]) -> float:
    """FLOPs per token of one forward pass."""
    return 2 * sum(product.macs for product in products)


def backward_flops(products: tuple[Product, ...], frozen_share: Mapping[str, float]) -> float:
    """FLOPs per token of one backward pass that computes no gradient for weights while they are frozen.

    `frozen_share` gives the share of steps in which a weight is frozen: 1 for always, nothing for never.
    """
    return sum(2 * product.macs * (2 - frozen_share.get(product.weight or "", 0)) for product in products)


def frozen_share(plan: FreezingPlan | None, table: tuple[Weight, ...], total_steps: int) -> dict[str, float]:
    """For each tensor that the plan speaks of, the share of all steps in which it is frozen."""
    fixed = {weight.name: 1.0 for weight in table if weight.fixed}
    if plan is None:
        return fixed
    steps = partial(frozen_steps, plan.when, total_steps=total_steps, layers=layer_count(table))
    planned = {w.name: steps(layer=w.layer) / total_steps for w in chosen(plan, table) if w.layer is not None}
    return {**planned, **fixed}


def flop_counts(
    products: tuple[Product, ...],
    baseline_products: tuple[Product, ...],
    plan: FreezingPlan | None,
    table: tuple[Weight, ...],
    *,
    total_steps: int,
    tokens: int,
) -> FlopCounts:
    """FLOPs of a run of `tokens` tokens, beside the baseline of the same size."""
    forward = forward_flops(products)
    backward = backward_flops(products, frozen_share(plan, table, total_steps))
    baseline = forward_flops(baseline_products) + backward_flops(baseline_products, {})
    return FlopCounts(
        forward_per_token=forward,
        backward_per_token=backward,
        baseline_per_token=baseline,
        run=(forward + backward) * tokens,
    )
