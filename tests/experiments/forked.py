"""An engine whose workers are forked from the coordinator, with torch in memory already: a run takes a few tenths of a
second. Coordinator, claims, processes, signals and training are the real ones; only the start-up is quick."""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from oelm.experiments import coordinate
from oelm.experiments.claims import Claim
from oelm.experiments.coordinate import Outcome, Stopped, bring_to_records
from oelm.experiments.engine import Job
from oelm.experiments.local import console_log
from oelm.experiments.matrix import StudyRun
from train.processes import Running, running


@dataclass
class _Worker:
    pid: int | None
    code: int | None = None
    device: str = "fork"

    def exit_code(self) -> int | None:
        if self.code is None and self.pid is not None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def stop(self) -> None:
        if self.exit_code() is None and self.pid is not None:
            os.kill(self.pid, signal.SIGTERM)


@dataclass(frozen=True)
class ForkEngine:
    """There is always room; `starts` gets a line for every start, before anything else."""

    starts: Path
    start_up_seconds: float = 0.0
    """How long a worker takes until it can be asked to save."""

    def find_room(self, processes: int) -> "ForkEngine":
        return self

    def give_back(self) -> None:
        pass

    def refuse(self, processes: int) -> None:
        pass

    def describe(self) -> str:
        return "forks"

    def why_waiting(self) -> str:
        return "never"

    def start(self, job: Job, claim: Claim) -> _Worker:
        pid = os.fork()
        if pid == 0:
            _work(job, self)
        return _Worker(pid)


def _work(job: Job, engine: ForkEngine) -> None:
    """`oelm train --config ... --resume`, as the local engine starts it."""
    code = 70
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        log = os.open(console_log(job.folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with engine.starts.open("a") as starts:
            starts.write(f"{job.name}\n")
        time.sleep(engine.start_up_seconds)
        from oelm.cli.main import main

        sys.argv = ["oelm", "train", "--config", str(job.folder / "config.yaml"), "--resume"]
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
    runs: Sequence[StudyRun], out: Path, *, at_once: int = 2, start_up_seconds: float = 0.0, keep: bool = True
) -> Running:
    """A coordinator in a process of its own. It prints what it shows and, last of all, how the runs ended."""
    return running(coordinate_forks, list(runs), out, at_once, start_up_seconds, keep)


def coordinate_forks(
    runs: list[StudyRun], out: Path, at_once: int, start_up_seconds: float, keep_checkpoints: bool
) -> None:
    coordinate.POLL_SECONDS = 0.02  # hurry: more starts at the same instant
    console = Console(width=200)
    engine = ForkEngine(out / "starts", start_up_seconds)
    try:
        outcome = bring_to_records(
            runs, engine, out, at_once=at_once, keep_checkpoints=keep_checkpoints, console=console
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
