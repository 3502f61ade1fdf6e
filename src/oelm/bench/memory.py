"""Peak memory of one contestant in a process of its own, above what the process held before the model was built.

On a CPU it is the system's high-water mark of resident memory (VmHWM), reset once the model is built, because drawing
the weights in float64 may need more than a step does. Where the mark cannot be reset it spans the process's whole
life. On CUDA it is `torch.cuda.max_memory_allocated`, reset at the same moment.
"""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import torch

from oelm.base.errors import BenchError
from oelm.base.runtime import Runtime, choose_runtime
from oelm.bench.line_up import line_up
from oelm.bench.spec import BenchSpec, Peer, peer_name

_STEPS = 3
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def how_measured(runtime: Runtime) -> str:
    """What the numbers are."""
    if runtime.device.type == "cuda":
        return "torch.cuda.max_memory_allocated over a few steps"
    if _CLEAR.exists():
        return "resident high-water mark (VmHWM) over a few steps, less the resident size before the model was built"
    return "resident high-water mark of the whole process, less the resident size before the model was built"


def peak_of(spec: BenchSpec, name: str) -> int:
    """Bytes, measured in a new process."""
    command = [sys.executable, "-m", "oelm.bench.memory", name]
    done = subprocess.run(command, input=spec.model_dump_json(), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(
            f"the process that measures the memory of {name!r} has failed: {last}",
            "make the model or the batch smaller, or leave memory out with --no-memory",
        )
    return int(done.stdout.split()[-1])


def measure_here(spec: BenchSpec, name: str) -> int:
    """Build the contestant in this process, take a few steps, and see how much that needed."""
    torch.set_num_threads(spec.threads or torch.get_num_threads())
    runtime = choose_runtime(spec.device)
    _warm_up(runtime, transformers=name.startswith(peer_name(spec, Peer.HUGGING_FACE)))
    builder = line_up(spec, runtime)[name]
    before = 0 if runtime.device.type == "cuda" else resident_bytes()
    contestant = builder()
    runtime.reset_peak()
    for index in range(_STEPS):
        contestant.act(index)
    return runtime.peak_bytes() - before


def resident_bytes() -> int:
    """Resident memory of this process now; 0 where the system does not say."""
    found = re.search(r"VmRSS:\s+(\d+) kB", _STATUS.read_text()) if _STATUS.exists() else None
    return 1024 * int(found[1]) if found else 0


def _warm_up(runtime: Runtime, *, transformers: bool) -> None:
    """Let torch's own buffers and threads, and all code that is loaded late, come before the measurement."""
    if transformers:
        import_module("oelm.surgery.random_models")
    layer = torch.nn.Linear(256, 256, device=runtime.device)
    optimiser = torch.optim.AdamW(layer.parameters(), fused=True)
    layer(torch.ones(256, 256, device=runtime.device)).square().sum().backward()
    optimiser.step()


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    print(measure_here(BenchSpec.model_validate_json(sys.stdin.read()), sys.argv[1]))
