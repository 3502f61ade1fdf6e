"""The training loop: the same for every method, task and machine.

for each step:  freeze what the plan says -> gradients of the mean loss -> update -> look -> save
"""

import math
import signal
import time
from dataclasses import asdict

from oelm.config.method import FreezingPlan
from oelm.config.record import FreezeEvent, StepEvent, ValidationEvent
from oelm.config.run import BadSteps, RunConfig
from oelm.method.freezing import frozen_names
from oelm.tasks.task import Task, TextTask
from oelm.train.bad_steps import diverged, most_loss, respond, what_is_wrong
from oelm.train.checkpoint import Checkpoints, Progress
from oelm.train.engine import Engine
from oelm.train.folder import EventLog
from oelm.train.observers import Emit
from oelm.train.schedule import learning_rate
from oelm.train.stopping import Interrupted, StopRequest

WARMUP_STEPS = 100
"""Steps at the start of each session that are left out of the timing, but never more than a tenth of the run."""


def train(
    engine: Engine,
    task: Task,
    plan: FreezingPlan | None,
    config: RunConfig,
    progress: Progress,
    *,
    events: EventLog | None,
    checkpoints: Checkpoints,
    emit: Emit,
    stop: StopRequest,
) -> None:
    """Train from `progress` to the last step; `Interrupted` when asked to stop before, after saving.

    Only the leading process has an event log, and it alone writes checkpoints.
    """
    steps, machine = config.train.steps, config.machine
    first_timed = progress.step + min(WARMUP_STEPS, steps // 10)
    session_start = time.perf_counter() - progress.wall_seconds
    # A resumed run begins with the set of the step before, so that a change at this very step is seen as one.
    engine.ensure_frozen(frozen_names(plan, engine.table, max(0, progress.step - 1), steps))
    _note_due(progress, config)  # checkpoints from before it was noted do not say so themselves
    for step in range(progress.step, steps):
        clock = time.perf_counter()
        _freeze(engine, frozen_names(plan, engine.table, step, steps), step, emit)
        lr, most = learning_rate(config.optim, step, steps), most_loss(config, task, progress)
        engine.accumulate(task, step, stop=stop.signal is not None)
        update = engine.update(lr, most_loss=most)
        wrong = what_is_wrong(engine, update, progress, most)
        if wrong is not None:
            respond(wrong, engine, task, config, progress, checkpoints, emit)
        engine.runtime.synchronise()
        seconds = time.perf_counter() - clock
        loss = update.loss if wrong is None and math.isfinite(update.loss) else None
        progress.advance(loss=loss, tokens=update.tokens, seconds=seconds, timed=step >= first_timed)
        progress.note_update(loss=loss, gradient_norm=update.gradient_norm, applied=update.applied, bad=bool(wrong))

        last = progress.step == steps
        if (progress.step % machine.log_every == 0 or last) and progress.window_losses:  # else it goes on
            emit(_step_event(progress, lr))
            progress.clear_window()
        if progress.step % config.train.validate_every == 0 or last:
            _validate(engine, task, progress, config, checkpoints, emit)
        if _note_due(progress, config) or last or update.stop:
            progress.wall_seconds = time.perf_counter() - session_start
            if events is not None:
                progress.events_bytes, progress.events_digest = events.sync()
                progress.loss_scale = asdict(engine.loss_scale) if engine.loss_scale else None
                checkpoints.save(engine.model, engine.moments(), progress)
        if update.stop and not last:
            engine.wait_for_all()  # the first process to end takes the others down, and the leading one is still saving
            raise Interrupted(stop.signal or signal.SIGTERM)


def _note_due(progress: Progress, config: RunConfig) -> bool:
    """Whether a checkpoint is due at this step; then bad steps go back to it, if that is the policy."""
    due = progress.step % config.machine.save_every == 0
    if due and config.train.bad_steps is BadSteps.ROLL_BACK:
        progress.rolls_back_to = progress.step
    return due


def _freeze(engine: Engine, frozen: frozenset[str], step: int, emit: Emit) -> None:
    before = engine.frozen or frozenset()
    if engine.ensure_frozen(frozen):
        emit(
            FreezeEvent(
                step=step,
                frozen=len(frozen),
                frozen_weights=sum(weight.count for weight in engine.table if weight.name in frozen),
                thawed=tuple(sorted(before - frozen)),
                newly_frozen=tuple(sorted(frozen - before)),
            )
        )


def _step_event(progress: Progress, lr: float) -> StepEvent:
    step_seconds = progress.window_seconds / progress.window_steps
    return StepEvent(
        step=progress.step,
        tokens=progress.tokens,
        loss=progress.window_loss / progress.window_losses,
        lr=lr,
        gradient_norm=progress.gradient_norm,
        seconds=progress.training_seconds,
        step_seconds=step_seconds,
        tokens_per_second=progress.tokens / progress.step / step_seconds,
        skipped_steps=progress.skipped_steps,
    )


def _validate(
    engine: Engine, task: Task, progress: Progress, config: RunConfig, checkpoints: Checkpoints, emit: Emit
) -> None:
    clock, is_last = time.perf_counter(), progress.step == config.train.steps
    sums = engine.validation_sums(task)
    measures = task.summarise(sums)
    engine.runtime.synchronise()
    progress.validation_seconds += time.perf_counter() - clock
    loss = measures["loss"]
    if not math.isfinite(loss):
        raise diverged(f"the validation loss is {loss}", progress.step, config)
    emit(
        ValidationEvent(
            step=progress.step,
            tokens=progress.tokens,
            loss=loss,
            measures=measures,
            seconds=progress.training_seconds,
            text=task.text_blocks(sums) if is_last and isinstance(task, TextTask) else None,
        )
    )
    badness = config.best_by.badness(measures)
    if progress.best is None or badness < progress.best:
        progress.best, progress.best_step = badness, progress.step
        if engine.runtime.leads:
            checkpoints.save_best(engine.model, progress)
