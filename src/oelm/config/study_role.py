"""What a run knows about its study: no part of it affects the results, all of it matters for the verdict."""

import math
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from oelm.config.measure import Measure
from oelm.config.settings import Settings


class Trial(Settings):
    """One learning rate that was tried with one arm; `loss` is None where the run diverged."""

    lr: float
    loss: float | None
    value: Annotated[float | None, Field(validation_alias=AliasChoices("value", "accuracy"))] = None
    """Of the measure that the rate was chosen by, if that is not the loss; older records call it accuracy."""
    extension: bool = False
    """Tried because the best rate so far lay at the edge of the grid."""

    def badness(self, measure: Measure) -> tuple[float, float]:
        """By the measure's value where it is not the loss (ties: the lower loss), else by loss; the least is best."""
        loss = math.inf if self.loss is None else self.loss
        return (measure.sign * self.value, loss) if self.value is not None else (loss, 0.0)


class ChosenBy(StrEnum):
    """How the rate that is used came from those that were tried."""

    BEST = "best"
    """The best of them; nothing finer was asked for."""
    VERTEX = "vertex"
    """The vertex of the parabola in log(rate) through the best and its two neighbours."""
    BEST_AT_EDGE = "best-at-edge"
    """The best of them, which has a neighbour on one side only."""
    BEST_BESIDE_DIVERGED = "best-beside-diverged"
    """The best of them; a neighbour diverged, so that there is no parabola."""
    BEST_WITHOUT_CURVATURE = "best-without-curvature"
    """The best of them; the parabola has no minimum."""


class Choice(Settings):
    """The learning rate of a cell, how it was chosen, and from what."""

    cell: str
    lr: float
    """The rate of the final runs."""
    at_edge: bool
    """Whether the best rate is still the lowest or the highest that was tried: a better one may lie beyond."""
    trials: tuple[Trial, ...]
    """In ascending order of their rates."""
    best: float | None = None
    """The best rate that was tried; None in files from before rates were refined, where it is `lr`."""
    by: ChosenBy = ChosenBy.BEST


class Tuning(Settings):
    """How the learning rate of an arm was chosen; arms tuned by one rule were treated alike, whatever they chose."""

    grid: tuple[float, ...]
    """Learning rates that every arm tries, in ascending order."""
    seed: int
    """The seed of the tuning runs: none of the runs that are compared has it."""
    steps: int
    """Length of a tuning run."""
    runs: int
    """Tuning runs of the grid, diverged ones included; extensions come on top (see `choice`)."""
    split: Literal["validation", "validation-half", "hold-out"]
    """What the choice was made on; `validation-half` is the half on which no compared run is judged."""
    measure: str
    """What it was made by."""
    extend: Annotated[int, Field(ge=0)] = 0
    """How often the grid of an arm may be extended by its own factor while the best rate lies at its edge."""
    refine: bool = False
    """Whether the rate used is the vertex of a parabola through the best rate and its neighbours."""
    choice: Choice | None = None
    """The outcome for this arm; None in records from before it was kept."""

    @property
    def rule(self) -> dict[str, object]:
        """Everything except the outcome: arms with equal rules were treated alike."""
        return {name: getattr(self, name) for name in Tuning.model_fields if name != "choice"}


class PlanStamp(Settings):
    """The registered plan under which a run was started (`config/registered.py`)."""

    digest: str
    """SHA-256 of the study's plan.json."""
    registered_at: str
    """UTC."""
    git_commit: str | None
    git_dirty: bool | None
    runs_before: int
    """Runs that had ended when the plan was registered: 0 where it came first."""
    amendments: tuple[str, ...] = ()
    """Digests of the amendments that there were, in their order."""


class StudyRole(Settings):
    """The place of a run in a study, stated before the run."""

    study: str
    stage: Literal["tuning", "final"]
    cell: str | None = None
    """The arm, with data and axes where there are several, as the plan names it; None in older records."""
    primary: str | None = None
    """The method whose comparison with its control is the study's question; all others are secondary."""
    is_primary: bool | None = None
    """Whether this is the primary arm: others may have its method. None in records from before it was kept."""
    margin: Annotated[float, Field(gt=1)] = 1.05
    tuning: Tuning | None = None
    """None where the learning rate was set by hand."""
    plan: PlanStamp | None = None
    """None for a run without a registered plan."""
