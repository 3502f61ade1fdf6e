"""Studies whose arms are truly at the margin, written as files and read by `report_runs`, which makes every page.

Each design draws one study, and says whether its report calls an arm *non-inferior* or *better*: that is wrong.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from oelm.report.groups import Report, report_runs
from oelm.report.verdicts import Verdict

from .written_study import MARGIN, WrittenStudy

AT_MARGIN = math.log(MARGIN)
SD = 0.01
"""Of a loss around arm and seed."""
SEEDS_AT_LOOKS = (3, 4, 5, 6, 8, 10)
LOST = 0.15
"""The share of runs that get lost."""
Design = Callable[[Path, np.random.Generator], bool]


def drawn(generator: np.random.Generator, spread: tuple[float, ...], seeds: int, truth: float) -> np.ndarray:
    """Losses (arms, seeds): the control first, all others `truth` above it; seeds shift all arms together."""
    noise = generator.normal(0, SD, (len(spread), seeds)) * np.array(spread)[:, None]
    return noise + above(len(spread), truth) + generator.normal(0, 0.05, seeds)


def above(arms: int, truth: float) -> np.ndarray:
    """Nothing for the control, `truth` for all others."""
    return np.where(np.arange(arms) == 0, 0.0, truth)[:, None]


def claims(report: Report, data: str = "corpus0") -> bool:
    """Whether an arm is said to keep within the margin on this data."""
    found = [each for group in report.groups if group.data == data for each in group.findings]
    return any(each.verdict in (Verdict.NON_INFERIOR, Verdict.BETTER) for each in found)


def judged(folder: Path, values_AS: np.ndarray, *, is_registered: bool = True) -> Report:
    """The report on one data set; a plan has all these seeds, whether or not their runs are there."""
    study, seeds = WrittenStudy(folder, len(values_AS)), range(values_AS.shape[1])
    if is_registered:
        study.register(seeds)
    study.add_runs(values_AS, seeds)
    return report_runs([folder])


def equal(folder: Path, generator: np.random.Generator) -> bool:
    """Five arms that scatter alike, three seeds."""
    return claims(judged(folder, drawn(generator, (1, 1, 1, 1, 1), 3, AT_MARGIN)))


def noisy_control(folder: Path, generator: np.random.Generator) -> bool:
    """The control scatters three times as much."""
    return claims(judged(folder, drawn(generator, (3, 1, 1, 1, 1), 3, AT_MARGIN)))


def all_different(folder: Path, generator: np.random.Generator) -> bool:
    """Every arm has its own scatter."""
    return claims(judged(folder, drawn(generator, (1, 2, 4, 0.5, 1), 3, AT_MARGIN)))


def clusters(folder: Path, generator: np.random.Generator) -> bool:
    """Seeds move the control and the primary arm together, and the three others together."""
    shared = generator.normal(0, 3 * SD, (2, 3))[[0, 0, 1, 1, 1]]
    return claims(judged(folder, drawn(generator, (1, 1, 1, 1, 1), 3, AT_MARGIN) + shared))


def heavy_tails(folder: Path, generator: np.random.Generator) -> bool:
    """Student's t with two degrees of freedom instead of a normal distribution."""
    return claims(judged(folder, SD * generator.standard_t(2, (5, 3)) + above(5, AT_MARGIN)))


def lost_at_random(folder: Path, generator: np.random.Generator) -> bool:
    """Of five planned seeds, runs get lost; a plan is registered."""
    return claims(judged(folder, _with_losses(generator)))


def lost_without_plan(folder: Path, generator: np.random.Generator) -> bool:
    """The same without a plan."""
    return claims(judged(folder, _with_losses(generator), is_registered=False))


def _with_losses(generator: np.random.Generator) -> np.ndarray:
    values = drawn(generator, (1, 1, 1, 1, 1), 5, AT_MARGIN)
    lost = generator.random(values.shape) < LOST
    lost[:, 0] &= ~lost[:, 0].all()  # somebody has a run
    return np.where(lost, np.nan, values)


def worst_missing(folder: Path, generator: np.random.Generator) -> bool:
    """Of four planned seeds the one where the primary arm is worst is left out."""
    return claims(judged(folder, _without_the_worst(generator)))


def worst_missing_without_plan(folder: Path, generator: np.random.Generator) -> bool:
    """The same where nothing was registered."""
    return claims(judged(folder, _without_the_worst(generator), is_registered=False))


def _without_the_worst(generator: np.random.Generator) -> np.ndarray:
    values = drawn(generator, (1, 1), 4, AT_MARGIN)
    worst = np.argmax(values[1] - values[0])
    return np.where(np.arange(4) == worst, np.nan, values)


def stopped_when_it_fits(folder: Path, generator: np.random.Generator) -> bool:
    """Seeds are added until the arm is non-inferior, under a plan that allows for so many looks."""
    return _stopped(folder, generator, looks=len(SEEDS_AT_LOOKS))


def stopped_without_leave(folder: Path, generator: np.random.Generator) -> bool:
    """Seeds are added under a plan that allows for one look: they are not judged."""
    return _stopped(folder, generator, looks=1)


def stopped_without_plan(folder: Path, generator: np.random.Generator) -> bool:
    """Seeds are added where nothing was registered."""
    return _stopped(folder, generator, looks=None)


def _stopped(folder: Path, generator: np.random.Generator, looks: int | None) -> bool:
    values, study, made = drawn(generator, (1, 1), SEEDS_AT_LOOKS[-1], AT_MARGIN), WrittenStudy(folder, 2), 0
    for seeds in SEEDS_AT_LOOKS:
        if looks is not None:
            study.register(range(seeds), looks, runs_before=2 * made)
        study.add_runs(values[:, made:seeds], range(made, seeds))
        made = seeds
        if claims(report_runs([folder])):
            return True
    return False


def eight_data_sets(folder: Path, generator: np.random.Generator) -> bool:
    """Three arms on eight data sets, at the margin on all of them."""
    return _on_data_sets(folder, generator, (AT_MARGIN,) * 8)


def worst_of_eight(folder: Path, generator: np.random.Generator) -> bool:
    """At the margin on one of eight data sets, equal to the control on the others."""
    return _on_data_sets(folder, generator, (AT_MARGIN, *(0.0,) * 7))


def _on_data_sets(folder: Path, generator: np.random.Generator, truths: tuple[float, ...]) -> bool:
    study = WrittenStudy(folder, 3, len(truths))
    study.register(range(3))
    for place, truth in enumerate(truths):
        study.add_runs(drawn(generator, (1, 1, 1), 3, truth), range(3), place)
    report = report_runs([folder])
    return any(claims(report, f"corpus{place}") for place, truth in enumerate(truths) if truth)


HELD: dict[str, Design] = {
    "equal variances": equal,
    "unequal variances: a control that scatters three times as much": noisy_control,
    "unequal variances: every arm its own": all_different,
    "arms in clusters that seeds move together": clusters,
    "heavy tails (Student's t, 2 degrees of freedom)": heavy_tails,
    "15 % of the runs lost at random": lost_at_random,
    "15 % of the runs lost at random, no plan": lost_without_plan,
    "the primary arm's worst seed left out": worst_missing,
    "seeds added until it fits (3 to 10), six looks planned": stopped_when_it_fits,
    "seeds added until it fits (3 to 10), one look planned": stopped_without_leave,
    "eight data sets, at the margin on all": eight_data_sets,
    "eight data sets, at the margin on one": worst_of_eight,
}
"""Those that must not be wrong in more than 5 %."""
NOT_HELD: dict[str, Design] = {
    "the primary arm's worst seed left out, no plan": worst_missing_without_plan,
    "seeds added until it fits (3 to 10), no plan": stopped_without_plan,
}
"""What no statistics can see: these pages begin with *Exploratory*."""
