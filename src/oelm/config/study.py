"""What a run knows of the study it belongs to: nothing of it changes a number, all of it bears on the verdict."""

from typing import Annotated, Literal

from pydantic import Field

from oelm.config.settings import Settings


class Tuning(Settings):
    """How the learning rate of an arm was chosen; arms with equal tunings were treated alike, whatever they chose."""

    grid: tuple[float, ...]
    """Learning rates that were tried, in ascending order."""
    seed: int
    """The seed of the tuning runs: none of the runs that are compared has it."""
    steps: int
    """Length of a tuning run."""
    runs: int
    """Tuning runs per arm that were made, diverged ones included."""
    split: Literal["validation", "hold-out"]
    """What the choice was made on."""
    measure: Literal["loss", "accuracy"]
    """What it was made by."""


class StudyRole(Settings):
    """The place of a run in a study, stated before the run."""

    study: str
    stage: Literal["tuning", "final"]
    primary: str | None = None
    """The method whose comparison with its control is the study's question; all others are secondary."""
    margin: Annotated[float, Field(gt=1)] = 1.05
    tuning: Tuning | None = None
    """None where the learning rate was set by hand."""
