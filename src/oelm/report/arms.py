"""Arms: the runs that differ only in their seed, finished or planned; what sets two of them apart; their controls."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from oelm.config.method import Method, Projection, Scale
from oelm.config.methods import METHODS, control_of, parse_method
from oelm.config.model import SIZES, GPTConfig, GPTFromRun, Style
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.config.settings import fingerprint
from oelm.config.study_role import Tuning

LEARNING_RATE = "optim.lr"
FINAL_RATE = "optim.min_lr_ratio"
"""The rate at which the cosine ends, as a share of the first: it follows from a tuned rate."""
NO_SETTING = "none"
"""Stands for a setting that one of two runs does not have (a freezing plan, for instance)."""
ORIGINAL_STD = 0.02
"""Of the entries of `normal` at the original's scale."""
_TRAINING_SETTINGS_OF_THE_MODEL = frozenset({"model.dropout", "model.train_biases", "model.attention"})
_UNSAID = {"model.style": "gpt", "optim.schedule": "cosine", "optim.decay": "matrices"}
"""What a setting is where a config does not mention it."""
_SHORT_NAMES = {"data.digest": "data", "train.sequences_per_step": "batch", "optim.warmup_steps": "warmup"}


@dataclass(frozen=True)
class Arm:
    """Runs of one method under one setting, sorted by seed. A planned arm has no records yet."""

    label: str
    """Tells it from the other arms."""
    task: str
    source: str
    """`measured`, or `reported` by another study: the two are never mixed."""
    configs: tuple[RunConfig, ...]
    records: tuple[Record, ...] = ()

    @property
    def config(self) -> RunConfig:
        """The settings that all runs share; the seed in it is the first run's."""
        return self.configs[0]

    @property
    def method(self) -> Method:
        """The method of all runs."""
        return self.config.method

    @property
    def record(self) -> Record:
        """The first run, for what all of them have in common."""
        return self.records[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(config.seed for config in self.configs)

    @property
    def is_reference(self) -> bool:
        """Whether it is a plain baseline: others are compared with it."""
        return is_same_method(self.method, METHODS["baseline"])

    @property
    def is_baseline(self) -> bool:
        """Whether it is one with all of Q and K trained as usual, plain or with extras."""
        return is_same_method(self.method, parse_method(control_of(self.method)))

    @property
    def ever_trained(self) -> int:
        """Weights that are trained at some step."""
        return self.record.counts.trained + self.record.counts.later

    @property
    def flops_saved_share(self) -> float | None:
        """Share of the plain baseline's training FLOPs that is not needed: the bound on any speed-up."""
        return self.record.flops.saved_share if self.record.flops else None

    @property
    def step_seconds(self) -> float | None:
        """Median over runs of their median step time (of the mean, where only that was reported)."""
        times = [record.timing.median_step_seconds or record.timing.mean_step_seconds for record in self.records]
        known = [time for time in times if time is not None]
        return median(known) if known else None

    @property
    def unexplained(self) -> float | None:
        """The loss as a share of what a prediction that looks at nothing would have: the worst run's; None if unknown.

        Older records do not hold the entropy of their tokens, which all runs of an arm have in common; that of labels
        follows from an evaluation.
        """
        entropy = next((record.answer_entropy for record in self.records if record.answer_entropy), None)
        shares = [_unexplained(record, entropy) for record in self.records]
        known = [share for share in shares if share is not None]
        return max(known) if known and len(known) == len(shares) else None

    @property
    def last_fifth(self) -> float | None:
        """By what share the validation loss changed over the last fifth of the steps, mean over runs."""
        changes = [_last_fifth(record) for record in self.records]
        known = [change for change in changes if change is not None]
        return fmean(known) if known else None

    @property
    def row_norm(self) -> float | None:
        """Mean norm of the rows of Q and K at init: as measured, or as the method draws them."""
        norms = [layer.row_norm for record in self.records for layer in record.geometry]
        return fmean(norms) if norms else expected_row_norm(self.config)


def _unexplained(record: Record, entropy: float | None) -> float | None:
    if entropy and record.result.loss is not None:
        return record.result.loss / entropy
    row = next((row for row in record.evaluations if row.checkpoint == "last" and row.labels), None)
    if row is None or "loss" not in row.measures:
        return None
    shares = [count / len(row.labels.split()) for count in Counter(row.labels.split()).values()]
    of_labels = -sum(share * math.log(share) for share in shares)
    return row.measures["loss"] / of_labels if of_labels else None


def _last_fifth(record: Record) -> float | None:
    """From the curve, on a straight line between two validations."""
    begin = 0.8 * record.config.train.steps
    pairs = [(one, two) for one, two in pairwise(record.curve) if one.step <= begin <= two.step]
    if not pairs:
        return None
    one, two = pairs[0]
    then = one.loss + (two.loss - one.loss) * (begin - one.step) / (two.step - one.step)
    return record.curve[-1].loss / then - 1 if then else None  # a loss of 0: what is known is answered


def weights_saved(arm: Arm, control: Arm) -> float:
    """The share of the control's trained weights that the arm does not train."""
    return 1 - arm.ever_trained / control.ever_trained


def group_into_arms(records: Sequence[Record]) -> tuple[Arm, ...]:
    """Arms in the order of their first run. Tuning runs are no arms: they belong to the choice of a rate."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if not is_tuning(record.config):
            groups.setdefault(_arm_key(record.task, record.source, record.config), []).append(record)
    runs = [tuple(sorted(group, key=lambda record: record.config.seed)) for group in groups.values()]
    labels = _labels([(group[0].task, group[0].config) for group in runs])
    return tuple(
        Arm(label, group[0].task, group[0].source, tuple(record.config for record in group), group)
        for label, group in zip(labels, runs, strict=True)
    )


def planned_arms(configs: Sequence[RunConfig], names: Sequence[str] | None = None) -> tuple[Arm, ...]:
    """The arms of runs to come; `names` gives each config the name of its arm, else it goes by its method."""
    groups: dict[str, list[int]] = {}
    for index, config in enumerate(configs):
        if not is_tuning(config):
            groups.setdefault(_arm_key(planned_task(config), "measured", config), []).append(index)
    runs = [sorted((configs[index] for index in group), key=lambda config: config.seed) for group in groups.values()]
    labels = _labels([(planned_task(group[0]), group[0]) for group in runs])
    if names is not None:
        labels = [names[group[0]] for group in groups.values()]
    return tuple(
        Arm(label, planned_task(group[0]), "measured", tuple(group)) for label, group in zip(labels, runs, strict=True)
    )


def planned_task(config: RunConfig) -> str:
    """The task that a config will be trained for, by the name that its record will have."""
    return config.task


def is_tuning(config: RunConfig) -> bool:
    """Whether the run serves to choose a learning rate."""
    return config.study is not None and config.study.stage == "tuning"


def study_of(config: RunConfig) -> str | None:
    """The name of the study that a run belongs to."""
    return config.study.study if config.study else None


def is_registered(config: RunConfig) -> bool:
    """Whether it was run under a registered plan."""
    return config.study is not None and config.study.plan is not None


def cell_of(config: RunConfig) -> str | None:
    """The name of its arm in the study's plan."""
    return config.study.cell if config.study else None


def size_name(config: RunConfig) -> str:
    """The size by its name, such as `medium-512` or `medium-512 llama`; a pre-trained model by its source."""
    model = config.model
    if isinstance(model, GPTConfig):
        shape = (model.layers, model.width, model.heads)
        known = (name for name, size in SIZES.items() if size == shape)
        style = "" if model.style is Style.GPT else f" {model.style.value}"
        return next(known, f"{model.layers}x{model.width}") + style
    return Path(model.folder).name if isinstance(model, GPTFromRun) else model.source


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


def _arm_key(task: str, source: str, config: RunConfig) -> str:
    """Runs with equal keys differ only in their seed.

    The settings include all parts of the method, so its name adds nothing: one method under two spellings
    (`oelm-random+matched`, `oelm-random-matched`) is one arm.
    """
    return fingerprint([task, source, flat_settings(config)])


def _labels(runs: Sequence[tuple[str, RunConfig]]) -> list[str]:
    """For each task and config the method's name and, where several share it, the settings in which they differ."""
    labels = []
    for task, config in runs:
        namesakes = [other for other in runs if other[1].method.name == config.method.name]
        paths = dict.fromkeys(path for _, other in namesakes for path in _telling_apart(config, other))
        parts = [f"{setting_name(path)}={setting_value(config, path)}" for path in paths]
        tasks = [f"task={task}"] if len({other for other, _ in namesakes}) > 1 else []
        labels.append(" ".join([config.method.name, *parts, *tasks]))
    return labels


def _telling_apart(one: RunConfig, other: RunConfig) -> tuple[str, ...]:
    """The settings in which two runs of a method differ; a rate that was tuned alike only where nothing else does."""
    return unlike_settings(one, other) or differing_settings(one, other)


# --- controls ----------------------------------------------------------------------------------------------------


def choose_control(arm: Arm, among: Sequence[Arm]) -> Arm | None:
    """The fair control (baseline with the same extras) or else `baseline`; of several, the one most alike.

    Settings weigh more than extras: a baseline under equal settings is chosen before a fair control under
    other ones; other data or another size weigh most, another study comes next. Blind attention, which has no logits
    that extras could act on, is held against a baseline with extras where there is no plain one.
    """
    if arm.is_reference:
        return None
    fair = parse_method(control_of(arm.method))
    candidates = [
        other
        for other in among
        if (other.task, other.source) == (arm.task, arm.source)
        and not is_same_method(other.method, arm.method)
        and (is_same_method(other.method, fair) or other.is_reference or (arm.method.blind and other.is_baseline))
    ]
    return min(candidates, key=lambda other: _distance(arm, other, fair), default=None)


def is_same_method(one: Method, other: Method) -> bool:
    """Whether two methods are equal whatever they are called (`+gain+shift` is `+shift+gain`)."""
    return all(getattr(one, part) == getattr(other, part) for part in Method.model_fields if part != "name")


def _distance(arm: Arm, other: Arm, fair: Method) -> tuple[int, bool, int, bool]:
    paths = unlike_settings(arm.config, other.config)
    heavy = sum(decides_the_problem(path) for path in paths)
    elsewhere = study_of(arm.config) != study_of(other.config)
    return heavy, elsewhere, len(paths), not is_same_method(other.method, fair)


# --- settings as flat tables -------------------------------------------------------------------------------------


class _ById:
    """A config as a key: by identity, which is enough for a frozen value, and all that one with a dict in it allows."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def __hash__(self) -> int:
        return id(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.config is self.config


def flat_settings(config: RunConfig) -> Mapping[str, Any]:
    """All that changes the numbers except the seed, e.g. `{"optim.lr": 0.001, ...}`."""
    return _flat_settings(_ById(config))


@lru_cache(maxsize=2048)  # every pair of arms is compared
def _flat_settings(key: _ById) -> Mapping[str, Any]:
    flat = _flatten(key.config.numbers())
    del flat["seed"]
    return flat


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        flat |= _flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def differing_settings(one: RunConfig, other: RunConfig) -> tuple[str, ...]:
    """Paths of the settings in which two runs differ, the method included, the seed left out."""
    ours, theirs = flat_settings(one), flat_settings(other)
    paths = dict.fromkeys((*ours, *theirs))
    return tuple(path for path in paths if ours.get(path, NO_SETTING) != theirs.get(path, NO_SETTING))


def unlike_settings(one: RunConfig, other: RunConfig) -> tuple[str, ...]:
    """Those beside the method in which two runs differ. Rates that were chosen alike are none: they are its part."""
    return tuple(
        path
        for path in differing_settings(one, other)
        if not is_of_method(path) and not (path in (LEARNING_RATE, FINAL_RATE) and _is_tuned_alike(path, one, other))
    )


def _is_tuned_alike(path: str, one: RunConfig, other: RunConfig) -> bool:
    """Whether rates differ by what was chosen alike; the last one then is the same, or the same share of the first."""
    lasts = [config.optim.min_lr_ratio * config.optim.lr for config in (one, other)]
    return tuned_alike(one, other) and (path == LEARNING_RATE or math.isclose(*lasts))


def tuning_of(config: RunConfig) -> Tuning | None:
    """How the learning rate was chosen; None where it was set by hand."""
    return config.study.tuning if config.study else None


def tuned_alike(one: RunConfig, other: RunConfig) -> bool:
    """Whether both learning rates were chosen in the same way, so that a difference is part of the method."""
    ours, theirs = tuning_of(one), tuning_of(other)
    return ours is not None and theirs is not None and ours.rule == theirs.rule


def is_of_method(path: str) -> bool:
    """Whether a setting belongs to the method, so that its difference is the very thing under test."""
    return path.startswith("method.")


def decides_the_problem(path: str) -> bool:
    """Whether a setting decides what is learned (the data, the size) rather than how."""
    return path.startswith(("data.", "model.")) and path not in _TRAINING_SETTINGS_OF_THE_MODEL


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
    value = flat_settings(config).get(path, _UNSAID.get(path, NO_SETTING))
    return short_float(value) if isinstance(value, float) else str(value)


def short_float(value: float) -> str:
    """`0.001` as `1e-3`, `0.25` as it is."""
    if value == 0 or 0.01 <= abs(value) < 1e5:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
