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
resources: {gpus: 1, hours: 24}           # of one run on Ray or SLURM
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from oelm.base.errors import ConfigError, OelmError
from oelm.config.evaluated import EvaluationRequest
from oelm.config.labelled_data import GeneratedTask, HubTask, LocalTables
from oelm.config.methods import parse_method
from oelm.config.probe import Probe
from oelm.config.rate_choice import rounded
from oelm.config.request import FinetuneRequest, RunRequest, TokenText, TrainRequest
from oelm.config.settings import Settings, located_error
from oelm.config.yaml_file import YamlFile
from oelm.data.prepare_request import PrepareRequest
from oelm.experiments.resources import Resources

SET_BY_THE_STUDY = frozenset({"method", "seed", "source"})
_EQUAL_FACTORS = 0.01
_MOST_RUNS = 5_000
"""Each is resolved, planned and looked at: more would make every command wait, and nobody could read the result."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9.,_+=-]*$"
_Name = Annotated[str, Field(pattern=_NAME)]


class PreparedTokens(Settings):
    """Token files that `oelm prepare` has made."""

    tokens: str


def _kind_of_data(values: Any) -> str:
    given = values if isinstance(values, dict) else {}
    return "tokens" if "tokens" in given else str(given.get("kind", "text"))


StudyData = Annotated[
    Annotated[PreparedTokens, Tag("tokens")]
    | Annotated[PrepareRequest, Tag("text")]
    | Annotated[LocalTables, Tag("files")]
    | Annotated[HubTask, Tag("hub")]
    | Annotated[GeneratedTask, Tag("generated")]
    | Annotated[Probe, Tag("probe")],
    Discriminator(_kind_of_data),
]


class StudyArm(Settings):
    """One method, and what only it has. `name` tells apart arms of one method; `id` is the original's name for it.

    A `reproduction` shows what the original reported for the id beside its own result.
    """

    method: str
    name: _Name
    id: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _a_method_may_stand_alone(cls, values: Any) -> Any:
        values = {"method": values} if isinstance(values, str) else values
        return {"name": values.get("method"), **values} if isinstance(values, dict) else values

    @field_validator("method")
    @classmethod
    def _is_known(cls, method: str) -> str:
        try:
            parse_method(method)
        except OelmError as error:
            raise ValueError(str(error)) from error
        return method


@dataclass(frozen=True)
class StudyCell:
    """One arm at one point of the axes on one of the data sets: the runs in it differ in seed and learning rate."""

    data: str
    arm: StudyArm
    name: str
    """Unique in the study: the arm, with the point and the data where there are several."""
    request: TrainRequest | FinetuneRequest
    """What the file asks for: the settings of all runs, of this point and of this arm."""

    def changed(self, **settings: Any) -> "StudyCell":
        """The cell with other settings."""
        return replace(self, request=self.request.changed(**settings))


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

    @property
    def lowest(self) -> float:
        """The lowest rate that may be tried: of the grid, or of its extensions. A refined one lies between two."""
        lowest = self.grid[0]
        for _ in range(self.extend):
            lowest = self.below(lowest)
        return lowest

    def below(self, rate: float) -> float:
        """The rate that extends a grid whose lowest is `rate`."""
        return rounded(rate / self.factor)

    def above(self, rate: float) -> float:
        """The rate that extends a grid whose highest is `rate`."""
        return rounded(rate * self.factor)

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
    data: Annotated[dict[_Name, StudyData], Field(min_length=1)]
    """By name: what `prepare` is asked for, `{tokens: FOLDER}`, a probe, or labelled text for `finetune`."""
    train: dict[str, Any] | None = None
    finetune: dict[str, Any] | None = None
    arms: Annotated[tuple[StudyArm, ...], Field(min_length=1)]
    axes: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    tuning: TuningPlan | None = None
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 1, 2)
    primary: str
    """The arm whose comparison with its control answers the question; stated before the runs."""
    margin: Annotated[float, Field(gt=1)] = 1.05
    """What still counts as no worse, as a ratio: 1.05 is 5 %. A measure that is judged by a difference (correlations,
    ROUGE-L, exact answers) keeps its own limit."""
    evaluate: EvaluationRequest | None = None
    """What every finished model is asked (`oelm eval`); the answers stand beside its record and in the report."""
    looks: Annotated[int, Field(ge=1)] = 1
    """How often it may be analysed, with seeds added (`--amend`) in between: each analysis is at 5 % / looks."""
    keep_checkpoints: bool = True
    """Whether a finished run keeps its weights; records, curves and logs are always kept."""
    resources: Resources = Resources()
    """What one run needs of a cluster."""

    @field_validator("data", mode="before")
    @classmethod
    def _go_by_their_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        named = {key: value for key, value in data.items() if isinstance(value, dict) and "tokens" not in value}
        return {**data, **{key: {"name": key, **value} for key, value in named.items()}}

    @field_validator("arms")
    @classmethod
    def _names_differ(cls, arms: tuple[StudyArm, ...]) -> tuple[StudyArm, ...]:
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
    def _parts_fit(self) -> Self:
        if (self.train is None) == (self.finetune is None):
            raise ValueError("give either `train` (from scratch) or `finetune`, with the settings that all runs share")
        for name, data in self.data.items():
            from_scratch = PrepareRequest | PreparedTokens | Probe
            fits = from_scratch if self.finetune is None else LocalTables | HubTask | GeneratedTask | PreparedTokens
            if not isinstance(data, fits):
                wanted = (
                    "text, tokens or a probe"
                    if self.finetune is None
                    else "labelled text (kind: files, hub or generated) or tokens"
                )
                raise located_error(("data", name), f"{self._training} needs {wanted}")
        if self.primary not in [arm.name for arm in self.arms]:
            raise located_error(("primary",), f"there is no arm {self.primary!r}")
        return self

    @model_validator(mode="after")
    def _tuning_fits(self) -> Self:
        if self.tuning is None:
            return self
        if self.tuning.seed in self.seeds:
            problem = f"{self.tuning.seed} is also a seed of the final runs; choose another"
            raise located_error(("tuning", "seed"), problem)
        halves = self.tuning.validation == "half"
        if halves and self.finetune is not None:
            problem = "fine-tuned arms are chosen on a hold-out and judged on evaluation sets already; leave it out"
            raise located_error(("tuning", "validation"), problem)
        for place, values in self._settings():
            if "lr" in values:
                raise located_error((*place, "lr"), "the learning rates are tuned; leave it out, or leave `tuning` out")
            if "validate_on" in values:
                problem = "learning rates would be chosen on a set that judges; leave it out, or leave `tuning` out"
                raise located_error((*place, "validate_on"), problem)
            if halves and "validation_half" in values:
                raise located_error((*place, "validation_half"), "tuning.validation sets it; leave one of them out")
        return self

    @model_validator(mode="after")
    def _can_be_evaluated(self) -> Self:
        if self.evaluate is None:
            return self
        if not self.keep_checkpoints:
            raise located_error(("keep_checkpoints",), "`evaluate` needs the weights; leave one of them out")
        if not all(isinstance(data, PrepareRequest | PreparedTokens) for data in self.data.values()):
            raise located_error(("evaluate",), "only language models of text are asked; leave it out")
        return self

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        cells = len(self.data) * math.prod(map(len, self.axes.values())) * len(self.arms)
        runs = cells * (len(self.seeds) + (len(self.tuning.grid) if self.tuning else 0))
        if runs > _MOST_RUNS:
            problem = f"{runs:,} runs: data x axes x arms x seeds; a study has at most {_MOST_RUNS:,}"
            raise located_error(("seeds",), problem)
        return self

    @model_validator(mode="after")
    def _settings_are_valid(self) -> Self:
        assert self.cells
        return self

    @model_validator(mode="after")
    def _schedules_fall(self) -> Self:
        """Here, because an extended grid would find out when half of the study has run."""
        for cell in self.cells:
            request = cell.request
            if isinstance(request, FinetuneRequest):
                continue
            lowest = self.tuning.lowest if self.tuning else request.lr
            if request.min_lr > lowest > 0:
                shared, axes, *arms = self._settings()
                own = (arms[self.arms.index(cell.arm)], axes, shared)
                place = next(place for place, values in own if "min_lr" in values)
                which = "the lowest rate that tuning may try" if self.tuning else "lr"
                problem = f"{request.min_lr:g} is above {which}, {lowest:g}; lower it, or leave it out"
                raise located_error((*place, "min_lr"), problem)
        return self

    @cached_property
    def cells(self) -> tuple[StudyCell, ...]:
        """Data x points of the axes x arms."""
        points = [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]
        return tuple(
            StudyCell(data, arm, self._cell_name(data, arm, point), self._request(data, point, index))
            for data in self.data
            for point in points
            for index, arm in enumerate(self.arms)
        )

    def chosen(self, only: Sequence[str]) -> tuple[StudyCell, ...]:
        """The cells of the arms that are asked for by name, id or method; without any, all."""
        for wanted in only:
            if not any(wanted in (arm.name, arm.id, arm.method) for arm in self.arms):
                names = ", ".join(f"{arm.name} ({arm.id})" if arm.id else arm.name for arm in self.arms)
                raise ConfigError(f"the study has no arm {wanted!r}", f"give one of: {names}")
        return tuple(
            cell for cell in self.cells if not only or {cell.arm.name, cell.arm.id, cell.arm.method} & set(only)
        )

    @property
    def _training(self) -> Literal["train", "finetune"]:
        return "train" if self.finetune is None else "finetune"

    def _cell_name(self, data: str, arm: StudyArm, point: dict[str, Any]) -> str:
        varied = [f"{setting}={value}" for setting, value in point.items() if len(self.axes[setting]) > 1]
        prefix = [data] if len(self.data) > 1 else []
        return "-".join([*prefix, arm.name, *varied]).replace("/", "_").replace(" ", "")

    def _settings(self) -> list[tuple[tuple[str | int, ...], dict[str, Any]]]:
        """Where in the file settings of runs stand, the most general first."""
        arms: list[tuple[tuple[str | int, ...], dict[str, Any]]]
        arms = [(("arms", index, "settings"), arm.settings) for index, arm in enumerate(self.arms)]
        return [((self._training,), getattr(self, self._training)), (("axes",), dict(self.axes)), *arms]

    def _request(self, data: str, point: dict[str, Any], index: int) -> TrainRequest | FinetuneRequest:
        """The settings of a cell as one value; a wrong one is an error at the place that sets it."""
        shared, (axes, _), *arms = self._settings()
        values: dict[str, Any] = {}
        places: dict[str, tuple[str | int, ...]] = {}
        for place, settings in (shared, (axes, point), arms[index]):
            values |= settings
            places |= {name: (*place, name) for name in settings}
        given: dict[str, Any] = {"method": self.arms[index].method}
        if self.finetune is not None:
            source = self.data[data]
            given["source"] = TokenText(folder=source.tokens) if isinstance(source, PreparedTokens) else source
        kind = TrainRequest if self.finetune is None else FinetuneRequest
        for name in values.keys() & SET_BY_THE_STUDY:
            raise located_error(places[name], "the study's own `arms`, `seeds` and `data` say it; leave it out")
        try:
            return kind.model_validate({**values, **given})
        except ValidationError as error:
            raise _moved(error, kind, places, shared[0]) from error


def _moved(
    error: ValidationError,
    kind: type[RunRequest],
    places: dict[str, tuple[str | int, ...]],
    otherwise: tuple[str | int, ...],
) -> ValidationError:
    """The same complaints about the settings of a run, each at its place in the study."""
    known = ", ".join(sorted(kind.model_fields.keys() - SET_BY_THE_STUDY))
    details = []
    for each in error.errors():
        name, *inner = each["loc"] or ("",)
        unknown = each["type"] == "extra_forbidden"
        problem = f"unknown setting; known are {known}" if unknown else each["msg"]
        problem_type = PydanticCustomError("part" if unknown else each["type"], "{problem}", {"problem": problem})
        loc = (*places.get(str(name), (*otherwise, name)), *inner)
        details.append({"type": problem_type, "loc": loc, "input": each["input"]})
    return ValidationError.from_exception_data("Study", details)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StudyFile:
    """A study and the file that it comes from."""

    path: Path
    study: Study
    text: str
    """What asks for just this study: the file, with the overrides."""

    @classmethod
    def read(cls, path: Path, overrides: Sequence[str] = ()) -> Self:
        """Read a study, with `--set` overrides."""
        file = YamlFile(path)
        for override in overrides:
            file.override(override)
        return cls(path, file.parse(Study), file.text)

    @property
    def name(self) -> str:
        """`experiments/cpu/quick.yaml` is `cpu/quick`; a file elsewhere goes by its own name."""
        parts = self.path.with_suffix("").parts
        below = parts[len(parts) - parts[::-1].index("experiments") :] if "experiments" in parts else parts[-1:]
        return "/".join(below)
