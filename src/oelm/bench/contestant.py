"""One contestant: a name, what it does in a step, and the FLOPs it needs beside the baseline's."""

from collections.abc import Callable
from dataclasses import dataclass

from oelm.bench.rounds import Act


@dataclass(frozen=True)
class Contestant:
    """Ready to be timed."""

    act: Act
    flops: float | None
    """FLOPs over those of the baseline; None where they are not counted."""


Builder = Callable[[], Contestant]
"""Contestants are built when they are needed: a process that measures memory builds one only."""
