"""Which GPUs of a shared server are idle: no process on them and enough free memory, for long enough."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

_GIB = 1 << 30
_BLIND_SECONDS = 10.0
"""After a gap of this length between two looks, a GPU may have been used in between."""


@dataclass(frozen=True)
class GpuReading:
    """One GPU as NVML shows it at this moment."""

    index: int
    uuid: str
    name: str
    processes: tuple[int, ...]
    """Ids of all processes on it, of any user."""
    free_bytes: int


def read_gpus() -> tuple[GpuReading, ...]:
    """All GPUs that we may use, or none where there is no driver."""
    with _nvml() as nvml:
        if nvml is None:
            return ()
        allowed = _visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
        readings: list[GpuReading] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):  # a GPU that fell off the bus must not hide the others
                readings.append(_read(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index)))
        return tuple(reading for reading in readings if _is_allowed(reading, allowed))


def driver_version() -> str | None:
    """Of NVIDIA's driver; None where there is none."""
    with _nvml() as nvml:
        return None if nvml is None else _text(nvml.nvmlSystemGetDriverVersion())


@contextmanager
def _nvml() -> Iterator[Any]:
    """NVML while it is open; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any, index: int, handle: Any) -> GpuReading:
    processes: list[int] = []
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        with suppress(nvml.NVMLError):  # some drivers do not answer one of the two
            processes += [process.pid for process in ask(handle)]
    return GpuReading(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        processes=tuple(sorted(set(processes))),
        free_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).free),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _visible(setting: str | None) -> tuple[str, ...] | None:
    """The entries of CUDA_VISIBLE_DEVICES: indices or (beginnings of) UUIDs; None if all are visible.

    As in CUDA, nothing counts from the first entry on that can be neither: `-1` hides all.
    """
    if setting is None:
        return None
    parts = [part.strip() for part in setting.split(",")]
    return tuple(takewhile(lambda part: part.isdigit() or part.startswith(("GPU-", "MIG-")), parts))


def _is_allowed(reading: GpuReading, allowed: Sequence[str] | None) -> bool:
    if allowed is None:
        return True
    return any(entry == str(reading.index) or reading.uuid.startswith(entry) for entry in allowed)


@dataclass
class IdleGpus:
    """Remembers since when each GPU has looked idle: no process and so much memory free, for so long.

    A foreign process, memory in use, or a while in which nobody looked starts the wait anew. (A container may hide the
    processes of others, but not the memory that they use.)
    """

    free_bytes: int
    seconds: float
    read: Callable[[], tuple[GpuReading, ...]] = read_gpus
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, GpuReading] = field(default_factory=dict)
    _looked: float = -math.inf

    def idle(self) -> list[GpuReading]:
        """GPUs that have been idle for long enough. (Our own runs are processes like any other.)"""
        readings, now = self.read(), self.clock()
        self._seen = {reading.uuid: reading for reading in readings}
        watched = now - self._looked <= _BLIND_SECONDS
        self._since = {uuid: since for uuid, since in self._since.items() if watched and uuid in self._seen}
        self._looked = now
        for reading in readings:
            if self._busy(reading):
                self._since.pop(reading.uuid, None)
            else:
                self._since.setdefault(reading.uuid, now)
        return [
            reading
            for reading in readings
            if reading.uuid in self._since and now - self._since[reading.uuid] >= self.seconds
        ]

    def complaints(self) -> list[str]:
        """Why the others are not idle, a phrase each."""
        found = []
        for reading in self._seen.values():
            if reading.processes:
                found.append(f"GPU {reading.index} has {len(reading.processes)} process(es)")
            elif reading.free_bytes < self.free_bytes:
                found.append(f"GPU {reading.index} has {reading.free_bytes / _GIB:.1f} GiB free")
            elif reading.uuid in self._since:
                waited = self.clock() - self._since[reading.uuid]
                if waited < self.seconds:
                    found.append(f"GPU {reading.index} idle for {waited:.0f} of {self.seconds:.0f} s")
        return found

    def _busy(self, reading: GpuReading) -> bool:
        return bool(reading.processes) or reading.free_bytes < self.free_bytes
