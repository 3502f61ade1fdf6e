"""Data-parallel training with two processes, compared with one: how much of the second one is gained.

torchrun starts two processes with one thread each (on GPUs: with one GPU each). In turns, round by round, the first
trains alone while the second waits; both train a model of their own, which shows what sharing the machine costs; and
both train one model, which adds the averaging of gradients. The batch per process is the same in all three.
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from oelm.base.errors import BenchError, ConfigError
from oelm.base.files import read_json, write_text
from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Parallel, ParallelRow
from oelm.bench.rounds import Emit
from oelm.bench.spec import BenchSpec
from oelm.bench.statistics import ratio_of
from oelm.config.methods import parse_method
from oelm.model.ledger import count_weights

PROCESSES = 2
Rounds = dict[str, list[float]]
"""Seconds per step, round by round, of `alone`, `side by side` and `together`."""


def measure_parallel(spec: BenchSpec, runtime: Runtime, emit: Emit) -> Parallel:
    """Start the processes and read what the first of them has timed."""
    if runtime.device.type == "cuda" and torch.cuda.device_count() < PROCESSES:
        raise ConfigError("data-parallel training needs a GPU for each process", "add --device cpu")
    emit("parallel: two processes")
    with TemporaryDirectory(prefix="oelm-bench-") as folder:
        rounds = _timed_by_torchrun(spec, Path(folder))
    return Parallel(
        spec=spec,
        processes=PROCESSES,
        backend=backend_of(runtime),
        rows=tuple(parallel_row(spec, name, rounds[name]) for name in spec.methods),
    )


def backend_of(runtime: Runtime) -> str:
    """What the processes talk through."""
    return "nccl" if runtime.device.type == "cuda" else "gloo"


def parallel_row(spec: BenchSpec, name: str, rounds: Rounds) -> ParallelRow:
    """One method's times as ratios within rounds."""
    alone, beside, together = rounds["alone"], rounds["side by side"], rounds["together"]
    return ParallelRow(
        method=name,
        alone_seconds=median(alone),
        side_by_side_seconds=median(beside),
        together_seconds=median(together),
        together=ratio_of(together, alone),
        communication=ratio_of(together, beside),
        trained_bytes=4 * count_weights(spec.shape, parse_method(name), total_steps=1).trained,
    )


def _timed_by_torchrun(spec: BenchSpec, folder: Path) -> dict[str, Rounds]:
    asked, answer = folder / "spec.json", folder / "rounds.json"
    write_text(asked, spec.model_dump_json())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    done = subprocess.run(
        [*launch, "-m", "oelm.bench.parallel_worker", str(asked), str(answer)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode or not answer.is_file():
        errors = [line for line in done.stderr.splitlines() if "Error" in line]
        reason = errors[0].strip() if errors else f"exit code {done.returncode}"
        raise BenchError(f"the two processes have failed: {reason}", "make the model or the batch smaller")
    rounds: dict[str, Rounds] = read_json(answer)
    return rounds
