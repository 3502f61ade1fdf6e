"""Which weights are frozen at a step: a pure function of the plan, the table of weights and the step.

Because the calendar is a function and not a state, a resumed run replays it exactly.
"""

from typing import assert_never

from oelm.base.errors import FreezeError
from oelm.config.method import (
    AllButLast,
    AllLayers,
    Always,
    EveryNth,
    FreezingPlan,
    From,
    LayerChoice,
    Moment,
    OnlyLayers,
    TopDownThaw,
    Until,
    When,
)
from oelm.method.weights import Role, Weight, layer_count


def frozen_names(plan: FreezingPlan | None, table: tuple[Weight, ...], step: int, total_steps: int) -> frozenset[str]:
    """The names of the tensors that update `step` (counted from 0) must leave alone."""
    fixed = frozenset(weight.name for weight in table if weight.fixed)
    if plan is None:
        return fixed
    layers = layer_count(table)
    return fixed | frozenset(
        weight.name
        for weight in chosen(plan, table)
        if weight.layer is not None
        and is_frozen(plan.when, step=step, total_steps=total_steps, layer=weight.layer, layers=layers)
    )


def chosen(plan: FreezingPlan, table: tuple[Weight, ...]) -> tuple[Weight, ...]:
    """The tensors that the plan speaks of at all. Freezing nothing is an error, not a silent baseline."""
    layers = chosen_layers(plan.layers, layer_count(table))
    roles = {Role.QUERY} if plan.query else set()
    roles |= {Role.KEY} if plan.key else set()
    roles |= {Role.QUERY_KEY} if plan.query and plan.key else set()
    found = tuple(
        weight
        for weight in table
        if weight.stored and weight.layer in layers and (weight.role in roles or weight.in_ffn_share)
    )
    if not found:
        raise FreezeError(
            f"the freezing plan ({describe(plan)}) matches no weight of this model",
            "choose layers that exist and matrices that the method stores; `oelm inspect` lists them",
        )
    return found


def chosen_layers(choice: LayerChoice, layers: int) -> frozenset[int]:
    """The indices of the layers that the plan covers."""
    match choice:
        case AllLayers():
            return frozenset(range(layers))
        case OnlyLayers(layers=only):
            if max(only) >= layers:
                raise FreezeError(
                    f"the freezing plan names layer {max(only)}, but there is no layer {max(only)} in this model",
                    f"choose of the layers 0 to {layers - 1}",
                )
            return frozenset(only)
        case AllButLast(count=count):
            return frozenset(range(layers - count))
        case _:
            assert_never(choice)


def is_frozen(when: When, *, step: int, total_steps: int, layer: int, layers: int) -> bool:
    """Is a chosen tensor of `layer` (0 at the bottom) frozen in update `step`?"""
    match when:
        case Always():
            return True
        case Until(end=end):
            return step < at_step(end, total_steps)
        case From(start=start):
            return step >= _within_run(start, total_steps)
        case TopDownThaw():
            return step < _thaws_at(when, total_steps, layer, layers)
        case EveryNth(n=n):
            return (step + 1) % n != 0
        case _:
            assert_never(when)


def frozen_steps(when: When, *, total_steps: int, layer: int, layers: int) -> int:
    """In how many of all steps `is_frozen` says yes."""
    match when:
        case EveryNth(n=n):
            return total_steps - total_steps // n
        case From(start=start):
            return total_steps - _within_run(start, total_steps)
        case Always():
            return total_steps
        case Until(end=end):
            return min(total_steps, at_step(end, total_steps))
        case TopDownThaw():
            return min(total_steps, max(0, _thaws_at(when, total_steps, layer, layers)))
        case _:
            assert_never(when)


def _thaws_at(when: TopDownThaw, total_steps: int, layer: int, layers: int) -> int:
    """The first step that trains a layer: from the top at `start` to the bottom at `end`."""
    first, last = at_step(when.start, total_steps), at_step(when.end, total_steps)
    below_top = (layers - 1 - layer) / max(1, layers - 1)
    return round(first + below_top * (last - first))


def _within_run(start: Moment, total_steps: int) -> int:
    begin = at_step(start, total_steps)
    if begin >= total_steps:
        raise FreezeError(
            f"the freezing plan starts at step {begin}, but the run has only {total_steps}: nothing would be frozen",
            "start earlier, or take the same method without a plan",
        )
    return begin


def at_step(moment: Moment, total_steps: int) -> int:
    """A moment as a number of steps: at least one, for a plan that freezes in no step would be a silent baseline.

    (And `from=0` would have no trained start.)
    """
    return max(1, round(moment * total_steps)) if isinstance(moment, float) else moment


def describe(plan: FreezingPlan | None) -> str:
    """The plan in words."""
    if plan is None:
        return "nothing frozen"
    parts = [name for name, on in (("Q", plan.query), ("K", plan.key)) if on]
    parts += [f"{plan.ffn_share:.3g} of the FFN"] if plan.ffn_share else []
    where = {
        AllLayers: "",
        OnlyLayers: f" of layers {', '.join(map(str, getattr(plan.layers, 'layers', ())))}",
        AllButLast: f" of all but the last {getattr(plan.layers, 'count', 0)} layers",
    }[type(plan.layers)]
    match plan.when:
        case Always():
            calendar = "always"
        case Until(end=end):
            calendar = f"until {_moment(end)}"
        case From(start=start):
            calendar = f"from {_moment(start)} on, trained before"
        case TopDownThaw(start=start, end=end):
            calendar = f"thawing top-down from {_moment(start)} to {_moment(end)}"
        case EveryNth(n=n):
            calendar = f"trained every {n} steps only"
    return f"{' and '.join(parts)}{where} frozen, {calendar}"


def _moment(moment: Moment) -> str:
    return f"{moment:.3g} of the steps" if isinstance(moment, float) else f"step {moment}"
