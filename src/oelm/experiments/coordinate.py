"""The coordinator: brings runs to their records with an engine, together with other coordinators on the same folder.

    while runs are open:  claim one nobody has -> start it where there is room;  see which have ended;  wait a moment

All that it knows is in the folders. Killed at any instant, it leaves workers that finish by themselves, and the next
coordinator waits for those, resumes what was cut off and starts the rest.
"""

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from oelm.base.files import make_folder
from oelm.config.settings import write_yaml
from oelm.experiments.claims import Claim, is_claimed
from oelm.experiments.engine import Engine, Job, Worker
from oelm.experiments.matrix import StudyRun
from oelm.experiments.progress import RunsDisplay
from oelm.experiments.standing import Stage, last_lines, standing
from oelm.train.folder import RunFolder
from oelm.train.stopping import StopRequest, stop_on_signal

POLL_SECONDS = 0.5
_ATTEMPTS = 3
"""How often a run is started that a signal killed (out of memory, somebody's kill -9); an error is not repeated."""
_ASKED_TO_STOP = (130, 143)


class Stopped(Exception):
    """The coordinator was asked to stop; its runs have saved themselves."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("stopped; every run has saved itself, and the same command goes on")
        self.exit_code = exit_code


@dataclass(frozen=True)
class Outcome:
    """How a set of runs ended. What is neither finished nor here is still open."""

    failed: tuple[StudyRun, ...]
    diverged: tuple[StudyRun, ...]
    interrupted: tuple[StudyRun, ...]
    """Runs that somebody asked to stop, one by one."""


@dataclass
class _Running:
    run: StudyRun
    claim: Claim
    worker: Worker


@dataclass
class _Open:
    """The coordinator's memory: what is still to do, what runs, and how often each was tried."""

    waiting: list[StudyRun]
    running: list[_Running] = field(default_factory=list)
    failed: list[StudyRun] = field(default_factory=list)
    diverged: list[StudyRun] = field(default_factory=list)
    interrupted: list[StudyRun] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)


def stop_file(out: Path) -> Path:
    """Its existence asks every coordinator of the study, on whatever machine, to stop."""
    return out / "stop.request"


def bring_to_records(
    runs: Sequence[StudyRun],
    engine: Engine,
    out: Path,
    *,
    at_once: int,
    keep_checkpoints: bool,
    console: Console,
) -> Outcome:
    """Finished runs are skipped, interrupted ones resume, the rest start; a failed one does not stop the others."""
    for run in runs:
        RunFolder(run.folder).refuse_other(run.config)
    todo = _Open([run for run in runs if not RunFolder(run.folder).finished])
    with (
        RunsDisplay(console, total=len(runs), done=len(runs) - len(todo.waiting)) as display,
        stop_on_signal() as stop,
        _ended_together(todo.running),
    ):
        while todo.waiting or todo.running:
            _stop_if_asked(stop, out)
            _collect(todo, display, keep_checkpoints=keep_checkpoints)
            _drop_what_others_ended(todo, display)
            if len(todo.running) < at_once:
                _start_one(todo, engine, display)
            else:
                time.sleep(POLL_SECONDS)
            for running in todo.running:
                running.claim.beat()
            display.show(todo.waiting, [running.run for running in todo.running])
    return Outcome(tuple(todo.failed), tuple(todo.diverged), tuple(todo.interrupted))


def _start_one(todo: _Open, engine: Engine, display: RunsDisplay) -> None:
    """Start the first run that nobody has, if there is room for it; otherwise wait a moment."""
    free = next((run for run in todo.waiting if not is_claimed(run.folder)), None)
    room = None if free is None else engine.find_room(free.config.train.processes)
    if free is None or room is None:
        if todo.waiting:
            display.waiting_for("other coordinators have the rest" if free is None else engine.why_waiting())
        time.sleep(POLL_SECONDS)
        return
    claim = Claim.take(make_folder(free.folder))
    if claim is None or _is_decided(free):  # another coordinator was quicker
        room.give_back()
        if claim is not None:
            claim.end(None)
        return
    write_yaml(free.config, RunFolder(free.folder).config_file)
    worker = room.start(Job(free.name, free.folder, free.config.train.processes), claim)
    claim.started(worker.pid, worker.device)
    todo.waiting.remove(free)
    todo.running.append(_Running(free, claim, worker))
    todo.attempts[free.name] += 1
    display.started(free, worker.device)


def _is_decided(run: StudyRun) -> bool:
    """Whether there is nothing left to start: a record, or a divergence that would only be repeated."""
    return standing(run).stage in (Stage.FINISHED, Stage.DIVERGED) or RunFolder(run.folder).finished


def _collect(todo: _Open, display: RunsDisplay, *, keep_checkpoints: bool) -> None:
    """See which of our workers have ended, and how."""
    for running in list(todo.running):
        code = running.worker.exit_code()
        if code is None:
            continue
        todo.running.remove(running)
        running.claim.end(code)
        run = running.run
        now = standing(run)
        if now.stage is Stage.FINISHED:
            if not keep_checkpoints:
                shutil.rmtree(RunFolder(run.folder).checkpoint_folder, ignore_errors=True)
            display.finished(now)
        elif now.stage is Stage.DIVERGED:
            todo.diverged.append(run)
            display.ended(run, "diverged", [now.reason or ""])
        elif code in _ASKED_TO_STOP:
            todo.interrupted.append(run)
            display.ended(run, "stopped", [])
        elif code < 0 and todo.attempts[run.name] < _ATTEMPTS:
            display.ended(run, f"killed by signal {-code}; it will be resumed", [])
            todo.waiting.insert(0, run)
        else:
            todo.failed.append(run)
            display.ended(run, f"failed (exit code {code})", last_lines(run))


def _drop_what_others_ended(todo: _Open, display: RunsDisplay) -> None:
    """Runs that another coordinator, or a worker that outlived its own, has brought to an end."""
    for run in list(todo.waiting):
        files = RunFolder(run.folder)
        if files.finished:
            todo.waiting.remove(run)
            display.finished(standing(run))
        elif files.state_file.is_file() and not is_claimed(run.folder) and standing(run).stage is Stage.DIVERGED:
            todo.waiting.remove(run)
            todo.diverged.append(run)
            display.ended(run, "diverged", [])


def _stop_if_asked(stop: StopRequest, out: Path) -> None:
    if stop.signal is not None:
        raise Stopped(128 + stop.signal)
    if stop_file(out).is_file():
        raise Stopped(0)


@contextlib.contextmanager
def _ended_together(running: list[_Running]) -> Iterator[None]:
    """However we end, our runs are asked to save and are waited for; none is left behind."""
    try:
        yield
    finally:
        for each in running:
            each.worker.stop()
        for each in running:
            while (code := each.worker.exit_code()) is None:
                time.sleep(0.05)
            each.claim.end(code)
