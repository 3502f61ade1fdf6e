"""The learning rate as a function of the step."""

import math

from oelm.config.run import OptimConfig, Schedule


def learning_rate(optim: OptimConfig, step: int, total_steps: int) -> float:
    """Linear warm-up to `lr`, then a half cosine or a straight line to `min_lr_ratio` x lr; `step` counts from 0."""
    if step < optim.warmup_steps:
        return optim.lr * (step + 1) / optim.warmup_steps
    progress = (step - optim.warmup_steps) / max(1, total_steps - optim.warmup_steps)
    height = 1 - progress if optim.schedule is Schedule.LINEAR else 0.5 * (1 + math.cos(math.pi * progress))
    return optim.lr * (optim.min_lr_ratio + (1 - optim.min_lr_ratio) * height)
