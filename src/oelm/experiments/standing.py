"""Where a run stands, read from its folder alone: any process on any machine sees the same."""

import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from oelm.base.errors import OelmError
from oelm.config.record import RunState, StateFile
from oelm.experiments.claims import is_claimed, read_note
from oelm.experiments.local import console_log
from oelm.experiments.matrix import StudyRun
from oelm.train.folder import RunFolder

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
    state, note = _state(files), read_note(run.folder)
    claimed = is_claimed(run.folder)
    now = time.time()
    return Standing(
        run,
        _stage(state, claimed=claimed, exit_code=note.exit_code if note else None),
        step=state.step if state else 0,
        steps=steps,
        loss=state.loss if state else None,
        perplexity=state.perplexity if state else None,
        tokens_per_second=state.tokens_per_second if state and claimed else None,
        seconds_left=state.seconds_left if state and claimed else None,
        device=note.device if note and claimed else None,
        reason=state.reason if state and not claimed else None,
        silent_seconds=now - state.heartbeat_at if state and claimed else None,
    )


def last_lines(run: StudyRun) -> list[str]:
    """The end of what a run printed."""
    with suppress(OSError):
        return console_log(run.folder).read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return []


def _state(files: RunFolder) -> StateFile | None:
    with suppress(OSError, ValueError, OelmError):  # from another version
        return files.state()
    return None


def _stage(state: StateFile | None, *, claimed: bool, exit_code: int | None) -> Stage:
    if claimed:
        return Stage.RUNNING
    if state is not None and state.state is RunState.DIVERGED:
        return Stage.DIVERGED
    if state is not None and state.state in (RunState.RUNNING, RunState.INTERRUPTED):
        return Stage.INTERRUPTED  # the first: killed, it could not say so
    if state is not None and state.state is RunState.FAILED:
        return Stage.FAILED
    return Stage.FAILED if exit_code not in (None, 0) else Stage.WAITING
