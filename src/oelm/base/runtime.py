"""The machine as a value: which device, which process of how many, and torch's side of the random streams."""

import ctypes
import gc
import os
import platform
import re
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from oelm.base.errors import ConfigError
from oelm.base.streams import stream_seed


@dataclass(frozen=True)
class Runtime:
    """Where this process computes."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """True for the one process that writes files and prints."""
        return self.rank == 0

    @property
    def device_name(self) -> str:
        """The device's model, never the machine's name."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type

    def synchronise(self) -> None:
        """Wait until the device has done all that was asked, so that a clock tells the truth."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def reset_peak(self) -> None:
        """Measure peak memory from now on. Where the system cannot, a CPU's stays that of the whole process."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        elif _CLEAR.exists():
            if platform.libc_ver()[0] == "glibc":
                ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
            with suppress(OSError):  # some containers show the file and refuse it
                _CLEAR.write_text("5")

    def peak_bytes(self) -> int:
        """Peak memory: of the device on a GPU, of this process on a CPU."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        if mark := re.search(r"^VmHWM:\s+(\d+) kB$", _read(_STATUS), re.MULTILINE):
            return 1024 * int(mark[1])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * _RSS_UNIT


def sum_dtype(device: torch.device) -> torch.dtype:
    """What sums on a device are kept in: float64, but float32 on MPS, which refuses to make a float64 tensor.

    No machine of ours has MPS: nothing has been run there.
    """
    return torch.float32 if device.type == "mps" else torch.float64


def world_from_environment() -> tuple[int, int, int]:
    """Rank, local rank and world size as torchrun gives them; (0, 0, 1) without it."""
    environment = os.environ
    return int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0)), int(environment.get("WORLD_SIZE", 1))


# Linux's own mark can be reset, and is not inherited from whatever started this process, as getrusage's is.
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# getrusage counts in bytes on macOS and in KiB elsewhere.
_RSS_UNIT = 1 if platform.system() == "Darwin" else 1024


def choose_runtime(device: str) -> Runtime:
    """The device of this process: `auto` takes this process's GPU if there is one, else the CPU."""
    rank, local_rank, world = world_from_environment()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        if chosen.type not in ("cpu", "cuda", "mps"):  # meta and others compute nothing, or nothing that we know
            raise RuntimeError(f"{chosen.type} is not a kind of device that oelm trains on")
        if device == "cuda":
            chosen = torch.device("cuda", local_rank)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"device {device!r} cannot be used: {reason}", "choose --device cpu, cuda, cuda:N or mps"
        ) from error
    if chosen.type == "cpu":
        keep_freed_memory()
        avoid_unusable_tiles()
    return Runtime(device=chosen, rank=rank, world=world)


def require_memory(needed_bytes: float, what: str) -> None:
    """Refuse what is larger than this machine's memory, before the system kills us for trying."""
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed_bytes > present:
        raise ConfigError(
            f"{what} needs at least {needed_bytes / 1e9:,.0f} GB of memory, and this machine has {present / 1e9:,.0f}",
            "choose a smaller model, context or batch",
        )


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4


def keep_freed_memory() -> None:
    """Let the C library keep what is freed for the next step, instead of giving it back to the system.

    A step frees hundreds of megabytes and asks for them again, and new pages have to be cleared first. Without effect
    where the C library is not glibc.
    """
    _mallopt(_M_MMAP_MAX, 0)  # large blocks come from the heap, where they can be used again
    _mallopt(_M_TRIM_THRESHOLD, -1)  # and the heap never shrinks


def give_large_blocks_back() -> None:
    """Return blocks of 32 MB and more to the system, as the C library does by default."""
    _mallopt(_M_MMAP_MAX, 65536)
    _mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def _mallopt(parameter: int, value: int) -> None:
    function = getattr(ctypes.CDLL(None), "mallopt", None) if platform.system() == "Linux" else None
    if function is not None:
        function(parameter, value)


_CPUINFO = Path("/proc/cpuinfo")


def processor(cpuinfo: Path = _CPUINFO) -> str:
    """The model of the CPU, never the machine's name."""
    found = re.search(r"model name\s*:\s*(.+)", _read(cpuinfo))
    return found[1].strip() if found else platform.machine()


_ASKED_BY_MKL = "mkl_serv_intel_cpu_true"


def leaves_vectors_unused(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether MKL, which computes torch's products, leaves AVX-512 unused because the processor is not Intel's.

    It asks a function of its own, which a library that is loaded before it can answer in its place: docs/speed.md.
    """
    text = _read(cpuinfo)
    if "AuthenticAMD" not in text or "avx512f" not in text or not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False
    return not hasattr(ctypes.CDLL(None), _ASKED_BY_MKL)


_TILE_LEAF = 0x1D


def avoid_unusable_tiles(cpuinfo: Path = _CPUINFO) -> None:
    """Keep torch off Intel's matrix tiles (AMX) in a virtual machine that names them but does not describe them.

    The oneDNN of torch 2.13 asks for the name only: its first bf16 product would end the process with an illegal
    instruction (oneDNN issue 5689). Tiles are described by CPUID's leaf 0x1D.
    """
    text = _read(cpuinfo)
    highest_leaf = re.search(r"^cpuid level\s*: (\d+)$", text, re.MULTILINE)
    if highest_leaf and int(highest_leaf[1]) < _TILE_LEAF and "amx_tile" in text:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")  # oneDNN's name for all but the tiles


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def generator_for(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose; see `oelm.base.streams`."""
    return torch.Generator().manual_seed(stream_seed(seed, *purpose))
