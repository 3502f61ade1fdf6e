"""How a run is doing, and what it printed, read from its folder alone: any process on any machine sees the same."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from oelm.base.errors import CheckpointError
from oelm.config.record import RunState, StateFile
from oelm.experiments.matrix import StudyRun, main_measure
from oelm.experiments.ownership import ClaimNote, is_claimed, last_state, read_note
from oelm.train.folder import RunFolder

_LAST_LINES = 5
_POLL_SECONDS = 0.3


class Status(StrEnum):
    """What can be said of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """Stopped or killed; it continues from its last checkpoint."""
    FAILED = "failed"
    DIVERGED = "diverged"
    FINISHED = "finished"


@dataclass(frozen=True)
class RunStatus:
    """One line of the status table."""

    run: StudyRun
    status: Status
    state: StateFile | None = None
    """What the run itself last wrote."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Of the last validation; of a finished run its result."""
    device: str | None = None
    """Where it runs now."""
    reason: str | None = None
    """Why it ended."""

    @property
    def quality(self) -> str:
        """The main measure, as far as it is known."""
        measure = main_measure(self.run.config)
        return measure.written(self.measures[measure.name]) if measure.name in self.measures else ""


def status_of(run: StudyRun) -> RunStatus:
    """Look at the folder of a run."""
    files, state = RunFolder(run.folder), last_state(run.folder)
    measures = state.measures if state else {}
    if files.finished:
        return RunStatus(run, Status.FINISHED, state, measures=files.record().result.measures)
    if is_claimed(run.folder):
        note = read_note(run.folder)
        return RunStatus(run, Status.RUNNING, state, measures, device=note.device if note else None)
    ended = how_it_ended(run.folder)
    return RunStatus(run, ended, state, measures, reason=_reason(run.folder, state, ended))


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


def log_lines(run: StudyRun, last: int, *, follow: bool) -> Iterator[str]:
    """The last lines of the log and, to follow it, every line from there on until nobody works on the run any more."""
    path = RunFolder(run.folder).console_file
    if not path.is_file():
        raise CheckpointError(f"{run.name} has not been started", "see `oelm experiment status`")
    with path.open(encoding="utf-8", errors="replace") as log:
        lines, part = deque[str](maxlen=last), ""
        for text in log:
            part = "" if text.endswith("\n") else text  # the last may be half a line
            if not part:
                lines.append(text.rstrip("\n"))
        yield from lines
        while follow:
            alive = is_claimed(run.folder)  # looked at before reading: what was written until then is not missed
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
