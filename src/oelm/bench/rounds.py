"""Contestants in turns: every round times a few steps of each, in a new random order.

A slow moment of the machine then hits all alike, and so does what the contestant before leaves in the caches.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oelm.base.runtime import Runtime
from oelm.bench.device_peak import MatrixProduct

Act = Callable[[int], object]
"""One step; its argument counts the steps, so that each reads other data."""
Emit = Callable[[str], None]
"""Receives progress messages."""


@dataclass(frozen=True)
class Timed:
    """Seconds of each contestant."""

    first: dict[str, float]
    """The very first step of all, which may compile."""
    rounds: dict[str, tuple[float, ...]]
    """Mean seconds per step, round by round."""
    best: dict[str, float]
    """The shortest single step."""
    flops_per_second: float
    """Of the best matrix product; they were timed between the rounds. 0 if none was."""


def interleave(
    acts: Mapping[str, Act],
    *,
    rounds: int,
    repeats: int,
    runtime: Runtime,
    product: MatrixProduct | None,
    emit: Emit,
) -> Timed:
    """Time all contestants after one round that warms up and is not counted, apart from its first step."""
    order, index = random.Random(0), 0
    steps: dict[str, list[list[float]]] = {name: [] for name in acts}
    rates = [0.0]
    for number in range(rounds + 1):
        emit(f"round {number} of {rounds}" if number else "warming up")
        for name in order.sample(sorted(acts), len(acts)):
            steps[name].append(step_seconds(acts[name], range(index, index + repeats), runtime))
            index += repeats
        if product is not None:
            rates += [product.flops_per_second() for _ in range(2)]
    timed = {name: found[1:] for name, found in steps.items()}
    return Timed(
        first={name: found[0][0] for name, found in steps.items()},
        rounds={name: tuple(sum(row) / len(row) for row in found) for name, found in timed.items()},
        best={name: min(min(row) for row in found) for name, found in timed.items()},
        flops_per_second=max(rates),
    )


def step_seconds(act: Act, indices: Sequence[int], runtime: Runtime) -> list[float]:
    """Seconds of each step, the device's queue emptied before the clock is read."""
    seconds = []
    for index in indices:
        runtime.synchronise()
        start = time.perf_counter()
        act(index)
        runtime.synchronise()
        seconds.append(time.perf_counter() - start)
    return seconds
