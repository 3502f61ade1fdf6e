"""Steps that would harm the weights: noticed before they do, and what is done about them.

Bad is a loss or a gradient that is not a number. Unless the policy is to stop, so is a leap: a loss of more than a nat
above the mean of the last hundred steps or so. The engine applies none of them.
"""

import hashlib
import math

from oelm.base.errors import DivergedError
from oelm.config.measure import SQUARED_ERROR
from oelm.config.record import BadStepEvent
from oelm.config.run import BadSteps, RunConfig
from oelm.tasks.task import Task
from oelm.train.checkpoint import Checkpoints, Progress
from oelm.train.engine import Engine, Update
from oelm.train.observers import Emit

LEAP = 1.0
"""In nats: a cross entropy's unit. A squared error has the unit of its labels, and no leap is seen there."""
MOST_IN_A_ROW = 10
"""Then something else is wrong than a few batches."""


def most_loss(config: RunConfig, task: Task, progress: Progress) -> float:
    """The loss above which a step is a leap."""
    if config.train.bad_steps is BadSteps.STOP or progress.usual_loss is None or SQUARED_ERROR in task.measures:
        return math.inf
    return progress.usual_loss + LEAP


def what_is_wrong(engine: Engine, update: Update, progress: Progress, most: float) -> str | None:
    """Why a step is bad. Under a loss scale, loss and gradient may overflow: it is lowered, while that helps."""
    if engine.loss_scale is not None and not engine.loss_scale.exhausted and not update.finite:
        return None
    if not math.isfinite(update.loss):
        return f"the loss is {update.loss}"
    if not math.isfinite(update.gradient_norm):
        return f"the gradient is {update.gradient_norm}"
    if update.loss > most:
        return f"the loss leapt to {update.loss:.4g} from about {progress.usual_loss:.4g}"
    return None


def respond(
    wrong: str, engine: Engine, task: Task, config: RunConfig, progress: Progress, checkpoints: Checkpoints, emit: Emit
) -> None:
    """Note the step and its batch in the events; then stop, go on, or go back to the weights of a checkpoint."""
    step, action = progress.step, config.train.bad_steps
    batch = _digest(task, step) if engine.runtime.leads else ""
    emit(BadStepEvent(step=step + 1, reason=wrong, action=action, batch=batch))
    progress.bad_in_a_row += 1
    if action is BadSteps.STOP or progress.bad_in_a_row > MOST_IN_A_ROW:
        raise diverged(wrong, step + 1, config)
    if action is BadSteps.ROLL_BACK:
        if not progress.rolls_back_to:
            raise diverged(f"{wrong}, before there was a checkpoint to go back to,", step + 1, config)
        engine.set_moments(checkpoints.roll_back(engine.model, progress.rolls_back_to))


def diverged(wrong: str, step: int, config: RunConfig) -> DivergedError:
    """The error that ends a run whose numbers cannot be trusted any more."""
    return DivergedError(
        f"{wrong} in step {step}; the run has stopped and its last checkpoint is intact",
        f"lower --max-lr (now {config.optim.lr:g}) or lengthen --warmup-steps (now {config.optim.warmup_steps}) "
        "in another --out-dir",
    )


def _digest(task: Task, step: int) -> str:
    """Of the whole batch, whichever way it was shared out over processes and micro-batches."""
    digest, batch = hashlib.sha256(), task.training_batch(step, 0, 1)
    for name in sorted(batch):
        digest.update(batch[name].numpy().tobytes())
    return digest.hexdigest()
