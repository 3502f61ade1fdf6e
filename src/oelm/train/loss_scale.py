"""Dynamic loss scaling for float16, by the rule of torch.amp.GradScaler.

float16 ends at 65,504, and gradients below 6e-8 vanish. The loss is multiplied before the backward pass and the
gradients are divided afterwards. If they overflowed, the step is skipped and the factor halved; it doubles after 2,000
steps without an overflow.
"""

from dataclasses import dataclass

_GROWTH_INTERVAL = 2000


@dataclass
class LossScale:
    """The factor of the mean loss, always a power of two, so that scaling itself rounds nothing."""

    value: float = 65536.0
    good_steps: int = 0
    """Since the last overflow or growth."""
    usual_count: float | None = None
    """What the loss of a step is a mean over, guessed from the run's first micro-batch; None before that, and in
    checkpoints from before it was kept."""

    def update(self, *, finite: bool) -> None:
        """Take note of whether the gradients of a step were finite."""
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.value /= 2
        elif self.good_steps == _GROWTH_INTERVAL:
            self.value, self.good_steps = self.value * 2, 0

    @property
    def exhausted(self) -> bool:
        """Gradients overflow even unscaled: that is no matter of the scale any more."""
        return self.value < 1
