"""The crossed bootstrap of fine-tuned arms: other seeds and other examples at once.

Let c_se be 1 where the run of seed s got example e right. An arm's accuracy is the mean of c over both; its difference
to the control and its share of the control's accuracy are taken on the same seeds and examples. Each replicate draws
S seeds and E examples with replacement, the same for all arms, and computes the statistic anew.

**Small numbers of seeds.** A bootstrap over S seeds sees only (S-1)/S of their variance, and its percentiles know
nothing of the t-distribution: with three seeds that scatter, they cover 80 % instead of 95 %. So the replicates give
the variance, V = V_crossed + V_seeds / (S-1), where V_seeds is that of replicates that redraw the seeds only, and the
interval is estimate ± t(f) sqrt(V) with Satterthwaite's degrees of freedom
f = V^2 / ((V_seeds S/(S-1))^2 / (S-1) + V_examples^2 / (E-1)):
many if the examples decide, S-1 if the seeds do. Where three seeds agree by luck f comes out too large, so the interval
is never narrower than the paired t-interval over seeds alone. It covers 95 % where seeds decide and 98 to 99 % where
examples do, because a crossed bootstrap counts the chance in a single answer more than once.
"""

# S seeds  E examples  R replicates

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oelm.report.blocks import Contrast, Floats, paired_contrast
from oelm.report.statistics import CONFIDENCE

Statistic = Callable[[Floats, Floats], Floats]
"""Of the arm's accuracy and the control's, elementwise."""
REPLICATES = 2000
_AT_ONCE = 2_000_000
"""Examples drawn in one go; bounds the memory."""


@dataclass(frozen=True)
class Resampled:
    """An arm against its control: the difference of accuracies and the share, each with its error."""

    points: Contrast
    """In hundredths."""
    share: Contrast


@dataclass(frozen=True)
class Draws:
    """How often each replicate drew each seed and each example, as shares that sum to 1."""

    seeds_RS: Floats
    examples_RE: Floats


def draw(seeds: int, examples: int, replicates: int = REPLICATES) -> Draws:
    """The draws of a crossed bootstrap: always the same for the same sizes, so that a report is reproducible."""
    generator = np.random.default_rng([seeds, examples, replicates])
    return Draws(_shares(generator, replicates, seeds), _shares(generator, replicates, examples))


def resample(arm_SE: NDArray[np.bool_], control_SE: NDArray[np.bool_], draws: Draws) -> Resampled:
    """Both statistics of one arm and its control, two or more seeds of each on the same examples."""
    return Resampled(
        _contrast(arm_SE, control_SE, draws, lambda arm, control: 100 * (arm - control)),
        _contrast(arm_SE, control_SE, draws, lambda arm, control: arm / np.maximum(control, 1e-12)),
    )


def _shares(generator: np.random.Generator, replicates: int, size: int) -> Floats:
    rows = max(1, _AT_ONCE // size)
    parts = [
        _counted(generator.integers(0, size, (min(rows, replicates - start), size)))
        for start in range(0, replicates, rows)
    ]
    return np.concatenate(parts) / size


def _counted(drawn: NDArray[np.int64]) -> Floats:
    rows, size = drawn.shape
    flat = drawn + size * np.arange(rows)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)


def _contrast(arm_SE: NDArray[np.bool_], control_SE: NDArray[np.bool_], draws: Draws, statistic: Statistic) -> Contrast:
    seeds, examples = arm_SE.shape
    both = (arm_SE.astype(np.float64), control_SE.astype(np.float64))

    def variance(seeds_RS: Floats | None, examples_RE: Floats | None) -> float:
        arm, control = (_accuracies(correct_SE, seeds_RS, examples_RE) for correct_SE in both)
        return float(np.var(statistic(arm, control)))

    crossed = variance(draws.seeds_RS, draws.examples_RE)
    of_seeds, of_examples = variance(draws.seeds_RS, None), variance(None, draws.examples_RE)
    total = crossed + of_seeds / (seeds - 1)
    small = (of_seeds * seeds / (seeds - 1)) ** 2 / (seeds - 1) + of_examples**2 / (examples - 1)
    freedom = total**2 / small if small > 0 else float(examples - 1)
    mean = statistic(np.asarray(both[0].mean()), np.asarray(both[1].mean()))
    crossing = Contrast(np.asarray(mean), np.asarray(total**0.5), np.asarray(freedom))
    by_seed = paired_contrast(statistic(both[0].mean(axis=1), both[1].mean(axis=1)))
    seeds_alone = Contrast(crossing.mean, by_seed.error, by_seed.freedom)
    return max(crossing, seeds_alone, key=lambda each: float(each.half_width(CONFIDENCE)))


def _accuracies(correct_SE: Floats, seeds_RS: Floats | None, examples_RE: Floats | None) -> Floats:
    """The accuracy of each replicate; None keeps the seeds, or the examples, as they are."""
    if examples_RE is None:
        assert seeds_RS is not None
        return np.asarray(seeds_RS @ correct_SE.mean(axis=1))
    by_seed_RS = examples_RE @ correct_SE.T
    return np.asarray(by_seed_RS.mean(axis=1) if seeds_RS is None else (by_seed_RS * seeds_RS).sum(axis=1))
