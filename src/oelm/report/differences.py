"""What sets two runs apart: their settings as flat `path -> value` tables, and how a setting is written."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from oelm.config.run import RunConfig

ABSENT = "none"
"""Stands for a setting that one of two runs does not have (a freezing plan, for instance)."""

_NOT_THE_PROBLEM = frozenset({"model.dropout", "model.train_biases", "model.attention"})
"""Settings of the model that say how it is trained."""
_UNSAID = {"model.style": "gpt"}
"""What a setting is where a config does not mention it."""
_SHORT_NAMES = {"data.digest": "data", "train.sequences_per_step": "batch", "optim.warmup_steps": "warmup"}


class _Same:
    """A config as a key: by identity, which is enough for a frozen value, and all that one with a dict in it allows."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def __hash__(self) -> int:
        return id(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.config is self.config


def flat_settings(config: RunConfig) -> Mapping[str, Any]:
    """All that changes the numbers except the seed, e.g. `{"optim.lr": 0.001, ...}`."""
    return _flat_settings(_Same(config))


@lru_cache(maxsize=2048)  # every pair of arms is compared
def _flat_settings(same: _Same) -> Mapping[str, Any]:
    flat = _flatten(same.config.numbers())
    del flat["seed"]
    return flat


def differing_settings(one: RunConfig, other: RunConfig) -> tuple[str, ...]:
    """Paths of the settings in which two runs differ, the method included, the seed left out."""
    ours, theirs = flat_settings(one), flat_settings(other)
    paths = dict.fromkeys((*ours, *theirs))
    return tuple(path for path in paths if ours.get(path, ABSENT) != theirs.get(path, ABSENT))


def is_of_method(path: str) -> bool:
    """Whether a setting belongs to the method, so that its difference is the very thing under test."""
    return path.startswith("method.")


def decides_the_problem(path: str) -> bool:
    """Whether a setting decides what is learned (the data, the size) rather than how."""
    return path.startswith(("data.", "model.")) and path not in _NOT_THE_PROBLEM


def problem_of(config: RunConfig) -> dict[str, Any]:
    """The settings that decide what is learned."""
    return {path: value for path, value in flat_settings(config).items() if decides_the_problem(path)}


def setting_name(path: str) -> str:
    """The short name of a setting: `optim.lr` is `lr`; inside a method the path is kept."""
    if is_of_method(path):
        return path.removeprefix("method.")
    return _SHORT_NAMES.get(path, path.rpartition(".")[2])


def setting_value(config: RunConfig, path: str) -> str:
    """The value of a setting as a reader would write it: `1e-3`, `200`, `stories-3f2a9c`."""
    if path == "data.digest":
        return f"{config.data.name}-{config.data.digest[:6]}"
    value = flat_settings(config).get(path, _UNSAID.get(path, ABSENT))
    return short_float(value) if isinstance(value, float) else str(value)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        flat |= _flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def short_float(value: float) -> str:
    """`0.001` as `1e-3`, `0.25` as it is."""
    if value == 0 or 0.01 <= abs(value) < 1e5:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
