"""A launcher whose workers are forked from the coordinator, with torch in memory already: a run takes a few tenths of
a second. Coordinator, claims, processes, signals and training are the real ones; only the start-up is quick."""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from oelm.experiments import coordinate
from oelm.experiments.coordinate import Outcome, Stopped, bring_to_records
from oelm.experiments.launcher import Job, JobState
from oelm.experiments.local_launcher import process_id, process_state
from oelm.experiments.matrix import StudyRun
from oelm.train.folder import RunFolder
from train.processes import Running, running, until


@dataclass(frozen=True)
class ForkLauncher:
    """There is always room; `starts` gets a line for every start, before anything else."""

    starts: Path
    start_up_seconds: float = 0.0
    """How long a worker takes until it can be asked to save."""
    name: str = "fork"
    description: str = "forks"
    together: int = 1
    forgetful: bool = False
    """Whether it cannot say what has become of a job until the job's run is finished."""
    children: dict[str, int] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    def refuse(self, processes: int) -> None:
        pass

    def has_room(self, processes: int) -> bool:
        return True

    def why_waiting(self) -> str:
        return "never"

    def submit(self, folders: Sequence[Path], processes: int) -> list[Job]:
        jobs = []
        for folder in folders:
            pid = os.fork()
            if pid == 0:
                _work(folder, self)
            job = Job(process_id(pid), "fork")
            self.children[job.id] = pid
            self.folders[job.id] = folder
            jobs.append(job)
        return jobs

    def state(self, job: Job) -> JobState:
        if self.forgetful and not RunFolder(self.folders[job.id]).finished:
            return JobState.UNKNOWN
        pid = self.children.get(job.id)
        if pid is None:
            return process_state(job.id)
        try:
            return JobState.ENDED if os.waitpid(pid, os.WNOHANG)[0] else JobState.ALIVE
        except ChildProcessError:  # it was waited for before
            return JobState.ENDED

    def stop(self, job: Job) -> None:
        if self.state(job) is JobState.ALIVE:
            os.kill(self.children[job.id], signal.SIGTERM)


def _work(folder: Path, launcher: ForkLauncher) -> None:
    """`oelm train --config ... --resume`, as the local launcher starts it: nothing that is open is inherited."""
    code = 70
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, 1024)
        os.setsid()
        log = os.open(RunFolder(folder).console_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with launcher.starts.open("a") as starts:
            starts.write(f"{folder.name}\n")
        time.sleep(launcher.start_up_seconds)
        from oelm.cli.main import main

        sys.argv = ["oelm", "train", "--config", str(folder / "config.yaml"), "--resume"]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def started_in(out: Path) -> list[str]:
    """The names of all runs in the order in which they were started, whoever started them."""
    path = out / "starts"
    return path.read_text().split() if path.exists() else []


def coordinator(
    runs: Sequence[StudyRun],
    out: Path,
    *,
    at_once: int = 2,
    start_up_seconds: float = 0.0,
    keep: bool = True,
    forgetful: bool = False,
    of: int = 1,
) -> Running:
    """A coordinator in a process of its own, which begins when `of` of them are there. It prints what it shows and,
    last of all, how the runs ended."""
    launcher = ForkLauncher(out / "starts", start_up_seconds, forgetful=forgetful)
    return running(coordinate_forks, list(runs), out, launcher, at_once, keep, of)


def coordinate_forks(
    runs: list[StudyRun], out: Path, launcher: ForkLauncher, at_once: int, keep_checkpoints: bool, of: int
) -> None:
    coordinate.POLL_SECONDS = 0.02  # hurry: more starts at the same instant
    (out / f"coordinator-{os.getpid()}").touch()
    until(lambda: len(list(out.glob("coordinator-*"))) >= of)
    console = Console(width=200)
    try:
        outcome = bring_to_records(
            runs, launcher, out, at_once=at_once, keep_checkpoints=keep_checkpoints, console=console
        )
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    print(json.dumps(_names(outcome)))


def _names(outcome: Outcome) -> dict[str, list[str]]:
    return {
        "failed": [run.name for run in outcome.failed],
        "diverged": [run.name for run in outcome.diverged],
        "interrupted": [run.name for run in outcome.interrupted],
    }


def outcome_of(ended: Running) -> dict[str, list[str]]:
    """What a coordinator said at its end."""
    end = ended.ended()
    assert end.code == 0, end.err
    said: dict[str, list[str]] = json.loads(end.out.splitlines()[-1])
    return said
