"""Where a training step's time goes: matrix products, the model's other arithmetic, the optimiser, and the rest."""

import time
from collections.abc import Mapping

from torch.profiler import ProfilerActivity, profile

from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Profile, ProfileRow
from oelm.bench.ours import training
from oelm.bench.rounds import Act, Emit
from oelm.bench.spec import BenchSpec

GROUPS: Mapping[str, frozenset[str]] = {
    "products": frozenset({"mm", "addmm", "bmm", "baddbmm"}),
    "attention": frozenset(
        f"_scaled_dot_product_{kind}"
        for kind in (
            "flash_attention_for_cpu",
            "flash_attention_for_cpu_backward",
            "flash_attention",
            "flash_attention_backward",
            "efficient_attention",
            "efficient_attention_backward",
        )
    ),
    "softmax": frozenset({"_softmax", "exp2_", "exp"}),
    "GELU": frozenset({"gelu", "gelu_backward", "silu", "silu_backward"}),
    "norms": frozenset({"native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm"}),
    "AdamW": frozenset({"_fused_adamw_", "linalg_vector_norm", "_foreach_norm"}),
}
"""torch's operations by what they do; whatever else a step takes, Python's share included, is the rest."""


def measure_profile(spec: BenchSpec, runtime: Runtime, emit: Emit) -> Profile:
    """Every method by itself, after warming up."""
    rows = []
    for name in spec.methods:
        emit(f"profile {spec.size}: {name}")
        rows.append(_row(name, training(spec, name, runtime).act, spec.rounds, runtime))
    return Profile(spec=spec, rows=tuple(rows))


def _row(name: str, act: Act, steps: int, runtime: Runtime) -> ProfileRow:
    for index in range(2):
        act(index)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if runtime.device.type == "cuda" else [])
    with profile(activities=activities) as recorded:
        start = time.perf_counter()
        for index in range(steps):
            act(index)
        runtime.synchronise()
        seconds = (time.perf_counter() - start) / steps
    times = {event.key.removeprefix("aten::"): _microseconds(event) for event in recorded.key_averages()}
    shares = {
        group: sum(times.get(operation, 0.0) for operation in operations) / 1e6 / steps / seconds
        for group, operations in GROUPS.items()
    }
    return ProfileRow(method=name, step_seconds=seconds, shares={**shares, "rest": 1 - sum(shares.values())})


def _microseconds(event: object) -> float:
    """An operation's own time: on the GPU where there is one, else on the CPU."""
    return float(getattr(event, "self_device_time_total", 0) or getattr(event, "self_cpu_time_total", 0))
