"""Who starts runs: the few things that a coordinator asks of this machine, of Ray or of SLURM."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oelm.experiments.claims import Claim


@dataclass(frozen=True)
class Job:
    """A run that is to be brought to its record; its config lies in the folder."""

    name: str
    folder: Path
    processes: int
    """Data-parallel processes: one GPU or CPU slot each."""


class Worker(Protocol):
    """A run under way."""

    @property
    def pid(self) -> int | None:
        """Its process on this machine, if it has one."""
        ...

    @property
    def device(self) -> str:
        """Where it runs, for people."""
        ...

    def exit_code(self) -> int | None:
        """None while it lives; below zero if a signal ended it."""
        ...

    def stop(self) -> None:
        """Ask it to save and end; returns at once."""
        ...


class Room(Protocol):
    """A place that is ours until something is started in it or it is given back."""

    def start(self, job: Job, claim: Claim) -> Worker:
        """Start the job here."""
        ...

    def give_back(self) -> None:
        """Start nothing."""
        ...


class Engine(Protocol):
    """Finds room and starts workers in it."""

    def find_room(self, processes: int) -> Room | None:
        """Room for a run of so many processes, or None for now: ask again later."""
        ...

    def refuse(self, processes: int) -> None:
        """Raise if there will never be room for a run of so many processes."""
        ...

    def describe(self) -> str:
        """What it starts runs on, in one line."""
        ...

    def why_waiting(self) -> str:
        """Why there is no room, in one line."""
        ...
