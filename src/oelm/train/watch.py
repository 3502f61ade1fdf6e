"""Open all observers of a run, and record how the run ended."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from oelm.base.errors import DivergedError, LostRankError, OelmError
from oelm.base.runtime import Runtime
from oelm.config.measure import Measure
from oelm.config.record import Event, RunState, StateFile, StepEvent, ValidationEvent
from oelm.config.run import RunConfig
from oelm.train.checkpoint import Progress
from oelm.train.device_use import DeviceUse
from oelm.train.folder import EventLog, Heart, RunFolder, new_state
from oelm.train.observers import Emit, LogFile, TensorBoard, Terminal, describe
from oelm.train.stopping import Interrupted, StopRequest


@dataclass(frozen=True)
class Watch:
    """What the loop needs of its observers. Processes that do not lead have a silent one without an event log."""

    emit: Emit
    events: EventLog | None
    sessions: int


@contextlib.contextmanager
def watching(
    config: RunConfig, files: RunFolder, progress: Progress, runtime: Runtime, console: Console, stop: StopRequest
) -> Iterator[Watch]:
    """Open the observers, and record how the run ended."""
    if not runtime.leads:
        yield Watch(emit=lambda _event: None, events=None, sessions=0)
        return
    steps, label = config.train.steps, f"{config.method.name} seed {config.seed}"
    with contextlib.ExitStack() as stack:
        before, damage = _last_state(files)
        heart = _heart(files, before, progress, steps, runtime, stop)
        log = stack.enter_context(contextlib.closing(LogFile(files.log_file)))
        events = stack.enter_context(contextlib.closing(EventLog(files.events_file, progress.events_bytes)))
        board = None
        if config.machine.tensorboard:
            board = stack.enter_context(contextlib.closing(TensorBoard(files.tensorboard_folder, progress.step)))
        terminal = stack.enter_context(contextlib.closing(Terminal(label, progress.step, steps, console)))

        def emit(event: Event) -> None:
            events.append(event)
            log.write(describe(event, steps))
            terminal(event)
            if board is not None:
                board(event)
            _tell(heart, event, steps, config.best_by)

        if damage:
            log.write(f"{damage}; the sessions before this one are not counted")
        log.write(f"{f'resumed at step {progress.step}' if progress.step else 'started'}: {label}")
        stack.enter_context(_ending(heart, log))
        yield Watch(emit=emit, events=events, sessions=heart.state.sessions)


@contextlib.contextmanager
def _ending(heart: Heart, log: LogFile) -> Iterator[None]:
    """Keep the heartbeat going while the run trains; then record in state.json and train.log how it ended."""
    end, reason = RunState.FAILED, None
    try:
        heart.start()
        yield
        end = RunState.FINISHED
    except (Interrupted, LostRankError) as error:  # what was killed can go on
        end, reason = RunState.INTERRUPTED, str(error)
        raise
    except OelmError as error:
        end = RunState.DIVERGED if isinstance(error, DivergedError) else RunState.FAILED
        reason = str(error)
        raise
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
        raise
    finally:
        with contextlib.suppress(OelmError):  # a full disk must not hide why the run ended
            log.write(reason or end)
        heart.stop(end, reason)


def _last_state(files: RunFolder) -> tuple[StateFile | None, str | None]:
    """What the run last said of itself; a damaged file, on which only the count of sessions depends, is noted."""
    try:
        return files.state(), None
    except OelmError as error:
        return None, error.problem


def _heart(
    files: RunFolder, before: StateFile | None, progress: Progress, steps: int, runtime: Runtime, stop: StopRequest
) -> Heart:
    sessions, started_at = (before.sessions + 1, before.started_at) if before else (1, None)
    state = new_state(progress.step, steps, str(runtime.device), sessions=sessions, started_at=started_at)
    best = before.best if before and progress.step else {}
    state = state.model_copy(update={"best": best, "elapsed_seconds": progress.wall_seconds})
    return Heart(files, state, stop, DeviceUse(runtime.device).look)


def _tell(heart: Heart, event: Event, steps: int, best_by: Measure) -> None:
    if isinstance(event, StepEvent):
        heart.progress(
            step=event.step,
            loss=event.loss,
            tokens_per_second=event.tokens_per_second,
            seconds_left=(steps - event.step) * event.step_seconds,
        )
    elif isinstance(event, ValidationEvent):
        best = heart.state.best
        improved = not best or best_by.badness(event.measures) < best_by.badness(best)
        heart.progress(measures=event.measures, best=event.measures if improved else best)
