"""The training loop: the same for every method, task and machine.

for each step:  freeze what the plan says -> gradients of the mean loss -> update -> look -> save
"""

import math
import signal
import time
from dataclasses import asdict

from oelm.base.errors import DivergedError
from oelm.config.method import FreezingPlan
from oelm.config.record import FreezeEvent, StepEvent, ValidationEvent
from oelm.config.run import RunConfig
from oelm.method.freezing import frozen_names
from oelm.tasks.task import Task
from oelm.train.checkpoint import Checkpoints, Progress
from oelm.train.engine import Engine, Update
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
    for step in range(progress.step, steps):
        clock = time.perf_counter()
        _freeze(engine, frozen_names(plan, engine.table, step, steps), step, emit)
        lr = learning_rate(config.optim, step, steps)
        engine.accumulate(task, step, stop=stop.signal is not None)
        update = engine.update(lr)
        _refuse_divergence(engine, update, step + 1, config)
        engine.runtime.synchronise()
        seconds = time.perf_counter() - clock
        progress.advance(loss=update.loss, tokens=update.tokens, seconds=seconds, timed=step >= first_timed)
        progress.note_gradient(update.gradient_norm)

        last = progress.step == steps
        if progress.step % machine.log_every == 0 or last:
            emit(_step_event(progress, lr))
            progress.clear_window()
        if progress.step % config.train.validate_every == 0 or last:
            _validate(engine, task, progress, config, checkpoints, emit)
        if progress.step % machine.save_every == 0 or last or update.stop:
            progress.wall_seconds = time.perf_counter() - session_start
            if events is not None:
                progress.events_bytes, progress.events_digest = events.sync()
                progress.loss_scale = asdict(engine.loss_scale) if engine.loss_scale else None
                checkpoints.save(engine.model, engine.moments(), progress)
        if update.stop and not last:
            engine.wait_for_all()  # the first process to end takes the others down, and the leading one is still saving
            raise Interrupted(stop.signal or signal.SIGTERM)


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


def _refuse_divergence(engine: Engine, update: Update, step: int, config: RunConfig) -> None:
    """Under a loss scale a gradient may overflow: the step is skipped and the scale lowered, while that helps."""
    _require_finite(update.loss, "loss", step, config)
    if engine.loss_scale is None or engine.loss_scale.exhausted:
        _require_finite(update.gradient_norm, "gradient", step, config)


def _require_finite(value: float, what: str, step: int, config: RunConfig) -> None:
    if not math.isfinite(value):
        raise DivergedError(
            f"the {what} is {value} in step {step}; the run has stopped and its last checkpoint is intact",
            f"lower --max-lr (now {config.optim.lr:g}) or lengthen --warmup-steps (now {config.optim.warmup_steps}) "
            "in another --out-dir",
        )


def _step_event(progress: Progress, lr: float) -> StepEvent:
    step_seconds = progress.window_seconds / progress.window_steps
    return StepEvent(
        step=progress.step,
        tokens=progress.tokens,
        loss=progress.window_loss / progress.window_steps,
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
    clock = time.perf_counter()
    measures = engine.evaluate(task)
    engine.runtime.synchronise()
    progress.validation_seconds += time.perf_counter() - clock
    loss = measures["loss"]
    _require_finite(loss, "validation loss", progress.step, config)
    emit(
        ValidationEvent(
            step=progress.step,
            tokens=progress.tokens,
            loss=loss,
            measures=measures,
            seconds=progress.training_seconds,
        )
    )
    if progress.best_loss is None or loss < progress.best_loss:
        progress.best_loss, progress.best_step = loss, progress.step
        if engine.runtime.leads:
            checkpoints.save_best(engine.model, progress)
