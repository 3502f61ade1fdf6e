"""Where a run stands, read from its folder alone: any process on any machine sees the same."""

import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from oelm.base.errors import OelmError
from oelm.config.record import RunState, StateFile
from oelm.experiments.claims import ClaimNote, is_claimed, read_note
from oelm.experiments.local import console_log
from oelm.experiments.matrix import StudyRun
from oelm.train.folder import RunFolder

ASKED_TO_STOP = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a run that saved itself."""
_LAST_LINES = 5


class Stage(StrEnum):
    """What can be said of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """Stopped or killed; it goes on from its last checkpoint."""
    FAILED = "failed"
    DIVERGED = "diverged"
    FINISHED = "finished"


@dataclass(frozen=True)
class Standing:
    """One line of the status table."""

    run: StudyRun
    stage: Stage
    step: int
    steps: int
    loss: float | None = None
    perplexity: float | None = None
    accuracy: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    device: str | None = None
    reason: str | None = None
    silent_seconds: float | None = None
    """How long ago a running one last gave a sign of life."""


def standing(run: StudyRun) -> Standing:
    """Look at the folder of a run."""
    files, steps = RunFolder(run.folder), run.config.train.steps
    if files.finished:
        measures = files.record().result.measures
        return Standing(
            run,
            Stage.FINISHED,
            steps,
            steps,
            loss=measures.get("loss"),
            perplexity=measures.get("perplexity"),
            accuracy=measures.get("accuracy"),
        )
    state, note = last_state(run.folder), read_note(run.folder)
    claimed = is_claimed(run.folder)
    stage = Stage.RUNNING if claimed else _left_in(state, note)
    now = time.time()
    return Standing(
        run,
        stage,
        step=state.step if state else 0,
        steps=state.steps if state else steps,
        loss=state.loss if state else None,
        perplexity=state.perplexity if state else None,
        tokens_per_second=state.tokens_per_second if state and claimed else None,
        seconds_left=state.seconds_left if state and claimed else None,
        device=note.device if note and claimed else None,
        reason=None if claimed else _reason(run, state, stage),
        silent_seconds=now - state.heartbeat_at if state and claimed else None,
    )


def last_lines(run: StudyRun) -> list[str]:
    """The end of what a run printed."""
    with suppress(OSError):
        return console_log(run.folder).read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return []


def last_state(folder: Path) -> StateFile | None:
    """What the run itself last wrote of its state."""
    with suppress(OSError, ValueError, OelmError):  # from another version
        return RunFolder(folder).state()
    return None


def _left_in(state: StateFile | None, note: ClaimNote | None) -> Stage:
    """Where a run stands that nobody works on."""
    if state is not None and state.state is RunState.DIVERGED:
        return Stage.DIVERGED
    if state is not None and state.state is RunState.FAILED:
        return Stage.FAILED
    if _failed_at_once(state, note):
        return Stage.FAILED
    return Stage.WAITING if state is None else Stage.INTERRUPTED  # also: killed, so that it could not say so


def _failed_at_once(state: StateFile | None, note: ClaimNote | None) -> bool:
    """Whether the last worker ended with an error before it could write its state."""
    if note is None or note.exit_code is None or note.exit_code <= 0 or note.exit_code in ASKED_TO_STOP:
        return False
    return state is None or (note.ended_at is not None and note.ended_at > state.heartbeat_at)


def _reason(run: StudyRun, state: StateFile | None, stage: Stage) -> str | None:
    if state is not None and state.reason is not None and (stage is not Stage.FAILED or state.state is RunState.FAILED):
        return state.reason
    return next(reversed(last_lines(run)), None) if stage is Stage.FAILED else None
