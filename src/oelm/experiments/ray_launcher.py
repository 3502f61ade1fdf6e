"""Runs as Ray tasks: each holds its share of the cluster and starts `oelm train --config ... --resume` as a process.

`ray.init` joins the cluster of RAY_ADDRESS, or one that was started on this machine, or starts one for as long as the
coordinator lives. A task that is lost with its node is not repeated by Ray: the coordinator submits its run again,
which resumes on another node from the folder that they share. Tasks end with their coordinator, and their runs save.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oelm.base.errors import ConfigError
from oelm.base.files import open_regular
from oelm.experiments.launcher import PATIENT_TORCHRUN, Job, JobState, worker_command
from oelm.experiments.resources import Resources
from oelm.train.folder import RunFolder

_POLL_SECONDS = 0.2
_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class RayLauncher:
    """Submits to a Ray cluster."""

    name = "ray"
    together = 1
    device_of_ours = "auto"

    def __init__(self, resources: Resources) -> None:
        self._ray = _started_ray()
        self._resources = resources
        self._tasks: dict[str, Any] = {}
        self._submitted = 0
        self.description = f"Ray, {_counted(len(self._nodes()), 'node')}"

    def capacity(self) -> int:
        """How many runs of one process there is room for if nobody else uses the cluster; at least one."""
        need = self._need(1)
        room = sum(min(int(node.get(kind, 0) // amount) for kind, amount in need.items()) for node in self._nodes())
        return max(1, room)

    def refuse(self, processes: int) -> None:
        """What no node could ever take; one run on several nodes has not been made to work with Ray."""
        if self._resources.nodes > 1:
            raise ConfigError("a run on Ray has one node", "leave `nodes` out of `resources`, or use --on slurm")
        need = self._need(processes)
        if not any(all(node.get(kind, 0) >= amount for kind, amount in need.items()) for node in self._nodes()):
            wanted = " and ".join(f"{amount:g} {kind}" for kind, amount in need.items())
            raise ConfigError(
                f"a run of {_counted(processes, 'process')} needs a node with {wanted}, and the Ray cluster has none",
                "change `resources` in the study or the profile (gpus: 0 trains on CPUs), or add nodes to the cluster",
            )

    def has_room(self, processes: int) -> bool:  # noqa: ARG002 (a queue takes any)
        """Tasks that find no room wait in Ray's queue."""
        return True

    def submit(self, folders: Sequence[Path], processes: int) -> list[Job]:
        """One task on one node."""
        (folder,) = folders
        start = (str(folder.resolve()), processes, str(Path.cwd()), self._environment())
        need = self._need(processes)
        options = {"num_cpus": need["CPU"], "num_gpus": need.get("GPU", 0), "max_retries": 0}
        if "memory" in need:
            options["memory"] = need["memory"]
        task = self._ray.remote(_work).options(**options).remote(*start)
        self._submitted += 1
        job = Job(f"{self._ray.get_runtime_context().get_job_id()}/{self._submitted}", "ray")
        self._tasks[job.id] = task
        return [job]

    def state(self, job: Job) -> JobState:
        """Tasks of a coordinator that is gone are gone with it."""
        task = self._tasks.get(job.id)
        if task is None:
            return JobState.ENDED
        ended, _ = self._ray.wait([task], timeout=0)
        return JobState.ENDED if ended else JobState.ALIVE

    def stop(self, job: Job) -> None:
        """Take its task from the queue, or let SIGTERM reach its run, which saves and ends."""
        self._ray.cancel(self._tasks[job.id], force=False)

    def why_waiting(self) -> str:
        """There is always room in the queue."""
        return "the Ray cluster is full"

    def _need(self, processes: int) -> dict[str, float]:
        """What a run needs of a node, as Ray counts it."""
        need = {"CPU": float(self._resources.cpus * processes)}
        if self._resources.gpus:
            need["GPU"] = float(processes)
        if self._resources.memory_bytes is not None:
            need["memory"] = float(self._resources.memory_bytes)
        return need

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _environment(self) -> dict[str, str]:
        """The coordinator's own, as on this machine and with SLURM; which GPUs, Ray says."""
        own = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        device = {} if self._resources.gpus else {"CUDA_VISIBLE_DEVICES": ""}
        threads = {"OMP_NUM_THREADS": str(self._resources.cpus), "TOKENIZERS_PARALLELISM": "false"}
        return {**own, **threads, **PATIENT_TORCHRUN, **device}


def _started_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("Ray is not installed", "pip install 'oelm[ray]'") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    return ray


def _work(folder: str, processes: int, cwd: str, environment: Mapping[str, str]) -> int:
    """The body of a task: the run's process, which is asked to save when the task is cancelled or its worker dies."""
    gpus = {name: value for name, value in os.environ.items() if name == "CUDA_VISIBLE_DEVICES" and value}
    with open_regular(RunFolder(Path(folder)).console_file, "ab") as log:
        child = subprocess.Popen(
            worker_command(folder, processes, ["--standalone"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env={**environment, **gpus},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        while child.poll() is None:
            time.sleep(_POLL_SECONDS)
    except BaseException:  # cancelled
        child.terminate()
        child.wait()
        raise
    return child.returncode


def _end_with_parent() -> None:
    """SIGTERM when the Ray worker dies: its share of the node is free then, and another run may come."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 'es' if thing.endswith('s') else 's'}"
