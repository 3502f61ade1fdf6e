"""How a run is doing, and what it printed, read from its folder alone: any process on any machine sees the same."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from oelm.base.errors import OelmError
from oelm.config.measure import Measure
from oelm.config.record import RunState, StateFile
from oelm.experiments.ownership import ClaimNote, is_claimed, is_training, last_state, left_behind, read_note
from oelm.train.folder import RunFolder

_LAST_LINES = 5
_POLL_SECONDS = 0.3


class Status(StrEnum):
    """What can be said of a run."""

    WAITING = "waiting"
    QUEUED = "queued"
    """Given to a launcher, which has not started it yet."""
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """Stopped or killed; it continues from its last checkpoint."""
    FAILED = "failed"
    DIVERGED = "diverged"
    FINISHED = "finished"


class WatchedRun(Protocol):
    """What has to be known of a run to say how it is doing."""

    @property
    def name(self) -> str:
        """Unique among those that are shown."""

    @property
    def folder(self) -> Path:
        """Where it leaves its traces."""

    @property
    def steps(self) -> int:
        """How long it is."""

    @property
    def measure(self) -> Measure:
        """The one that it is judged by."""


@dataclass(frozen=True)
class RunStatus:
    """One line of the status table."""

    run: WatchedRun
    status: Status
    state: StateFile | None = None
    """What the run itself last wrote."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Of the last validation; of a finished run its result."""
    device: str | None = None
    """Where it runs now."""
    reason: str | None = None
    """Why it ended."""

    elapsed_seconds: float | None = None

    @property
    def quality(self) -> str:
        """The main measure, as far as it is known."""
        return self._written(self.measures)

    @property
    def best(self) -> str:
        """The main measure where the loss was lowest."""
        return self._written(self.state.best if self.state else {})

    def _written(self, measures: Mapping[str, float]) -> str:
        measure = self.run.measure
        return measure.written(measures[measure.name]) if measure.name in measures else ""


def status_of(run: WatchedRun, queued: Collection[str] = ()) -> RunStatus:
    """Look at the folder of a run; `queued` are jobs that wait in a queue, whether their coordinator lives or not."""
    if not run.folder.is_dir():  # as most are of a study that has just begun
        return RunStatus(run, Status.WAITING)
    files, state = RunFolder(run.folder), last_state(run.folder)
    if files.finished:
        return _with_record(run, files, state)
    measures, elapsed = (state.measures, state.elapsed_seconds) if state else ({}, None)
    if is_claimed(run.folder):
        note, status = read_note(run.folder), Status.RUNNING if is_training(run.folder) else Status.QUEUED
        return RunStatus(run, status, state, measures, note.device if note else None, elapsed_seconds=elapsed)
    left = left_behind(run.folder) if queued else None
    if left is not None and left.job in queued:
        return RunStatus(run, Status.QUEUED, state, measures, left.device, elapsed_seconds=elapsed)
    ended = how_it_ended(run.folder)
    return RunStatus(run, ended, state, measures, None, _reason(run.folder, state, ended), elapsed)


def _with_record(run: WatchedRun, files: RunFolder, state: StateFile | None) -> RunStatus:
    """A record that cannot be read is named, and hides no other run."""
    try:
        record = files.record()
    except (OSError, OelmError) as error:
        return RunStatus(run, Status.FAILED, state, reason=str(error))
    return RunStatus(run, Status.FINISHED, state, record.result.measures, elapsed_seconds=record.timing.wall_seconds)


Traces = tuple[StateFile | None, ClaimNote | None]


def traces(folder: Path) -> Traces:
    """What the last worker and the last coordinator left."""
    return last_state(folder), read_note(folder)


def how_it_ended(folder: Path, before: Traces = (None, None)) -> Status:
    """How a run ended that nobody works on; traces that were there `before` are of an earlier session."""
    if RunFolder(folder).finished:
        return Status.FINISHED
    state, note = traces(folder)
    if state is not None and state != before[0]:
        said = state.state in (RunState.DIVERGED, RunState.FAILED)  # one that was killed could not say so
        return Status(state.state.value) if said else Status.INTERRUPTED
    return Status.FAILED if note is not None and note.failed and note != before[1] else Status.WAITING


def last_lines(folder: Path) -> list[str]:
    """The end of what a run printed."""
    with suppress(OSError):
        printed = RunFolder(folder).console_file.read_text(encoding="utf-8", errors="replace")
        return printed.splitlines()[-_LAST_LINES:]
    return []


def _reason(folder: Path, state: StateFile | None, ended: Status) -> str | None:
    if state is not None and state.reason is not None:
        return state.reason
    return next(reversed(last_lines(folder)), None) if ended is Status.FAILED else None


def log_lines(path: Path, last: int, lives: Callable[[], bool] | None = None) -> Iterator[str]:
    """The last lines of a log and, to follow it, every line from there on while somebody `lives` who writes it."""
    with path.open(encoding="utf-8", errors="replace") as log:
        lines, part = deque[str](maxlen=last), ""
        for text in log:
            part = "" if text.endswith("\n") else text  # the last may be half a line
            if not part:
                lines.append(text.rstrip("\n"))
        yield from lines
        while lives is not None:
            alive = lives()  # looked at before reading: what was written until then is not missed
            while text := log.readline():
                part += text
                if part.endswith("\n"):
                    yield part.rstrip("\n")
                    part = ""
            if not alive:
                break
            time.sleep(_POLL_SECONDS)
        if part:
            yield part
