"""The mathematics of a comparison: an arm's mean difference to its control, with its error and degrees of freedom.

**Values per run** come as an array y of shape (..., A arms, S seeds): one experiment, or many simulated ones at once.
Seeds are blocks: all arms of a seed share batches and every weight outside the method, so
y_as = mu + alpha_a + beta_s + e_as. A difference d_s = y_as - y_cs has mean alpha_a - alpha_c and two standard errors:

- pooled over all arms: sqrt(2 s^2 / S), where s^2 is the residual mean square of the additive model with
  (A-1)(S-1) degrees of freedom. Sharp with few seeds, but only right if all arms scatter alike;
- paired, from the differences of this arm alone: sd(d) / sqrt(S) with S-1 degrees of freedom. Always right.

Which one: the pooled one, unless the variances differ: unless sd(d)^2 / 2 lies above the *median* of its F
distribution against what is left of the residual ((A-2)(S-1) degrees of freedom), or the control alone scatters more
than the others at the 20 % level. The levels look lax on purpose. With three seeds a test at 5 % notices a threefold
standard deviation once in five times, and unnoticed the pooled interval covers 84 % instead of 95 %; a noisy control
is in all comparisons at once, hence the second test. Nor is anything pooled where Tukey's test rejects the additive
model itself, or where a pair has seeds that another arm lacks, which would be lost. Only *more* scatter matters: with
less, the pooled interval is too wide, which harms nobody. Taking the wider interval in half of the homogeneous cases
makes the coverage there 97 %: that is the price. `tests/report/test_simulations.py` measures all of this.

**Values per example**: let c_se be the outcome of seed s on example e, such as 1 where it is right. An arm's value is
the mean of c over both; difference and share are taken on the same seeds and examples. Each replicate of the crossed
bootstrap draws S seeds and E examples with replacement, the same for all arms, and computes the statistic anew.
A bootstrap over S seeds sees only (S-1)/S of their variance, and its percentiles know nothing of the t-distribution:
with three seeds that scatter, they cover 80 % instead of 95 %. So the replicates give the variance,
V = V_crossed + V_seeds / (S-1), where V_seeds is that of replicates that redraw the seeds only, and the interval is
estimate +- t(f) sqrt(V) with Satterthwaite's degrees of freedom
f = V^2 / ((V_seeds S/(S-1))^2 / (S-1) + V_examples^2 / (E-1)):
many if the examples decide, S-1 if the seeds do. Where three seeds agree by luck f comes out too large, so at no level
is the interval narrower than the paired t-interval over seeds alone. It covers 95 % where seeds decide and 98 to 99 %
where examples do, because a crossed bootstrap counts the chance in a single outcome more than once.

**Values per block of text**: a validation text is K blocks of whole documents. Block k has n_k tokens, and the arm's
summed loss on it lies d_k above its control's, mean over seeds. The difference per token is r = sum d / sum n. Its
standard error over texts, with the seeds as they are, is that of a ratio, sqrt(K/(K-1) sum (d_k - r n_k)^2) / sum n,
with K-1 degrees of freedom.
"""

# A arms  S seeds  E examples  R replicates  K blocks of text

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Statistic = Callable[[Floats, Floats], Floats]
"""Of the arm's mean and the control's, elementwise."""

CONFIDENCE = 0.95
PAIR_LEVEL = 0.5
CONTROL_LEVEL = 0.2
ADDITIVE_LEVEL = 0.05
MOST_SEEDS = 100
REPLICATES = 2000
_DRAWN_AT_ONCE = 2_000_000
"""Bounds the memory."""


@dataclass(frozen=True)
class Contrast:
    """A mean difference with its standard error and degrees of freedom, elementwise over experiments."""

    mean: Floats
    error: Floats
    freedom: Floats
    floor: "Contrast | None" = None
    """Another contrast of the same mean, than whose interval this one's is never narrower."""
    lasting: float = 0.0
    """The part of error^2 that more seeds do not lessen: that of the examples."""

    def half_width(self, confidence: Floats | float) -> Floats:
        """Of the two-sided t-interval: t(freedom) * error."""
        from scipy.special import stdtrit  # here, because scipy takes longer to import than `oelm --help` may take

        own = np.asarray(stdtrit(self.freedom, (1 + np.asarray(confidence)) / 2) * self.error)
        return own if self.floor is None else np.maximum(own, self.floor.half_width(confidence))

    def p_value(self, truth: float) -> Floats:
        """Of the two-sided t-test of mean = truth; the interval at confidence 1 - p just touches the truth."""
        own = 2 * self._tail(-np.abs(truth - self.mean))
        return own if self.floor is None else np.maximum(own, self.floor.p_value(truth))

    def share_below(self, limit: float) -> Floats:
        """How much of the estimate's t-distribution lies below a limit: P(true difference < limit), flat prior."""
        own = self._tail(limit - self.mean)
        if self.floor is None:
            return own
        floor = self.floor.share_below(limit)
        return np.where(np.abs(floor - 0.5) < np.abs(own - 0.5), floor, own)

    def _tail(self, distance: Floats) -> Floats:
        from scipy.special import stdtr

        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(distance == 0, 0.0, distance / self.error)  # equal runs have no error at all
        return np.asarray(stdtr(self.freedom, statistic))


def where(condition: Flags, one: Contrast, other: Contrast) -> Contrast:
    """Elementwise one or the other."""
    return Contrast(
        np.where(condition, one.mean, other.mean),
        np.where(condition, one.error, other.error),
        np.where(condition, one.freedom, other.freedom),
    )


def seeds_to_decide(contrast: Contrast, seeds: int, limit: float, confidence: float) -> int | None:
    """How many further seeds would let the interval exclude the limit, if difference and scatter stay as they are.

    With n of them the error is sqrt(lasting + (error^2 - lasting) S / n) and there are (n-1) / (S-1) times the degrees
    of freedom. None where not even MOST_SEEDS would do.
    """
    totals = range(seeds + 1, seeds + MOST_SEEDS + 1)
    distance = np.abs(contrast.mean - limit)
    enough = (total for total in totals if _with_seeds(contrast, seeds, total).half_width(confidence) < distance)
    found = next(enough, None)
    return None if found is None else found - seeds


def _with_seeds(contrast: Contrast, seeds: int, total: int) -> Contrast:
    of_seeds = np.asarray(contrast.error**2 - contrast.lasting) * seeds / total
    freedom = np.asarray(contrast.freedom * (total - 1) / (seeds - 1))
    floor = None if contrast.floor is None else _with_seeds(contrast.floor, seeds, total)
    return Contrast(contrast.mean, np.sqrt(contrast.lasting + of_seeds), freedom, floor)


# --- values per run ----------------------------------------------------------------------------------------------


def paired_contrast(differences: Floats) -> Contrast:
    """From the differences of one arm and its control, seeds on the last axis."""
    seeds = differences.shape[-1]
    mean = differences.mean(axis=-1)
    error = differences.std(axis=-1, ddof=1) / math.sqrt(seeds)
    return Contrast(np.asarray(mean), np.asarray(error), np.full(np.shape(mean), float(seeds - 1)))


def pooled_contrast(values: Floats, arm: int, control: int) -> Contrast:
    """From the residuals of all arms."""
    arms, seeds = values.shape[-2:]
    freedom = (arms - 1) * (seeds - 1)
    mean = (values[..., arm, :] - values[..., control, :]).mean(axis=-1)
    variance = (residuals(values) ** 2).sum(axis=(-2, -1)) / freedom
    return Contrast(np.asarray(mean), np.sqrt(2 * variance / seeds), np.full(np.shape(mean), float(freedom)))


def slope_contrast(x_N: Floats, y_N: Floats) -> Contrast:
    """The slope b of the least-squares line y = a + b x, its standard error and N - 2 degrees of freedom."""
    centred = x_N - x_N.mean()
    slope = (centred @ y_N) / (centred @ centred)
    residual = y_N - y_N.mean() - slope * centred
    freedom = len(x_N) - 2
    error = math.sqrt(residual @ residual / freedom / (centred @ centred))
    return Contrast(np.asarray(slope), np.asarray(error), np.asarray(float(freedom)))


def variances_differ(values: Floats, arm: int, control: int) -> Flags:
    """Whether this pair, or its control alone, scatters more than the rest (see above); with two arms there is none."""
    from scipy.special import fdtri

    arms, seeds = values.shape[-2:]
    if arms < 3:
        return np.zeros(values.shape[:-2], dtype=bool)
    total = (residuals(values) ** 2).sum(axis=(-2, -1))
    pair = (values[..., arm, :] - values[..., control, :]).var(axis=-1, ddof=1) / 2
    alone = (residuals(values)[..., control, :] ** 2).sum(axis=-1) * arms / (arms - 1) / (seeds - 1)
    own_freedom, rest_freedom = seeds - 1, (arms - 2) * (seeds - 1)

    def is_more(variance: Floats, level: float) -> Flags:
        # Each of the two variances takes seeds-1 dimensions of the residual space; the rest is orthogonal to it.
        rest = (total - own_freedom * variance) / rest_freedom
        return np.asarray(variance > fdtri(own_freedom, rest_freedom, 1 - level) * np.maximum(rest, 0))

    return is_more(pair, PAIR_LEVEL) | is_more(alone, CONTROL_LEVEL)


def is_not_additive(values: Floats) -> Flags:
    """Whether Tukey's test for one degree of freedom rejects the additive model: seeds move some arms more than others.

    With r the residuals, a and b the effects of arms and seeds, SS = (sum r a b)^2 / (sum a^2 sum b^2) is what an
    interaction gamma a_a b_s explains of them; SS / ((sum r^2 - SS) / ((A-1)(S-1) - 1)) has an F distribution if
    there is none.
    """
    from scipy.special import fdtri

    arms, seeds = values.shape[-2:]
    freedom = (arms - 1) * (seeds - 1) - 1
    left, middle = residuals(values), values.mean(axis=(-2, -1), keepdims=True)
    a = values.mean(axis=-1, keepdims=True) - middle
    b = values.mean(axis=-2, keepdims=True) - middle
    product, size = (left * a * b).sum(axis=(-2, -1)), (a**2).sum(axis=(-2, -1)) * (b**2).sum(axis=(-2, -1))
    explained = np.divide(product**2, size, out=np.zeros_like(size), where=size > 0)
    rest = np.maximum((left**2).sum(axis=(-2, -1)) - explained, 0) / freedom
    return np.asarray(explained > fdtri(1, freedom, 1 - ADDITIVE_LEVEL) * rest)


def residuals(values: Floats) -> Floats:
    """What the additive model leaves: y_as - mean_a - mean_s + mean."""
    by_arm, by_seed = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    return np.asarray(values - by_arm - by_seed + values.mean(axis=(-2, -1), keepdims=True))


# --- values per block of text --------------------------------------------------------------------------------------


def text_contrast(differences_K: Floats, tokens_K: Floats) -> Contrast:
    """From the paired differences of summed losses, blocks on the last axis."""
    blocks = differences_K.shape[-1]
    mean = np.asarray(differences_K.sum(axis=-1) / tokens_K.sum(axis=-1))
    left_K = differences_K - mean[..., None] * tokens_K
    error = np.sqrt(blocks / (blocks - 1) * (left_K**2).sum(axis=-1)) / tokens_K.sum(axis=-1)
    return Contrast(mean, np.asarray(error), np.full(np.shape(mean), float(blocks - 1)))


# --- values per example ------------------------------------------------------------------------------------------


Counts = NDArray[np.uint16]


@dataclass(frozen=True)
class Draws:
    """How often each replicate drew each seed and each example."""

    seeds_RS: Counts
    examples_RE: Counts


@lru_cache(maxsize=1)
def draw(seeds: int, examples: int, replicates: int = REPLICATES) -> Draws:
    """The draws of a crossed bootstrap: always the same for the same sizes, so that a report is reproducible."""
    generator = np.random.default_rng([seeds, examples, replicates])
    return Draws(_drawn(generator, replicates, seeds), _drawn(generator, replicates, examples))


def crossed_contrast(arm_SE: Floats, control_SE: Floats, statistic: Statistic, draws: Draws) -> Contrast:
    """From two or more seeds of arm and control on the same examples."""
    seeds, examples = arm_SE.shape

    redrawn_RS = [_redrawn(outcomes_SE, draws.examples_RE) for outcomes_SE in (arm_SE, control_SE)]
    crossed = _variance(statistic, [(by_RS * draws.seeds_RS).sum(axis=1) / seeds for by_RS in redrawn_RS])
    of_seeds = _variance(statistic, [draws.seeds_RS @ each.mean(axis=1) / seeds for each in (arm_SE, control_SE)])
    of_examples = _variance(statistic, [by_RS.mean(axis=1) for by_RS in redrawn_RS])
    total = crossed + of_seeds / (seeds - 1)
    small = (of_seeds * seeds / (seeds - 1)) ** 2 / (seeds - 1) + of_examples**2 / (examples - 1)
    freedom = total**2 / small if small > 0 else float(examples - 1)
    mean = np.asarray(statistic(np.asarray(arm_SE.mean()), np.asarray(control_SE.mean())))
    by_seed = paired_contrast(statistic(arm_SE.mean(axis=1), control_SE.mean(axis=1)))
    seeds_alone = Contrast(mean, by_seed.error, by_seed.freedom)
    return Contrast(mean, np.asarray(total**0.5), np.asarray(freedom), floor=seeds_alone, lasting=of_examples)


def _drawn(generator: np.random.Generator, replicates: int, size: int) -> Counts:
    parts = [_counted(generator.integers(0, size, (rows, size))) for rows in _at_once(replicates, size)]
    return np.concatenate(parts)


def _at_once(replicates: int, size: int) -> list[int]:
    """How many replicates to hold as floats at a time: for 67,000 examples all would take a gigabyte."""
    rows = max(1, _DRAWN_AT_ONCE // size)
    return [min(rows, replicates - start) for start in range(0, replicates, rows)]


def _counted(drawn: NDArray[np.int64]) -> Counts:
    rows, size = drawn.shape
    flat = drawn + size * np.arange(rows)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size).astype(np.uint16)


def _redrawn(outcomes_SE: Floats, examples_RE: Counts) -> Floats:
    """The mean of each seed over the examples that each replicate drew."""
    replicates, size = examples_RE.shape
    ends = np.cumsum(_at_once(replicates, size))[:-1]
    sums_RS = np.concatenate([part.astype(np.float64) @ outcomes_SE.T for part in np.split(examples_RE, ends)])
    return np.asarray(sums_RS / size)


def _variance(statistic: Statistic, means_R: Sequence[Floats]) -> float:
    """Over replicates, of the statistic of the arm's mean and the control's."""
    arm, control = means_R
    return float(np.var(statistic(arm, control)))
