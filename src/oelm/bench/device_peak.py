"""What a device could do at best: dense peaks of data sheets by the device's name, or a measured matrix product.

A name must match a row as a whole: a variant (laptop, Ti, another form factor) has another peak, so it is measured.
"""

import re
import time
from dataclasses import dataclass

import torch

from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Peak
from oelm.config.run import Precision

CPU_SIDE, GPU_SIDE = 2048, 8192


@dataclass(frozen=True)
class DeviceRow:
    """Dense peaks in TFLOP/s, products accumulated in float32; None where the device lacks the format."""

    name: str
    pattern: str
    bf16: float | None
    fp16: float
    tf32: float | None
    fp32: float


DEVICES = (
    DeviceRow("H200 SXM", r"H200", 989.4, 989.4, 494.7, 66.9),
    DeviceRow("H100 SXM", r"H100 80GB HBM3|H100 SXM5?.*", 989.4, 989.4, 494.7, 66.9),
    DeviceRow("H100 PCIe", r"H100 PCIe", 756.0, 756.0, 378.0, 51.0),
    DeviceRow("A100", r"A100-.*|A100 .*|A100", 312.0, 312.0, 156.0, 19.5),
    DeviceRow("A40", r"A40", 149.7, 149.7, 74.8, 37.4),
    DeviceRow("A30", r"A30", 165.0, 165.0, 82.0, 10.3),
    DeviceRow("A10", r"A10", 125.0, 125.0, 62.5, 31.2),
    DeviceRow("RTX A6000", r"RTX A6000", 154.8, 154.8, 77.4, 38.7),
    DeviceRow("L40S", r"L40S", 362.1, 362.1, 183.2, 91.6),
    DeviceRow("L4", r"L4", 121.0, 121.0, 60.0, 30.3),
    DeviceRow("V100 SXM2", r"V100-SXM2-.*", None, 125.0, None, 15.7),
    DeviceRow("V100 PCIe", r"V100-PCIE-.*", None, 112.0, None, 14.0),
    DeviceRow("T4", r"T4", None, 65.0, None, 8.1),
    DeviceRow("RTX 4090", r"GeForce RTX 4090", 165.2, 165.2, 82.6, 82.6),
    DeviceRow("RTX 3090", r"GeForce RTX 3090", 71.0, 71.0, 35.6, 35.6),
)


def listed_peak(name: str, precision: Precision, *, tf32: bool) -> Peak | None:
    """The data sheet's peak for the arithmetic of a step; None for a device or arithmetic that is not listed."""
    bare = re.sub(r"^(NVIDIA|Tesla)\s+", "", re.sub(r"^NVIDIA\s+Tesla\s+", "", name.strip()))
    row = next((row for row in DEVICES if re.fullmatch(row.pattern, bare)), None)
    if row is None or precision is Precision.FLOAT64:
        return None
    if precision is Precision.BF16:
        kind, tera = "bf16", row.bf16
    elif tf32 and row.tf32 is not None:
        kind, tera = "tf32", row.tf32
    else:
        kind, tera = "fp32", row.fp32
    return None if tera is None else Peak(flops_per_second=tera * 1e12, source=f"data sheet: {row.name}, {kind} dense")


def runtime_peak(runtime: Runtime, precision: Precision, measured: float) -> Peak:
    """The listed peak of a GPU if its name is known, else the product that was measured."""
    if runtime.device.type == "cuda":
        tf32 = torch.get_float32_matmul_precision() != "highest"
        if listed := listed_peak(runtime.device_name, precision, tf32=tf32):
            return listed
        source = f"measured: a {product_type(runtime, precision)} product ({runtime.device_name} is not in the table)"
        return Peak(flops_per_second=measured, source=source)
    return Peak(flops_per_second=measured, source=f"measured: a {product_type(runtime, precision)} product")


def product_type(runtime: Runtime, precision: Precision) -> str:
    """Size and type of the product that is timed: on a CPU always float32, the machine's sgemm."""
    side = _side(runtime)
    return f"{side} x {side} {str(_dtype(runtime, precision)).removeprefix('torch.')}"


class MatrixProduct:
    """A square matrix product that can be timed again and again."""

    def __init__(self, runtime: Runtime, precision: Precision) -> None:
        shape, dtype = (_side(runtime), _side(runtime)), _dtype(runtime, precision)
        generator = torch.Generator().manual_seed(0)
        self._runtime = runtime
        self._left = torch.randn(shape, generator=generator).to(runtime.device, dtype)
        self._right = torch.randn(shape, generator=generator).to(runtime.device, dtype)
        self._product = torch.empty_like(self._left)

    def flops_per_second(self) -> float:
        """2 n^3 / seconds of one product."""
        self._runtime.synchronise()
        start = time.perf_counter()
        torch.mm(self._left, self._right, out=self._product)
        self._runtime.synchronise()
        return 2.0 * float(len(self._left)) ** 3 / (time.perf_counter() - start)


def _side(runtime: Runtime) -> int:
    return CPU_SIDE if runtime.device.type == "cpu" else GPU_SIDE


def _dtype(runtime: Runtime, precision: Precision) -> torch.dtype:
    return torch.bfloat16 if precision is Precision.BF16 and runtime.device.type != "cpu" else torch.float32
