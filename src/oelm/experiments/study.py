"""A study as a file: data, arms, axes, seeds, how learning rates are chosen, and what is to be shown.

title: Does freezing cost quality?
data:
  stories: {source: {kind: stories, text_bytes: 4000000}, vocabulary: 1024}
train: {size: tiny, steps: 400}           # settings of `oelm train`, the same for every run
arms:                                     # a method's name, or more than that
  - baseline
  - {method: oelm, settings: {lr: 1e-3}}
axes: {warmup_steps: [20, 200]}           # every arm at every value
tuning: {grid: [1e-3, 2e-3, 4e-3], extend: 2, refine: true, validation: half}  # instead of one learning rate for all
seeds: [0, 1, 2]
primary: oelm
"""

import math
from itertools import pairwise
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from oelm.base.errors import OelmError
from oelm.config.finetune import FinetuneRequest
from oelm.config.methods import parse_method
from oelm.config.request import TrainRequest
from oelm.config.settings import Settings

_SET_BY_THE_STUDY = frozenset({"method", "seed", "source"})
_EQUAL_FACTORS = 0.01
_NAME = r"^[A-Za-z0-9][A-Za-z0-9.,_+=-]*$"


class Prepared(Settings):
    """Token files that `oelm prepare` has made."""

    tokens: str


class Reported(Settings):
    """What somebody else reported for an arm; shown beside our own result, never mixed with it."""

    perplexity: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    """As a share, 0 to 1."""
    note: str | None = None


class Arm(Settings):
    """One method, and what only it has. `name` tells apart arms of one method; `id` is another study's name for it."""

    method: str
    name: Annotated[str, Field(pattern=_NAME)]
    id: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    reported: Reported | None = None

    @field_validator("method")
    @classmethod
    def _is_known(cls, method: str) -> str:
        try:
            parse_method(method)
        except OelmError as error:
            raise ValueError(str(error)) from error
        return method


class TuningPlan(Settings):
    """The first stage: each arm runs the grid with one seed, and goes on with the best learning rate."""

    grid: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=2)]
    seed: Annotated[int, Field(ge=0)] = 1000
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Length of a tuning run as a share of a final one."""
    extend: Annotated[int, Field(ge=0, le=2)] = 0
    """How often the grid of an arm grows by one rate, of the same factor, while its best rate lies at an edge."""
    refine: bool = False
    """Use the vertex of the parabola in log(rate) through the best rate and its neighbours, where there is one."""
    validation: Literal["whole", "half"] = "whole"
    """`half`: rates are chosen on one half of the validation documents, and final runs are judged on the other."""

    @property
    def factor(self) -> float:
        """From one rate of a grid of equal factors to the next."""
        return float((self.grid[-1] / self.grid[0]) ** (1 / (len(self.grid) - 1)))

    @field_validator("grid")
    @classmethod
    def _ascending(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(grid)) != len(grid):
            raise ValueError("a learning rate is in the grid twice")
        return tuple(sorted(grid))

    @model_validator(mode="after")
    def _can_be_extended(self) -> Self:
        steps = [after / before for before, after in pairwise(self.grid)]
        if self.extend and not all(math.isclose(step, self.factor, rel_tol=_EQUAL_FACTORS) for step in steps):
            raise ValueError(
                "a grid that is extended grows by one factor, such as [1e-3, 2e-3, 4e-3]; "
                f"here the factors are {', '.join(f'{step:.3g}' for step in steps)}"
            )
        return self


class Study(Settings):
    """The whole file. Exactly one of `train` and `finetune` holds the settings that all runs share."""

    title: str
    question: str | None = None
    kind: Literal["demonstration", "screening", "confirmation", "reproduction"] = "screening"
    data: Annotated[dict[Annotated[str, Field(pattern=_NAME)], dict[str, Any]], Field(min_length=1)]
    """By name: what `prepare` is asked for, `{tokens: FOLDER}`, or labelled text for `finetune`."""
    train: dict[str, Any] | None = None
    finetune: dict[str, Any] | None = None
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]
    axes: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    tuning: TuningPlan | None = None
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 1, 2)
    primary: str
    """The arm whose comparison with its control answers the question; stated before the runs."""
    margin: Annotated[float, Field(gt=1)] = 1.05
    keep_checkpoints: bool = True
    """Whether a finished run keeps its weights; records, curves and logs are always kept."""

    @field_validator("arms", mode="before")
    @classmethod
    def _names_stand_for_arms(cls, arms: Any) -> Any:
        if not isinstance(arms, list):
            return arms
        spelled = [{"method": arm} if isinstance(arm, str) else arm for arm in arms]
        return [
            {"name": arm.get("method"), **arm} if isinstance(arm, dict) else arm  # a bad one is pydantic's to refuse
            for arm in spelled
        ]

    @field_validator("arms")
    @classmethod
    def _names_differ(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        names = [arm.name for arm in arms]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two arms are called {twice}; give one of them another `name`")
        return arms

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("a seed is listed twice")
        return seeds

    @model_validator(mode="after")
    def _is_one_kind_of_training(self) -> Self:
        if (self.train is None) == (self.finetune is None):
            raise ValueError("give either `train` (from scratch) or `finetune`, with the settings that all runs share")
        return self

    @model_validator(mode="after")
    def _primary_is_an_arm(self) -> Self:
        if self.primary not in [arm.name for arm in self.arms]:
            raise ValueError(f"primary: there is no arm {self.primary!r}")
        return self

    @model_validator(mode="after")
    def _tuning_seed_is_not_used_again(self) -> Self:
        if self.tuning is not None and self.tuning.seed in self.seeds:
            raise ValueError(f"tuning.seed: {self.tuning.seed} is also a seed of the final runs; choose another")
        return self

    @model_validator(mode="after")
    def _halves_are_of_validation_documents(self) -> Self:
        if self.tuning is None or self.tuning.validation == "whole":
            return self
        if self.finetune is not None:
            raise ValueError(
                "tuning.validation: fine-tuned arms are chosen on a hold-out and judged on evaluation sets already; "
                "leave it out"
            )
        for where, values in self.places():
            if "validation_half" in values:
                raise ValueError(f"{where}.validation_half: tuning.validation sets it; leave one of them out")
        return self

    @model_validator(mode="after")
    def _learning_rate_is_set_once(self) -> Self:
        if self.tuning is not None:
            for where, values in self.places():
                if "lr" in values:
                    raise ValueError(f"{where}.lr: the learning rates are tuned; leave it out, or leave `tuning` out")
        return self

    @model_validator(mode="after")
    def _settings_are_known(self) -> Self:
        known = (TrainRequest if self.finetune is None else FinetuneRequest).model_fields.keys() - _SET_BY_THE_STUDY
        for where, values in self.places():
            if unknown := next((name for name in values if name not in known), None):
                raise ValueError(f"{where}.{unknown}: unknown setting; known are {', '.join(sorted(known))}")
        return self

    @property
    def shared(self) -> dict[str, Any]:
        """The settings of every run."""
        return (self.train if self.finetune is None else self.finetune) or {}

    def places(self) -> list[tuple[str, dict[str, Any]]]:
        """Where in the file settings of runs stand, the most particular first."""
        arms = [(f"arms.{index}.settings", arm.settings) for index, arm in enumerate(self.arms)]
        return [*arms, ("axes", dict(self.axes)), ("train" if self.finetune is None else "finetune", self.shared)]


def study_name(path: str) -> str:
    """`experiments/cpu/quick.yaml` is `cpu/quick`; a file elsewhere goes by its own name."""
    parts = PurePath(path).with_suffix("").parts
    below = parts[len(parts) - parts[::-1].index("experiments") :] if "experiments" in parts else parts[-1:]
    return "/".join(below)
