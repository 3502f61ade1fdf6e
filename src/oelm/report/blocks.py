"""The mathematics of a paired comparison, for one experiment or for many simulated ones at once.

Losses come as an array y of shape (..., A arms, S seeds). Seeds are blocks: all arms of a seed share batches and every
weight outside the method, so y_as = mu + alpha_a + beta_s + e_as. A difference d_s = y_as - y_cs has mean
alpha_a - alpha_c and two standard errors:

- pooled over all arms: sqrt(2 s^2 / S), where s^2 is the residual mean square of the additive model with
  (A-1)(S-1) degrees of freedom. Sharp with few seeds, but only right if all arms scatter alike;
- paired, from the differences of this arm alone: sd(d) / sqrt(S) with S-1 degrees of freedom. Always right.

**Which one.** The pooled one, unless the variances differ: unless sd(d)^2 / 2 lies above the *median* of its F
distribution against what is left of the residual ((A-2)(S-1) degrees of freedom), or the control alone scatters more
than the others at the 20 % level. The levels look lax on purpose. With three seeds a test at 5 % notices a threefold
standard deviation once in five times, and unnoticed the pooled interval covers 84 % instead of 95 %; a noisy control
is in all comparisons at once, hence the second test. Only *more* scatter matters: with less, the pooled interval is too
wide, which harms nobody. Taking the wider interval in half of the homogeneous cases makes the coverage there 97 %:
that is the price. `tests/report/test_simulations.py` measures all of this.
"""

# A arms  S seeds

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PAIR_LEVEL = 0.5
CONTROL_LEVEL = 0.2


@dataclass(frozen=True)
class Contrast:
    """A mean difference of log losses with its standard error and degrees of freedom, elementwise over experiments."""

    mean: Floats
    error: Floats
    freedom: Floats

    def half_width(self, confidence: Floats | float) -> Floats:
        """Of the two-sided t-interval: t(freedom) * error."""
        from scipy.special import stdtrit  # here, because scipy takes longer to import than `oelm --help` may take

        return np.asarray(stdtrit(self.freedom, (1 + np.asarray(confidence)) / 2) * self.error)

    def p_value(self, truth: float) -> Floats:
        """Of the two-sided t-test of mean = truth; the interval at confidence 1 - p just touches the truth."""
        from scipy.special import stdtr

        distance = np.abs(self.mean - truth)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(distance == 0, 0.0, distance / self.error)  # equal runs have no error at all
        return np.asarray(2 * stdtr(self.freedom, -statistic))


def paired_contrast(differences: Floats) -> Contrast:
    """From the differences of one arm and its control, seeds on the last axis."""
    seeds = differences.shape[-1]
    mean = differences.mean(axis=-1)
    error = differences.std(axis=-1, ddof=1) / math.sqrt(seeds)
    return Contrast(np.asarray(mean), np.asarray(error), np.full(np.shape(mean), float(seeds - 1)))


def pooled_contrast(losses: Floats, arm: int, control: int) -> Contrast:
    """From the residuals of all arms."""
    arms, seeds = losses.shape[-2:]
    freedom = (arms - 1) * (seeds - 1)
    mean = (losses[..., arm, :] - losses[..., control, :]).mean(axis=-1)
    variance = (residuals(losses) ** 2).sum(axis=(-2, -1)) / freedom
    return Contrast(np.asarray(mean), np.sqrt(2 * variance / seeds), np.full(np.shape(mean), float(freedom)))


def chosen_contrast(losses: Floats, arm: int, control: int) -> tuple[Contrast, Flags]:
    """The pooled contrast, or the paired one where the variances differ; and where they do."""
    pooled = pooled_contrast(losses, arm, control)
    paired = paired_contrast(losses[..., arm, :] - losses[..., control, :])
    differ = variances_differ(losses, arm, control)
    chosen = Contrast(
        pooled.mean,
        np.where(differ, paired.error, pooled.error),
        np.where(differ, paired.freedom, pooled.freedom),
    )
    return chosen, differ


def variances_differ(losses: Floats, arm: int, control: int) -> Flags:
    """Whether this pair, or its control alone, scatters more than the rest (see above); with two arms there is none."""
    from scipy.special import fdtri

    arms, seeds = losses.shape[-2:]
    if arms < 3:
        return np.zeros(losses.shape[:-2], dtype=bool)
    total = (residuals(losses) ** 2).sum(axis=(-2, -1))
    pair = (losses[..., arm, :] - losses[..., control, :]).var(axis=-1, ddof=1) / 2
    alone = (residuals(losses)[..., control, :] ** 2).sum(axis=-1) * arms / (arms - 1) / (seeds - 1)
    own_freedom, rest_freedom = seeds - 1, (arms - 2) * (seeds - 1)

    def is_more(variance: Floats, level: float) -> Flags:
        # Each of the two variances takes seeds-1 dimensions of the residual space; the rest is orthogonal to it.
        rest = (total - own_freedom * variance) / rest_freedom
        return np.asarray(variance > fdtri(own_freedom, rest_freedom, 1 - level) * np.maximum(rest, 0))

    return is_more(pair, PAIR_LEVEL) | is_more(alone, CONTROL_LEVEL)


def residuals(losses: Floats) -> Floats:
    """What the additive model leaves: y_as - mean_a - mean_s + mean."""
    by_arm, by_seed = losses.mean(axis=-1, keepdims=True), losses.mean(axis=-2, keepdims=True)
    return np.asarray(losses - by_arm - by_seed + losses.mean(axis=(-2, -1), keepdims=True))
