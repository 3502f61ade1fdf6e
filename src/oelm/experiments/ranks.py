"""The processes of one data-parallel run: how they meet, and what is said when one of them is lost."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from oelm.base.errors import LostRankError
from oelm.base.runtime import Runtime

_PATIENCE = timedelta(minutes=30)
_PATIENCE_SECONDS = 2.0
"""Of a process that crashes, the others see the closed connection before it is gone."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Peers:
    """Host and process number of every rank."""

    rank: int
    processes: tuple[tuple[str, int], ...]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Where a collective fails because a rank of this machine is gone, say in one sentence which."""
        try:
            yield
        except RuntimeError as error:  # what gloo and NCCL raise, and whatever else a step may
            if not (lost := self._lost_by_now()):
                raise
            raise LostRankError(
                f"rank {', '.join(map(str, lost))} of {len(self.processes)} was lost: its process was killed, or ended "
                "with an error of its own",
                "start the same command again with --resume; torchrun --max-restarts 3 does so by itself",
                speaks=self.rank == min(set(range(len(self.processes))) - set(lost)),
            ) from error

    def _lost_by_now(self) -> list[int]:
        """The other ranks on this machine whose process has ended, or ends within a moment."""
        deadline = time.monotonic() + (_PATIENCE_SECONDS if len(self.processes) > 1 else 0)
        while not (lost := self._lost()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return lost

    def _lost(self) -> list[int]:
        here = socket.gethostname()
        return [rank for rank, (host, pid) in enumerate(self.processes) if host == here and not _lives(pid)]


@contextlib.contextmanager
def joined(runtime: Runtime) -> Iterator[Peers]:
    """Join the other processes that torchrun started, if any."""
    own = (socket.gethostname(), os.getpid())
    if runtime.world == 1:
        yield Peers(0, (own,))
        return
    backend = "nccl" if runtime.device.type == "cuda" else "gloo"
    if runtime.device.type == "cuda":
        torch.cuda.set_device(runtime.device)
    store, rank, world = next(rendezvous("env://", timeout=_PATIENCE))
    # A restarted run must not find the addresses of the processes before it in torchrun's store.
    fresh = PrefixStore(f"oelm-attempt-{_restarts()}", store)
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=world, timeout=_PATIENCE)
    everybody: list[tuple[str, int]] = [own] * runtime.world
    dist.all_gather_object(everybody, own)
    try:
        yield Peers(runtime.rank, tuple(everybody))
    finally:
        dist.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this run again by itself (--max-restarts): then it goes on."""
    return _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _lives(pid: int) -> bool:
    """Whether a process is there and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
