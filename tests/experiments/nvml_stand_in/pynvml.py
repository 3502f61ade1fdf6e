"""A stand-in for NVML on machines without a GPU: what it shows is in the JSON file that NVML_STAND_IN names.

{"gpus": [{"uuid": "GPU-a", "free": 8589934592, "compute": [4711], "graphics": [], "lost": false}]}; no file: no driver.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


def _shown() -> dict[str, Any]:
    path = Path(os.environ["NVML_STAND_IN"])
    if not path.is_file():
        raise NVMLError("Driver Not Loaded")
    shown: dict[str, Any] = json.loads(path.read_text())
    return shown


def nvmlInit() -> None:  # noqa: N802 (NVML's own names)
    _shown()


def nvmlShutdown() -> None:  # noqa: N802
    pass


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return "570.00"


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_shown()["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> dict[str, Any]:  # noqa: N802
    handle: dict[str, Any] = _shown()["gpus"][index]
    if handle.get("lost"):
        raise NVMLError("GPU is lost")
    return handle


def nvmlDeviceGetUUID(handle: dict[str, Any]) -> bytes:  # noqa: N802
    return str(handle["uuid"]).encode()


def nvmlDeviceGetName(handle: dict[str, Any]) -> str:  # noqa: N802
    return "Stand-in 9000"


def nvmlDeviceGetMemoryInfo(handle: dict[str, Any]) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(free=handle["free"])


def nvmlDeviceGetComputeRunningProcesses(handle: dict[str, Any]) -> list[SimpleNamespace]:  # noqa: N802
    return [SimpleNamespace(pid=pid) for pid in handle.get("compute", ())]


def nvmlDeviceGetGraphicsRunningProcesses(handle: dict[str, Any]) -> list[SimpleNamespace]:  # noqa: N802
    if "graphics" not in handle:
        raise NVMLError("Not Supported")
    return [SimpleNamespace(pid=pid) for pid in handle["graphics"]]
