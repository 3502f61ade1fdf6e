"""How busy a run's device is and how much of its memory is taken, for whoever watches the run."""

import os
import time
from contextlib import suppress
from pathlib import Path

import torch


class DeviceUse:
    """A GPU as NVML shows it, with everybody on it; on a CPU, this process among the threads that it may use."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._looked = (time.perf_counter(), time.process_time())

    def look(self) -> dict[str, float | int]:
        """Fields of state.json: the share of the time since the last look, and bytes; what is unknown is left out."""
        found: dict[str, float | int] = {}
        if self._device.type == "cuda":
            with suppress(RuntimeError, ModuleNotFoundError):
                free, total = torch.cuda.mem_get_info(self._device)
                found["memory_bytes"] = total - free
                found["utilisation"] = torch.cuda.utilization(self._device) / 100
            return found
        (clock, busy), self._looked = self._looked, (time.perf_counter(), time.process_time())
        span = self._looked[0] - clock
        if span > 0:
            found["utilisation"] = min(1.0, (self._looked[1] - busy) / span / torch.get_num_threads())
        with suppress(OSError):  # only Linux has it
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found["memory_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
        return found
