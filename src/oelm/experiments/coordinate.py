"""The coordinator: brings runs to their records with an engine, together with other coordinators on the same folder.

    while runs are open:  claim one nobody has -> start it where there is room;  see which have ended;  wait a moment

All that it knows is in the folders. Killed at any instant, it leaves workers that finish by themselves, and the next
coordinator waits for those, resumes what was cut off and starts the rest.
"""

import contextlib
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from oelm.base.errors import OelmError
from oelm.base.files import make_folder
from oelm.config.record import RunState
from oelm.config.settings import write_yaml
from oelm.experiments.claims import Claim, ClaimNote, is_claimed, read_note
from oelm.experiments.engine import Engine, Job, Room, Worker
from oelm.experiments.matrix import StudyRun
from oelm.experiments.progress import RunsDisplay
from oelm.experiments.standing import ASKED_TO_STOP, Stage, last_lines, last_state, standing
from oelm.train.folder import RunFolder
from oelm.train.stopping import StopRequest, stop_on_signal

POLL_SECONDS = 0.5
_ATTEMPTS = 3
"""How often a run is started that a signal killed (out of memory, somebody's kill -9); an error is not repeated."""


class Stopped(Exception):
    """The coordinator was asked to stop; its runs have saved themselves."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped; every run has saved itself, and the same command goes on")
        self.exit_code = 128 + signal_number


@dataclass(frozen=True)
class Outcome:
    """How a set of runs ended. What is not here is finished."""

    failed: tuple[StudyRun, ...]
    diverged: tuple[StudyRun, ...]
    interrupted: tuple[StudyRun, ...]
    """Runs that somebody asked to stop, one by one."""


@dataclass
class _Running:
    run: StudyRun
    claim: Claim
    worker: Worker
    since: float
    asked: bool = False
    """To save and end, by itself."""


@dataclass
class _Open:
    """The coordinator's memory: what is still to do, what runs, and how often each was tried."""

    waiting: list[StudyRun]
    before: dict[str, ClaimNote | None]
    """What had been left in each folder when we came: failures from then on are ours to report, not to repeat."""
    keep_checkpoints: bool
    running: list[_Running] = field(default_factory=list)
    ended: dict[Stage, list[StudyRun]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)

    def without_record(self, stage: Stage) -> tuple[StudyRun, ...]:
        """Runs that ended so, for us, and that nobody else has brought to a record since."""
        return tuple(run for run in self.ended.get(stage, ()) if not RunFolder(run.folder).finished)


def stop_file(folder: Path) -> Path:
    """Its existence asks to stop: in the study's folder every coordinator, in a run's folder who has that run."""
    return folder / "stop.request"


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
        engine.refuse(run.config.train.processes)
    for run in runs:
        stop_file(run.folder).unlink(missing_ok=True)  # to run it is to go on
    before = {run.name: read_note(run.folder) for run in runs}
    todo = _Open([run for run in runs if not RunFolder(run.folder).finished], before, keep_checkpoints)
    for run in runs:
        _tidy(run, todo)  # a coordinator that was killed could not
    with (
        RunsDisplay(console, total=len(runs), done=len(runs) - len(todo.waiting)) as display,
        stop_on_signal() as stop,
        _ended_together(todo.running),
    ):
        while todo.waiting or todo.running:
            _stop_if_asked(stop, out)
            _collect(todo, display)
            _drop_what_others_ended(todo, display)
            if len(todo.running) < at_once:
                _start_one(todo, engine, display)
            else:
                time.sleep(POLL_SECONDS)
            for running in todo.running:
                running.claim.beat()
            display.show(todo.waiting, [running.run for running in todo.running])
    return Outcome(*(todo.without_record(stage) for stage in (Stage.FAILED, Stage.DIVERGED, Stage.INTERRUPTED)))


def _start_one(todo: _Open, engine: Engine, display: RunsDisplay) -> None:
    """Start the first run that nobody has, if there is room for it; otherwise wait a moment."""
    free = next((run for run in todo.waiting if not is_claimed(run.folder)), None)
    room = None if free is None else engine.find_room(free.config.train.processes)
    if free is None or room is None:
        if todo.waiting:
            display.waiting_for("other coordinators have the rest" if free is None else engine.why_waiting())
        time.sleep(POLL_SECONDS)
        return
    try:
        running = _started(free, room, todo)
    finally:
        room.give_back()  # what was started holds the place now
    if running is not None:  # else another coordinator was quicker
        todo.waiting.remove(free)
        todo.running.append(running)
        todo.attempts[free.name] += 1
        display.started(free, running.worker.device)


def _started(run: StudyRun, room: Room, todo: _Open) -> _Running | None:
    claim = Claim.take(make_folder(run.folder))
    if claim is None:
        return None
    try:
        if _ended_elsewhere(run, claim.previous, todo) is not None:
            claim.give_back()
            return None
        files, since = RunFolder(run.folder), time.time()
        files.refuse_other(run.config)
        claim.begin()
        write_yaml(run.config, files.config_file)
        worker = room.start(Job(run.name, run.folder, run.config.train.processes), claim)
    except BaseException:
        claim.give_back()
        raise
    claim.started(worker.pid, worker.device)
    return _Running(run, claim, worker, since)


def _collect(todo: _Open, display: RunsDisplay) -> None:
    """See which of our workers have ended, and how."""
    for running in list(todo.running):
        run = running.run
        code = running.worker.exit_code()
        if code is None:
            if not running.asked and stop_file(run.folder).is_file():
                running.asked = True
                running.worker.stop()
            continue
        stage = _how_it_ended(running, code)  # before we let go: afterwards the folder may be somebody else's
        lines = last_lines(run) if stage is Stage.FAILED else []
        todo.running.remove(running)
        running.claim.end(code)
        if code < 0 and stage is Stage.FAILED and todo.attempts[run.name] < _ATTEMPTS:
            display.cut_off(run, f"killed by signal {-code}; it will be resumed")
            todo.waiting.insert(0, run)
        else:
            _note_end(run, stage, todo, display, f"failed (exit code {code})", lines)


def _how_it_ended(running: _Running, code: int) -> Stage:
    run = running.run
    if RunFolder(run.folder).finished:
        return Stage.FINISHED
    state = last_state(run.folder)
    if state is not None and state.heartbeat_at < running.since:  # of an earlier session
        state = None
    if state is not None and state.state is RunState.DIVERGED:
        return Stage.DIVERGED
    asked = code in ASKED_TO_STOP or (state is not None and state.state is RunState.INTERRUPTED)
    return Stage.INTERRUPTED if asked or stop_file(run.folder).is_file() else Stage.FAILED


def _drop_what_others_ended(todo: _Open, display: RunsDisplay) -> None:
    """Runs that another coordinator, or a worker that outlived its own, has brought to an end."""
    for run in list(todo.waiting):
        if not RunFolder(run.folder).finished and is_claimed(run.folder):
            continue
        stage = _ended_elsewhere(run, read_note(run.folder), todo)
        if stage is not None:
            todo.waiting.remove(run)
            _note_end(run, stage, todo, display, "failed with another coordinator", last_lines(run))


def _ended_elsewhere(run: StudyRun, note: ClaimNote | None, todo: _Open) -> Stage | None:
    """How a run that nobody works on has ended, if there is nothing left to start."""
    files = RunFolder(run.folder)
    if files.finished:
        files.refuse_other(run.config)
        return Stage.FINISHED
    if _has_diverged(run):
        return Stage.DIVERGED
    if stop_file(run.folder).is_file():
        return Stage.INTERRUPTED
    if note is None or note.exit_code is None or note.exit_code <= 0 or note == todo.before[run.name]:
        return None
    return Stage.INTERRUPTED if note.exit_code in ASKED_TO_STOP else Stage.FAILED


def _has_diverged(run: StudyRun) -> bool:
    """Whether it would only diverge again; with other settings it may not."""
    state = last_state(run.folder)
    if state is None or state.state is not RunState.DIVERGED:
        return False
    with contextlib.suppress(OSError, ValueError, OelmError):
        return RunFolder(run.folder).config().fingerprint == run.config.fingerprint
    return False


def _note_end(
    run: StudyRun, stage: Stage, todo: _Open, display: RunsDisplay, failure: str, lines: Sequence[str]
) -> None:
    if stage is Stage.FINISHED:
        _tidy(run, todo)
        display.finished(standing(run))
        return
    todo.ended.setdefault(stage, []).append(run)
    if stage is Stage.DIVERGED:
        state = last_state(run.folder)
        display.ended(run, "diverged", [state.reason] if state and state.reason else [])
    elif stage is Stage.INTERRUPTED:
        display.ended(run, "stopped", [])
    else:
        display.ended(run, failure, lines)


def _tidy(run: StudyRun, todo: _Open) -> None:
    files = RunFolder(run.folder)
    if files.finished and not todo.keep_checkpoints:
        shutil.rmtree(files.checkpoint_folder, ignore_errors=True)


def _stop_if_asked(stop: StopRequest, out: Path) -> None:
    if stop.signal is not None:
        raise Stopped(stop.signal)
    if stop_file(out).is_file():
        raise Stopped(signal.SIGTERM)


@contextlib.contextmanager
def _ended_together(running: list[_Running]) -> Iterator[None]:
    """However we end, our runs are asked to save and are waited for; none is left behind."""
    try:
        yield
    finally:
        for each in running:
            each.worker.stop()
        for each in running:
            while each.worker.exit_code() is None:
                time.sleep(0.05)
                each.claim.beat()
            each.claim.end(None)  # not the run's fault: another coordinator may go on with it
