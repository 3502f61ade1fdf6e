"""The local engine: runs as processes of this machine, on idle GPUs or on CPU slots.

Places are locked machine-wide, so that several coordinators, also of different studies, share them; the lock goes
over to the worker, so that a place is taken for exactly as long as somebody works in it.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oelm.base.errors import ConfigError
from oelm.base.files import refusing_storage
from oelm.experiments.claims import Claim
from oelm.experiments.engine import Job, Room, Worker
from oelm.experiments.gpus import IdleGpus
from oelm.experiments.locks import HeldFile
from oelm.train.folder import RunFolder

_PATIENT_TORCHRUN = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}
"""Seconds that torchrun gives its processes to save themselves before it kills them."""


@dataclass(frozen=True)
class Place:
    """Room for one worker: locks that it inherits, and what its environment says of the device."""

    device: str
    locks: tuple[HeldFile, ...]
    environment: dict[str, str]


class Places(Protocol):
    """Where a machine has room."""

    def take(self, processes: int) -> Place | None:
        """Room for a run of so many processes, or None for now."""
        ...

    def most(self) -> int | None:
        """The most processes that a run may have here; None if there is no limit."""
        ...

    def describe(self) -> str:
        """What there is, in one line."""
        ...

    def why_waiting(self) -> str:
        """Why there is no room, in one line."""
        ...


class CpuSlots:
    """As many runs at a time as there are slots; each gets its share of the cores, so that they do not fight."""

    def __init__(self, at_once: int, *, threads: int | None = None, folder: Path | None = None) -> None:
        self._count = max(at_once, cores() // (threads or max(1, cores() // at_once)))
        self.threads = threads or max(1, cores() // at_once)
        self._folder = folder or places_folder()

    def take(self, processes: int) -> Place | None:
        """One slot per process, all or none; a run of more processes than slots gets as many, of fewer threads."""
        held: list[HeldFile] = []
        threads = max(1, min(self.threads, cores() // processes))
        for slot in range(max(self._count, processes)):
            lock = HeldFile.take(self._folder / f"cpu-{slot}.lock")
            if lock is not None:
                held.append(lock)
            if len(held) == processes:
                # No CUDA: a run that was put on the CPU must not look for a GPU.
                environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}
                return Place(f"cpu x{threads * processes}", tuple(held), environment)
        for lock in held:
            lock.let_go()
        return None

    def most(self) -> int | None:
        """No limit: more processes than cores are slow, not impossible."""
        return None

    def describe(self) -> str:
        """How many, and how many threads each."""
        return f"{self._count} CPU slots of {self.threads} thread{'s' if self.threads > 1 else ''}"

    def why_waiting(self) -> str:
        """Other runs have all slots."""
        return "all CPU slots are taken"


class GpuPlaces:
    """One GPU per process, each idle by NVML for a stated time and not claimed by another coordinator."""

    def __init__(self, gpus: IdleGpus, *, total: int, folder: Path | None = None) -> None:
        self._gpus = gpus
        self._total = total
        self._folder = folder or places_folder()

    def take(self, processes: int) -> Place | None:
        """So many idle GPUs, all or none."""
        idle = self._gpus.idle()
        if len(idle) < processes:
            return None
        held: list[tuple[int, str, HeldFile]] = []
        for gpu in idle:
            lock = HeldFile.take(self._folder / f"{gpu.uuid}.lock")
            if lock is not None:
                held.append((gpu.index, gpu.uuid, lock))
            if len(held) == processes:
                threads = max(1, cores() // self._total)
                environment = {
                    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                    "CUDA_VISIBLE_DEVICES": ",".join(uuid for _, uuid, _ in held),
                    "OMP_NUM_THREADS": str(threads),
                }
                device = "gpu " + ",".join(str(index) for index, _, _ in held)
                return Place(device, tuple(lock for _, _, lock in held), environment)
        for _, _, lock in held:
            lock.let_go()
        return None

    def most(self) -> int | None:
        """One per GPU."""
        return self._total

    def describe(self) -> str:
        """How many, and when one counts as idle."""
        rule = self._gpus.rule
        return (
            f"{self._total} GPU(s), each once it has had no process and {rule.free_bytes / (1 << 30):.0f} GiB free "
            f"for {rule.seconds:.0f} s"
        )

    def why_waiting(self) -> str:
        """What keeps the GPUs busy."""
        return "; ".join(self._gpus.complaints()) or "all GPUs are claimed by other runs"


class LocalEngine:
    """Starts `oelm train --config ... --resume`, through torchrun where a run has several processes."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def find_room(self, processes: int) -> Room | None:
        """A place, locked."""
        place = self._places.take(processes)
        return None if place is None else _Room(place)

    def refuse(self, processes: int) -> None:
        """More processes than this machine has GPUs would wait forever."""
        most = self._places.most()
        if most is not None and processes > most:
            raise ConfigError(
                f"a run of {processes} processes needs {processes} GPUs and there are {most}",
                "lower `processes` in the study, or use --on cpu",
            )

    def describe(self) -> str:
        """The places."""
        return self._places.describe()

    def why_waiting(self) -> str:
        """Why there is no place."""
        return self._places.why_waiting()


class _Room:
    def __init__(self, place: Place) -> None:
        self._place = place

    def start(self, job: Job, claim: Claim) -> Worker:
        try:
            log = console_log(job.folder)
            begins = log.stat().st_size if log.is_file() else 0
            process = _spawn(job, self._place, claim)
            return _Process(process, self._place.device, _Torchrun(log, begins) if job.processes > 1 else None)
        finally:
            self.give_back()  # the worker holds the locks now

    def give_back(self) -> None:
        for lock in self._place.locks:
            lock.let_go()


class _Process:
    def __init__(self, process: subprocess.Popen[bytes], device: str, torchrun: "_Torchrun | None") -> None:
        self._process = process
        self._torchrun = torchrun
        self.device = device

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def exit_code(self) -> int | None:
        code = self._process.poll()
        return code if self._torchrun is None or code != 1 else self._torchrun.exit_code()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)


@dataclass(frozen=True)
class _Torchrun:
    """torchrun ends with 1 whatever its processes did; what they ended with stands in what it printed."""

    log: Path
    begins: int

    def exit_code(self) -> int:
        with self.log.open("rb") as log:
            log.seek(self.begins)
            codes = [int(code) for code in re.findall(rb"^ *exitcode *: (-?\d+) ", log.read(), re.MULTILINE)]
        killed = [code for code in codes if code < 0 and -code != signal.SIGTERM]  # that one it sends itself
        return next(iter([*killed, *codes]), 1)


def console_log(folder: Path) -> Path:
    """Everything that a run's processes printed."""
    return folder / "console.log"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def places_folder() -> Path:
    """Where the locks of this machine's GPUs and CPU slots are; OELM_PLACES moves it."""
    return Path(os.environ.get("OELM_PLACES") or Path(tempfile.gettempdir()) / f"oelm-places-{os.getuid()}")


def _spawn(job: Job, place: Place, claim: Claim) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", **_PATIENT_TORCHRUN, **place.environment}
    inherited = [claim.held.descriptor, *(lock.descriptor for lock in place.locks)]
    with refusing_storage(console_log(job.folder)), console_log(job.folder).open("ab") as log:
        # A session of its own: the terminal's Ctrl-C reaches only us, and we ask the runs to save.
        return subprocess.Popen(
            _command(job),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=inherited,
            start_new_session=True,
        )


def _command(job: Job) -> Sequence[str]:
    train = ["-m", "oelm", "train", "--config", str(RunFolder(job.folder).config_file), "--resume"]
    if job.processes == 1:
        return [sys.executable, *train]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.processes)]
    return [sys.executable, *torchrun, *train]
