"""Runs as processes of this machine, on idle GPUs or in CPU slots.

GPUs and slots are locked machine-wide, so that several coordinators, also of different studies, share them. A worker
inherits the locks of its slot: it is taken for exactly as long as somebody works in it.
"""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oelm.base.errors import ConfigError
from oelm.base.files import open_regular, private_folder
from oelm.base.locks import FileLock, is_locked
from oelm.experiments.gpus import IdleGpus, read_gpus
from oelm.experiments.launcher import PATIENT_TORCHRUN, Job, JobState, worker_command
from oelm.train.folder import RunFolder


@dataclass(frozen=True)
class Slot:
    """Room for one worker: locks that it inherits, and what its environment says of the device."""

    device: str
    locks: tuple[FileLock, ...]
    environment: dict[str, str]

    def release(self) -> None:
        """Our hold on it; a worker keeps its own."""
        for lock in self.locks:
            lock.release()


class CpuSlots:
    """As many runs at a time as there are slots; each gets its share of the cores."""

    most: int | None = None
    """No limit to a run's processes: more than there are cores are slow, not impossible."""

    def __init__(self, at_once: int, *, threads: int | None = None, folder: Path | None = None) -> None:
        self.threads = threads or max(1, cores() // at_once)
        self._count = max(at_once, cores() // self.threads)
        self._folder = folder or slots_folder()
        self.description = f"{self._count} CPU slots of {self.threads} thread{'s' if self.threads > 1 else ''}"

    def free(self, processes: int) -> bool:
        """One slot per process. A run of more processes than slots gets as many slots, of fewer threads."""
        return sum(not is_locked(path) for path in self._paths(processes)) >= processes

    def take(self, processes: int) -> Slot | None:
        """So many slots, all or nothing."""
        locks = _locked(self._paths(processes), processes)
        if not locks:
            return None
        threads = max(1, min(self.threads, cores() // processes))
        # No CUDA: a run that was put on the CPU must not look for a GPU.
        environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}
        return Slot(f"cpu x{threads * processes}", tuple(locks.values()), environment)

    def why_waiting(self) -> str:
        """Other runs have all slots."""
        return "all CPU slots are taken"

    def _paths(self, processes: int) -> list[Path]:
        return [self._folder / f"cpu-{slot}.lock" for slot in range(max(self._count, processes))]


class GpuSlots:
    """One GPU per process, each idle by NVML for a stated time and not claimed by another coordinator."""

    def __init__(self, gpus: IdleGpus, *, total: int, folder: Path | None = None) -> None:
        self._gpus = gpus
        self._folder = folder or slots_folder()
        self.most: int | None = total
        self._threads = max(1, cores() // total)
        self.description = (
            f"{total} GPU(s), each once it has had no process and {gpus.free_bytes / (1 << 30):.0f} GiB free "
            f"for {gpus.seconds:.0f} s"
        )

    def free(self, processes: int) -> bool:
        """Whether so many GPUs have been idle for long enough."""
        return len(self._gpus.idle()) >= processes

    def take(self, processes: int) -> Slot | None:
        """So many idle GPUs, all or nothing."""
        idle = {self._folder / f"{gpu.uuid}.lock": gpu for gpu in self._gpus.idle()}
        locks = _locked(list(idle), processes)
        if not locks:
            return None
        environment = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(idle[path].uuid for path in locks),
            "OMP_NUM_THREADS": str(self._threads),
        }
        device = "gpu " + ",".join(str(idle[path].index) for path in locks)
        return Slot(device, tuple(locks.values()), environment)

    def why_waiting(self) -> str:
        """What keeps the GPUs busy."""
        return "; ".join(self._gpus.complaints()) or "all GPUs are claimed by other runs"


class LocalLauncher:
    """Starts `oelm train --config ... --resume`, through torchrun where a run has several processes."""

    name = "local"
    together = 1

    def __init__(self, slots: CpuSlots | GpuSlots) -> None:
        self._slots = slots
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.description = slots.description
        self.device_of_ours = "cpu" if isinstance(slots, CpuSlots) else "auto"

    def refuse(self, processes: int) -> None:
        """More processes than this machine has GPUs would wait forever."""
        most = self._slots.most
        if most is not None and processes > most:
            raise ConfigError(
                f"a run of {processes} processes needs {processes} GPUs and there are {most}",
                "lower `processes` in the study, or use --on cpu",
            )

    def has_room(self, processes: int) -> bool:
        """Whether there are slots."""
        return self._slots.free(processes)

    def submit(self, folders: Sequence[Path], processes: int) -> list[Job]:
        """Start a process in a slot."""
        (folder,) = folders
        slot = self._slots.take(processes)
        if slot is None:
            return []
        try:
            child = _spawned(folder, processes, slot)
        finally:
            slot.release()  # the worker holds it now
        job = Job(process_id(child.pid), slot.device)
        self._children[job.id] = child
        return [job]

    def state(self, job: Job) -> JobState:
        """By asking the system."""
        child = self._children.get(job.id)
        if child is not None:
            return JobState.ALIVE if child.poll() is None else JobState.ENDED
        return process_state(job.id)

    def stop(self, job: Job) -> None:
        """SIGTERM: the run finishes its step, saves and ends."""
        child = self._children[job.id]
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)

    def why_waiting(self) -> str:
        """Why there is no slot."""
        return self._slots.why_waiting()


def local_launcher(
    on: str, at_once: int | None, threads: int | None, *, free_gib: float, idle_seconds: float
) -> tuple[LocalLauncher, int]:
    """GPUs where there are some, else CPU slots; and how many runs a coordinator has at a time at most."""
    gpus = 0 if on == "cpu" else len(read_gpus())
    if on == "gpu" and not gpus:
        raise ConfigError("NVML shows no GPU", "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use --on cpu")
    if gpus:
        idle = IdleGpus(free_bytes=int(free_gib * (1 << 30)), seconds=idle_seconds)
        return LocalLauncher(GpuSlots(idle, total=gpus)), at_once or gpus
    most = at_once or max(1, cores() // (threads or 1))
    return LocalLauncher(CpuSlots(most, threads=threads)), most


def process_id(pid: int) -> str:
    """Names a process uniquely, even if its pid is reused: host, pid and start time."""
    return f"{socket.gethostname()}/{pid}/{_birth(pid)}"


def process_state(job_id: str) -> JobState:
    """Whether the process named by `process_id` is running, if it is on this machine."""
    host, pid, birth = job_id.rsplit("/", 2)
    if host != socket.gethostname():
        return JobState.ELSEWHERE
    return JobState.ALIVE if birth and _birth(int(pid)) == birth else JobState.ENDED


def _birth(pid: int) -> str:
    """Start time in clock ticks since boot (field 22 of /proc/PID/stat); empty for a dead process or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slots_folder() -> Path:
    """Where the locks of this machine's GPUs and CPU slots are; OELM_PLACES moves it."""
    if given := os.environ.get("OELM_PLACES"):
        return Path(given)
    return private_folder(Path(tempfile.gettempdir()) / f"oelm-places-{os.getuid()}", "OELM_PLACES")


def _locked(paths: Sequence[Path], count: int) -> dict[Path, FileLock] | None:
    """The first `count` that can be locked, or none."""
    held: dict[Path, FileLock] = {}
    for path in paths:
        if (lock := FileLock.take(path)) is not None:
            held[path] = lock
        if len(held) == count:
            return held
    for lock in held.values():
        lock.release()
    return None


def _spawned(folder: Path, processes: int, slot: Slot) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", **PATIENT_TORCHRUN, **slot.environment}
    console = RunFolder(folder).console_file
    with open_regular(console, "ab") as log:
        # A session of its own: the terminal's Ctrl-C reaches only us, and we ask the runs to save.
        return subprocess.Popen(
            worker_command(str(folder), processes),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=[lock.descriptor for lock in slot.locks],
            start_new_session=True,
        )
