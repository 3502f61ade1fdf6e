"""The coordinator: brings runs to their records with a launcher, together with other coordinators on the same folder.

    while runs are open:  see which jobs have ended;  claim a run nobody has and submit it where there is room;  wait

All that it knows is in the folders. Killed at any instant, it leaves workers that finish by themselves, and the next
coordinator waits for those, resumes what was cut off and starts the rest.
"""

import contextlib
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from oelm.base.errors import OelmError
from oelm.base.files import make_folder
from oelm.config.yaml_file import write_yaml
from oelm.experiments.launcher import Job, JobState, Launcher
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import Claim, is_claimed, is_starting_up, read_note
from oelm.experiments.run_status import Status, Traces, how_it_ended, last_lines, status_of, traces
from oelm.experiments.runs_display import RunsDisplay
from oelm.train.folder import RunFolder, stop_request
from oelm.train.stopping import StopRequest, stop_on_signal

POLL_SECONDS = 0.5
_ATTEMPTS = 3
"""How often a run is started again that was cut off (killed, preempted) without having saved anything new."""


class Stopped(Exception):
    """The coordinator was asked to stop; its runs have saved themselves."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped; every run has saved itself, and the same command continues")
        self.exit_code = 128 + signal_number


@dataclass(frozen=True)
class Outcome:
    """How a set of runs ended. What is not here is finished."""

    failed: tuple[StudyRun, ...]
    diverged: tuple[StudyRun, ...]
    interrupted: tuple[StudyRun, ...]
    """Runs that somebody asked to stop, one by one."""


def bring_to_records(
    runs: Sequence[StudyRun],
    launcher: Launcher,
    out: Path,
    *,
    at_once: int,
    keep_checkpoints: bool,
    console: Console,
) -> Outcome:
    """Finished runs are skipped, interrupted ones resume, the rest start; a failed one does not stop the others."""
    for run in runs:
        RunFolder(run.folder).refuse_other(run.config)
    for processes in sorted({run.config.train.processes for run in runs if not RunFolder(run.folder).finished}):
        launcher.refuse(processes)
    for run in runs:
        stop_request(run.folder).unlink(missing_ok=True)  # `run` cancels an earlier request to stop
    done = sum(RunFolder(run.folder).finished for run in runs)
    with RunsDisplay(console, total=len(runs), done=done) as display, stop_on_signal() as stop:
        coordinator = _Coordinator(runs, launcher, display, at_once=at_once, keep_checkpoints=keep_checkpoints)
        with coordinator.ended_together():
            while coordinator.is_open:
                stop_if_asked(stop, out)
                coordinator.turn()
    return coordinator.outcome()


def stop_if_asked(stop: StopRequest, out: Path) -> None:
    """By a signal, or by `oelm experiment stop`."""
    if stop.signal is not None:
        raise Stopped(stop.signal)
    if stop_request(out).is_file():
        raise Stopped(signal.SIGTERM)


class _Claimed(NamedTuple):
    """A run that is ours to submit."""

    run: StudyRun
    claim: Claim
    before: Traces
    saved_step: int


@dataclass
class _Submitted:
    """A run of ours that is under way."""

    run: StudyRun
    claim: Claim
    before: Traces
    saved_step: int
    """Where it started from."""
    job: Job
    asked: bool = False
    """To save and end."""


class _Coordinator:
    """What is still to do, what is under way, and how the rest ended."""

    def __init__(
        self,
        runs: Sequence[StudyRun],
        launcher: Launcher,
        display: RunsDisplay,
        *,
        at_once: int,
        keep_checkpoints: bool,
    ) -> None:
        self._launcher = launcher
        self._display = display
        self._at_once = at_once
        self._keep_checkpoints = keep_checkpoints
        self._before = {run.name: traces(run.folder) for run in runs}
        """What was in the folders at the start."""
        self._waiting = [run for run in runs if not RunFolder(run.folder).finished]
        self._submitted: list[_Submitted] = []
        self._ended: dict[Status, list[StudyRun]] = {}
        self._fruitless: Counter[str] = Counter()
        for run in runs:
            self._tidy(run)  # a coordinator that was killed could not

    @property
    def is_open(self) -> bool:
        """Whether something is left to do or to wait for."""
        return bool(self._waiting or self._submitted)

    def turn(self) -> None:
        """Look once at everything, start what one submission takes, and wait a moment if nothing was started."""
        for each in list(self._submitted):
            self._look_at(each)
        self._drop_what_others_ended()
        if len(self._submitted) >= self._at_once or not self._start_some():
            time.sleep(POLL_SECONDS)
        for each in self._submitted:
            each.claim.beat()
        self._display.show(self._waiting, [each.run for each in self._submitted])

    def outcome(self) -> Outcome:
        """How runs ended for us that nobody else has brought to a record since."""
        ended = (self._ended.get(status, ()) for status in (Status.FAILED, Status.DIVERGED, Status.INTERRUPTED))
        return Outcome(*(tuple(run for run in runs if not RunFolder(run.folder).finished) for runs in ended))

    @contextlib.contextmanager
    def ended_together(self) -> Iterator[None]:
        """However we end, our runs are asked to save and are waited for; none is left behind."""
        try:
            yield
        finally:
            for each in self._submitted:
                self._launcher.stop(each.job)
            for each in self._submitted:
                while self._launcher.state(each.job) is not JobState.ENDED:
                    time.sleep(0.05)
                    each.claim.beat()
                each.claim.end()

    # --- starting --------------------------------------------------------------------------------------------------

    def _start_some(self) -> bool:
        """Submit the first run that nobody has, if there is room for it, with others of its size."""
        free = self._free_runs(min(self._launcher.together, self._at_once - len(self._submitted)))
        if not free or not self._launcher.has_room(free[0].config.train.processes):
            if self._waiting:
                others = "other coordinators have the rest"
                self._display.waiting_for(self._launcher.why_waiting() if free else others)
            return False
        submitted = self._submit(free)
        for each in submitted:  # none: there was no room after all, or another coordinator claimed them first
            self._waiting.remove(each.run)
            self._display.started(each.run, each.job.device)
        self._submitted += submitted
        return bool(submitted)

    def _free_runs(self, most: int) -> list[StudyRun]:
        """Runs that nobody has, all with as many processes as the first."""
        found: list[StudyRun] = []
        for run in self._waiting:
            if len(found) == most:
                break
            alike = not found or run.config.train.processes == found[0].config.train.processes
            if alike and not self._is_taken(run):
                found.append(run)
        return found

    def _is_taken(self, run: StudyRun) -> bool:
        """Whether somebody works on it, or will."""
        return is_claimed(run.folder) or self._is_queued(run)

    def _is_queued(self, run: StudyRun) -> bool:
        """Whether a coordinator that died has left a job behind, which will work on the run when it comes up."""
        note = read_note(run.folder)
        if note is None or note.job is None or note.ended_at is not None or note.launcher != self._launcher.name:
            return False
        state = self._launcher.state(Job(note.job, note.device or ""))
        if state is JobState.ELSEWHERE:  # its machine may be gone for good, and would be waited for for ever
            return is_starting_up(run.folder, note)
        return state is not JobState.ENDED

    def _submit(self, runs: Sequence[StudyRun]) -> list[_Submitted]:
        """Claim the runs and submit them together; those that another coordinator has claimed first are left out."""
        with contextlib.ExitStack() as unless_submitted:
            claimed: list[_Claimed] = []
            for run in runs:
                held = self._claim(run)
                if held is not None:
                    unless_submitted.callback(held.claim.give_back)
                    claimed.append(held)
            if not claimed:
                return []
            jobs = self._launcher.submit([each.run.folder for each in claimed], runs[0].config.train.processes)
            unless_submitted.pop_all()
        if not jobs:
            for each in claimed:
                each.claim.end()
            return []
        for each, job in zip(claimed, jobs, strict=True):
            each.claim.submitted(self._launcher.name, job.id, job.device)
        return [_Submitted(*each, job) for each, job in zip(claimed, jobs, strict=True)]

    def _claim(self, run: StudyRun) -> _Claimed | None:
        """Make the run ours and write its config down, unless somebody else has it or has ended it."""
        claim = Claim.take(make_folder(run.folder))
        if claim is None:
            return None
        try:
            if self._ended_elsewhere(run) is not None or self._is_queued(run):
                claim.give_back()
                return None
            files, before = RunFolder(run.folder), traces(run.folder)
            files.refuse_other(run.config)
            claim.begin()
            write_yaml(run.config, files.config_file)
        except BaseException:
            claim.give_back()
            raise
        return _Claimed(run, claim, before, files.saved_step)

    # --- ending ----------------------------------------------------------------------------------------------------

    def _look_at(self, each: _Submitted) -> None:
        """See whether a run of ours has ended, and how; its folder says so, not its job."""
        run = each.run
        if self._launcher.state(each.job) is not JobState.ENDED:
            if not each.asked and stop_request(run.folder).is_file():
                each.asked = True
                self._launcher.stop(each.job)
            return
        ended = how_it_ended(run.folder, each.before)  # while the claim is still held
        cut_off = ended in (Status.WAITING, Status.INTERRUPTED)
        if cut_off and stop_request(run.folder).is_file():
            ended, cut_off = Status.INTERRUPTED, False
        if cut_off:
            saved = RunFolder(run.folder).saved_step
            self._fruitless[run.name] = 0 if saved > each.saved_step else self._fruitless[run.name] + 1
        given_up = cut_off and self._fruitless[run.name] >= _ATTEMPTS
        self._submitted.remove(each)
        each.claim.end(failed=given_up)
        if cut_off and not given_up:
            self._display.cut_off(run, saved)
            self._waiting.insert(0, run)
        else:
            self._note_end(run, Status.FAILED if given_up else ended)

    def _drop_what_others_ended(self) -> None:
        """Runs that another coordinator, or a worker that outlived its own, has brought to an end."""
        for run in list(self._waiting):
            if not RunFolder(run.folder).finished and is_claimed(run.folder):
                continue
            ended = self._ended_elsewhere(run)
            if ended is not None:
                self._waiting.remove(run)
                self._note_end(run, ended, "failed with another coordinator")

    def _ended_elsewhere(self, run: StudyRun) -> Status | None:
        """How a run that nobody works on has ended, if there is nothing left to start.

        What failed before this coordinator started is tried again; what fails for another one meanwhile is not.
        """
        files = RunFolder(run.folder)
        if files.finished:
            files.refuse_other(run.config)
            return Status.FINISHED
        if how_it_ended(run.folder) is Status.DIVERGED and _is_of(run):
            return Status.DIVERGED
        if stop_request(run.folder).is_file():
            return Status.INTERRUPTED
        return Status.FAILED if how_it_ended(run.folder, self._before[run.name]) is Status.FAILED else None

    def _note_end(self, run: StudyRun, status: Status, failure: str = "failed") -> None:
        if status is Status.FINISHED:
            self._tidy(run)
            self._display.finished(status_of(run))
            return
        self._ended.setdefault(status, []).append(run)
        if status is Status.FAILED:
            self._display.ended(run, failure, last_lines(run.folder))
        elif status is Status.DIVERGED:
            self._display.ended(run, "diverged", [status_of(run).reason or "the loss is not a number"])
        else:
            self._display.ended(run, "stopped", [])

    def _tidy(self, run: StudyRun) -> None:
        files = RunFolder(run.folder)
        if files.finished and not self._keep_checkpoints:
            shutil.rmtree(files.checkpoint_folder, ignore_errors=True)


def _is_of(run: StudyRun) -> bool:
    """Whether the folder holds this very run: with other settings it may not diverge again."""
    with contextlib.suppress(OSError, ValueError, OelmError):
        return RunFolder(run.folder).config().fingerprint == run.config.fingerprint
    return False
