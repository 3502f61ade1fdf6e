"""Two processes that torchrun starts: what they said if they fail, and none of them is left behind if they hang."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from oelm.config.record import Record
from oelm.config.yaml_file import write_yaml
from oelm.experiments.doctor_bench import BATCH, CPU, Bench
from oelm.experiments.local_launcher import cores

PROCESSES = 2

_WAIT_SECONDS = 180.0
_CLOSING_SECONDS = 45.0
"""torchrun waits 30 s for its processes before it kills them."""
_TORCHRUN_LINE = re.compile(r"^[EW]\d{4} .*torch/distributed/", re.MULTILINE)


def trained_by_two(bench: Bench) -> tuple[str, Record]:
    """Half of the batch each: on two GPUs over NCCL, else on the CPU over gloo."""
    on_gpus = torch.cuda.device_count() >= PROCESSES
    config = bench.config(processes=PROCESSES, batch_size=BATCH // PROCESSES, device="cuda" if on_gpus else CPU)
    file, folder = bench.folder / "parallel.yaml", bench.run_folder("parallel")
    write_yaml(config, file)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(PROCESSES)]
    command = [*torchrun, "-m", "oelm", "train", "--config", str(file), "--out-dir", str(folder.path)]
    run_apart(command, bench.folder / "parallel.log", _WAIT_SECONDS)
    return "NCCL" if on_gpus else "gloo", folder.record()


def run_apart(command: Sequence[str], log: Path, seconds: float) -> None:
    """Run torchrun to its end, or fail with what it and its processes said."""
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // PROCESSES))}
    with log.open("w") as output:  # a pipe would be held open by a process that is left
        agent = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **threads})
    try:
        code = agent.wait(seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {seconds:.0f} s; until then: {why_failed(log.read_text())}") from None
    finally:
        _close(agent)
    if code:
        raise RuntimeError(why_failed(log.read_text()))


def _close(agent: subprocess.Popen[bytes]) -> None:
    """Nothing if it has ended. A killed torchrun would leave its processes, which are sessions of their own."""
    agent.terminate()
    try:
        agent.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()


def why_failed(output: str) -> str:
    """Our own error lines, each once; else what came before torchrun's first line and its table; else everything."""
    errors = [line for line in output.splitlines() if line.startswith("error:")]
    said = "\n".join(dict.fromkeys(errors)) or _TORCHRUN_LINE.split(output)[0].strip()
    return said or output.strip() or "nothing"
