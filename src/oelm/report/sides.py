"""One side of a comparison, finished or only planned: what confounds and controls are found from."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from oelm.config.method import Method, Projection, Scale
from oelm.config.methods import METHODS, control_of, parse_method
from oelm.config.model import GPTConfig
from oelm.config.run import RunConfig
from oelm.config.settings import fingerprint
from oelm.report.differences import (
    decides_the_problem,
    differing_settings,
    flat_settings,
    is_of_method,
    setting_name,
    setting_value,
)

BASELINE = METHODS["baseline"]
ORIGINAL_STD = 0.02
"""Of the entries of `normal` at the original's scale."""


class Side(Protocol):
    """The runs that differ only in their seed. `label` tells them from the others of a comparison."""

    @property
    def label(self) -> str:
        """What the report calls it."""

    @property
    def task(self) -> str:
        """What is learned to predict."""

    @property
    def source(self) -> str:
        """Whether its figures are ours or reported by another study: the two are never mixed."""

    @property
    def config(self) -> RunConfig:
        """The settings that all its runs share."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its runs, in ascending order."""

    @property
    def row_norm(self) -> float | None:
        """Mean norm of the rows of Q and K at init; None where it is not known."""


AnySide = TypeVar("AnySide", bound=Side)


def side_key(task: str, source: str, config: RunConfig) -> str:
    """Runs with equal keys differ only in their seed.

    The settings include all parts of the method, so its name adds nothing: one method under two spellings
    (`oelm-random+matched`, `oelm-random-matched`) is one side.
    """
    return fingerprint([task, source, flat_settings(config)])


def labels_of(tasks_and_configs: Sequence[tuple[str, RunConfig]]) -> list[str]:
    """For each, the method's name and, where several share it, the settings in which they differ."""
    return [_label(task, config, tasks_and_configs) for task, config in tasks_and_configs]


def _label(task: str, config: RunConfig, among: Sequence[tuple[str, RunConfig]]) -> str:
    namesakes = [other for other in among if other[1].method.name == config.method.name]
    paths = dict.fromkeys(path for _, other in namesakes for path in differing_settings(config, other))
    parts = [f"{setting_name(path)}={setting_value(config, path)}" for path in paths]
    if len({other_task for other_task, _ in namesakes}) > 1:
        parts.append(f"task={task}")
    return " ".join([config.method.name, *parts])


def choose_control(side: AnySide, among: Sequence[AnySide]) -> AnySide | None:
    """The fair control (baseline with the same extras) or else `baseline`; of several, the one most alike.

    Settings weigh more than extras: a baseline under equal settings is chosen before a fair control under
    other ones; other data or another size weigh most, another study comes next.
    """
    if is_reference(side):
        return None
    fair = parse_method(control_of(side.config.method))
    candidates = [
        other
        for other in among
        if (other.task, other.source) == (side.task, side.source)
        and not is_same_method(other.config.method, side.config.method)
        and (is_same_method(other.config.method, fair) or is_reference(other))
    ]
    return min(candidates, key=lambda other: _distance(side, other, fair), default=None)


def is_reference(side: Side) -> bool:
    """Whether the side is a plain baseline: others are measured against it."""
    return is_same_method(side.config.method, BASELINE)


def is_same_method(one: Method, other: Method) -> bool:
    """Whether two methods are equal whatever they are called (`+gain+shift` is `+shift+gain`)."""
    return all(getattr(one, part) == getattr(other, part) for part in Method.model_fields if part != "name")


def study_of(config: RunConfig) -> str | None:
    """The name of the study that a run belongs to."""
    return config.study.study if config.study else None


def expected_row_norm(config: RunConfig) -> float | None:
    """Mean norm of the rows of Q and K that the method draws, without drawing: E |w| of width D.

    Entries of std 0.02 have rows of norm 0.02 sqrt(D); every other projection and scale has rows of norm 1. None for
    a pre-trained model, where the rows depend on its weights, and for blind attention, which has none.
    """
    method = config.method
    if not isinstance(config.model, GPTConfig) or method.pretrained is not None or method.blind:
        return None
    small = ORIGINAL_STD * config.model.width**0.5
    norms = [
        small if projection is Projection.NORMAL and method.scale is Scale.AS_ORIGINAL else 1.0
        for projection in (method.query, method.key)
    ]
    return sum(norms) / len(norms)


def _distance(side: Side, other: Side, fair: Method) -> tuple[int, bool, int, bool]:
    paths = [path for path in differing_settings(side.config, other.config) if not is_of_method(path)]
    heavy = sum(decides_the_problem(path) for path in paths)
    elsewhere = study_of(side.config) != study_of(other.config)
    return heavy, elsewhere, len(paths), not is_same_method(other.config.method, fair)
