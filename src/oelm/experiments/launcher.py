"""What a coordinator asks of whoever starts runs: this machine, Ray or SLURM.

The contract is the run's folder. `submit` brings about `oelm train --config FOLDER/config.yaml --resume` somewhere;
that process locks the folder, writes its heartbeat and its end into state.json, looks for a stop.request, and writes
record.json last. So how a run ended is read from its folder; a launcher only knows whether its job is still there.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from oelm.train.folder import RunFolder

PATIENT_TORCHRUN = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}
"""Seconds that torchrun gives its processes to save themselves before it kills them."""


@dataclass(frozen=True)
class Job:
    """A run that was submitted."""

    id: str
    """By which the launcher finds it again, also from another process."""
    device: str
    """Where it runs, for people."""


class JobState(StrEnum):
    """Whether a job may still write into its run's folder."""

    ALIVE = "alive"
    """It runs, or waits in a queue."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """Not known at the moment: wait and ask again. It says nothing about the run."""
    ELSEWHERE = "elsewhere"
    """On another machine, which cannot be asked: the heartbeats in the run's folder have to say it."""


class Launcher(Protocol):
    """Starts runs."""

    name: str
    """Written into claims, so that a later coordinator knows whom to ask about a job."""
    description: str
    """What it starts runs on, in one line."""
    together: int
    """How many runs it takes in one submission."""
    device_of_ours: str
    """For what the coordinator itself computes: `cpu` where runs are put on CPUs, else `auto`."""

    def refuse(self, processes: int) -> None:
        """Raise if there will never be room for a run of so many processes."""
        ...

    def has_room(self, processes: int) -> bool:
        """Whether such a run could start now, or at least queue."""
        ...

    def submit(self, folders: Sequence[Path], processes: int) -> list[Job]:
        """Start the runs in these folders, each of so many processes; none of them if there is no room after all."""
        ...

    def state(self, job: Job) -> JobState:
        """Of a job that this process, or an earlier one with the same launcher, has submitted."""
        ...

    def stop(self, job: Job) -> None:
        """Ask a job of ours to save and end; returns at once."""
        ...

    def why_waiting(self) -> str:
        """Why there is no room, in one line."""
        ...


def worker_command(folder: str, processes: int, rendezvous: Sequence[str] = ("--standalone",)) -> list[str]:
    """What a launcher starts, once on every node of a run; several processes through torchrun, which meet there."""
    torchrun = ["-m", "torch.distributed.run", *rendezvous, "--nproc-per-node", str(processes)]
    alone = processes == 1 and tuple(rendezvous) == ("--standalone",)
    train = ["-m", "oelm", "train", "--config", str(RunFolder(Path(folder)).config_file), "--resume"]
    return [sys.executable, *([] if alone else torchrun), *train]
