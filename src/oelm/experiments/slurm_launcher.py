"""Runs as SLURM jobs: job arrays by sbatch, found again by squeue, ended by scancel. No accounting is needed.

A job that is preempted or loses its node is queued again by SLURM, and its run resumes. One that meets its time limit
has saved itself before; SLURM does not queue it again, but the coordinator does.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oelm.base.errors import ConfigError, StorageError
from oelm.base.files import open_regular
from oelm.experiments.launcher import PATIENT_TORCHRUN, Job, JobState, worker_command
from oelm.experiments.resources import Resources
from oelm.train.folder import RunFolder

JOB_NAME = "oelm"
AT_ONCE = 100
"""Jobs that a coordinator has in the queue at a time, if the person does not say."""

_LOOK_SECONDS = 5.0
"""How long an answer of squeue counts: sites do not like to be asked more often."""
_REFUSED_SECONDS = 15.0
"""How long sbatch is left alone after it has refused."""
_ANSWER_SECONDS = 60.0


class SlurmLauncher:
    """Submits to the cluster that this machine's `sbatch` knows."""

    name = "slurm"
    together = AT_ONCE
    device_of_ours = "auto"

    def __init__(self, resources: Resources) -> None:
        missing = next((tool for tool in ("sbatch", "squeue", "scancel") if shutil.which(tool) is None), None)
        if missing is not None:
            raise ConfigError(f"there is no `{missing}` here", "start it on a machine of the cluster that submits jobs")
        self._resources = resources
        self._jobs: dict[str, str] | None = None
        """What squeue last showed: state by job; None if it gave no answer."""
        self._folders: dict[str, Path] = {}
        """Of the jobs whose end we have not seen."""
        self._looked = self._refused = -float("inf")
        self._problem = ""
        self.description = f"SLURM{f', partition {resources.partition}' if resources.partition else ''}"

    def refuse(self, processes: int) -> None:
        """What cannot be divided among the nodes, and what SLURM says that it will never start."""
        script = batch_script([Path("/nowhere")], processes, self._resources)
        tried = _asked("sbatch", "--test-only", stdin=script)
        if tried.returncode:
            raise ConfigError(
                f"SLURM would not take a run of {processes} process{'es' if processes > 1 else ''}: {_said(tried)}",
                "change `resources` in the study or the profile; `oelm experiment plan --on slurm` prints the script",
            )

    def has_room(self, processes: int) -> bool:  # noqa: ARG002 (a queue takes any)
        """There is a queue, unless sbatch has just refused."""
        return time.monotonic() - self._refused > _REFUSED_SECONDS

    def submit(self, folders: Sequence[Path], processes: int) -> list[Job]:
        """One job array, a task for each run."""
        script = batch_script([folder.resolve() for folder in folders], processes, self._resources)
        given = _asked("sbatch", "--parsable", stdin=script)
        if given.returncode:
            self._problem, self._refused = _said(given), time.monotonic()
            return []
        self._looked = -float("inf")  # what squeue showed is from before
        array = given.stdout.strip().partition(";")[0]
        jobs = [Job(f"{array}_{task}", f"slurm {array}_{task}") for task in range(len(folders))]
        self._folders |= {job.id: folder for job, folder in zip(jobs, folders, strict=True)}
        return jobs

    def state(self, job: Job) -> JobState:
        """By squeue, which shows what waits and what runs."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._jobs = queued_jobs()
            self._looked = time.monotonic()
        if self._jobs is None:
            return JobState.UNKNOWN
        if job.id in self._jobs:
            return JobState.ALIVE
        if job.id in self._folders:
            _note_end(job.id, self._folders.pop(job.id))
        return JobState.ENDED

    def stop(self, job: Job) -> None:
        """Through scancel."""
        cancel(job.id)

    def why_waiting(self) -> str:
        """What sbatch said."""
        return f"sbatch refused ({self._problem}); fewer at a time may help: --at-once"


def cancel(job: str) -> None:
    """Take a job from the queue, or let SIGTERM reach its run, which saves and ends."""
    _asked("scancel", "--state=PENDING", job)
    _asked("scancel", "--batch", "--signal=TERM", job)


def queued_jobs() -> dict[str, str] | None:
    """The state of every job of ours that waits or runs, of all users, by its id; None if SLURM gives no answer."""
    shown = _asked("squeue", "--noheader", "--array", f"--name={JOB_NAME}", "--format=%i %T")
    if shown.returncode:
        return None
    return dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if line.strip())


def _note_end(job: str, folder: Path) -> None:
    """Add to what the run printed why SLURM ended it, where SLURM knows: out of memory, time, a failed node."""
    shown = _asked("scontrol", "--oneliner", "show", "job", job).stdout
    if not shown:  # forgotten after some minutes; accounting remembers, where there is some
        shown = _asked("sacct", "--noheader", "--allocations", "--format=State", f"--jobs={job}").stdout
        shown = f"JobState={shown.strip()}" if shown.strip() else ""
    facts = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    if facts.get("JobState", "COMPLETED") != "COMPLETED":
        ended = f"SLURM job {job} ended as {facts['JobState']} (exit code {facts.get('ExitCode', 'unknown')})\n"
        with suppress(OSError, StorageError), open_regular(RunFolder(folder).console_file, "ab") as log:
            log.write(ended.encode())


def batch_script(folders: Sequence[Path], processes: int, resources: Resources) -> str:
    """A job array: task N is the run in the Nth folder, and the run's process is what SLURM signals."""
    options = "\n".join(f"#SBATCH {option}" for option in _options(len(folders), processes, resources))
    listed = "\n".join(f"  {shlex.quote(str(folder))}" for folder in folders)
    environment = {"OMP_NUM_THREADS": str(resources.cpus), "TOKENIZERS_PARALLELISM": "false", **PATIENT_TORCHRUN}
    if not resources.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""  # a run that was put on the CPU must not look for a GPU
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    setup = "".join(f"{line}\n" for line in resources.setup)
    return f"""#!/bin/bash
{options}
folders=(
{listed}
)
folder=${{folders[$SLURM_ARRAY_TASK_ID]}}
exec >>"$folder/console.log" 2>&1
{setup}{exports}
{_start(processes, resources)}
"""


def _options(runs: int, processes: int, resources: Resources) -> list[str]:
    per_node = _per_node(processes, resources)
    chosen = {
        "job-name": JOB_NAME,
        "array": f"0-{runs - 1}",
        "nodes": resources.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": resources.cpus * per_node,
        "gres": f"gpu:{per_node}" if resources.gpus else None,
        "mem": resources.memory,
        "time": resources.minutes,
        "signal": f"B:TERM@{resources.save_seconds}",
        "partition": resources.partition,
        "account": resources.account,
        "constraint": resources.constraint,
        "chdir": Path.cwd(),
        "output": os.devnull,  # a run prints into its own folder
    }
    given = [f"--{name}={shlex.quote(str(value))}" for name, value in chosen.items() if value is not None]
    return [*given, "--requeue", *resources.sbatch]


def _start(processes: int, resources: Resources) -> str:
    """`exec`: SIGTERM, which SLURM sends to the script alone, must reach the run.

    On several nodes srun stands between, which would kill its tasks at once: they are signalled through SLURM. By the
    array's id and the task's: one task of an array has the array's id as SLURM_JOB_ID, and would signal all of them.
    """
    per_node = _per_node(processes, resources)
    if resources.nodes == 1:
        return f"exec {_command(worker_command('$folder', processes))}"
    port = "$((20000 + SLURM_JOB_ID % 12000))"
    meet = ["--nnodes", str(resources.nodes), "--rdzv-backend=c10d", "--rdzv-id=$SLURM_JOB_ID"]
    command = _command(worker_command("$folder", per_node, [*meet, f"--rdzv-endpoint=$(hostname):{port}"]))
    return f"""trap 'scancel --signal=TERM "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"' TERM
srun --kill-on-bad-exit --cpus-per-task={resources.cpus * per_node} {command} &
while ! wait $!; do
  kill -0 $! 2>/dev/null || exit 1
done"""


def _per_node(processes: int, resources: Resources) -> int:
    if processes % resources.nodes:
        raise ConfigError(
            f"{processes} processes cannot be divided among {resources.nodes} nodes",
            "make `processes` of the study a multiple of `nodes` in its `resources`",
        )
    return processes // resources.nodes


def _command(words: Sequence[str]) -> str:
    """For the shell, which replaces the variables in it."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)


def _asked(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Ask SLURM; no answer is a failure like any other."""
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (subprocess.TimeoutExpired, FileNotFoundError):  # some sites have no sacct
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} gave no answer")


def _said(refused: subprocess.CompletedProcess[str]) -> str:
    lines = [line.removeprefix("sbatch: error: ") for line in refused.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"{refused.args[0]} failed"
