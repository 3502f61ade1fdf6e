"""Arms: the runs that differ only in their seed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from oelm.config.method import Method
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.config.settings import fingerprint
from oelm.report.differences import differing_settings, flat_settings, setting_name, setting_value
from oelm.report.statistics import exponential


@dataclass(frozen=True)
class Arm:
    """Runs of one method under one setting, sorted by seed. `label` tells it from the other arms."""

    label: str
    records: tuple[Record, ...]

    @property
    def config(self) -> RunConfig:
        """The settings that all runs share; the seed in it is the first run's."""
        return self.records[0].config

    @property
    def method(self) -> Method:
        """The method of all runs."""
        return self.config.method

    @property
    def task(self) -> str:
        """What the runs were trained to predict."""
        return self.records[0].task

    @property
    def losses(self) -> dict[int, float]:
        """Last-step validation loss by seed."""
        return {record.config.seed: record.result.loss for record in self.records}

    @property
    def perplexities(self) -> tuple[float, ...]:
        """Last-step perplexity of each run, in the order of the seeds."""
        return tuple(exponential(loss) for loss in self.losses.values())

    @property
    def mean_loss(self) -> float:
        """Mean over seeds; its exponential is the geometric mean perplexity, to which ratios refer."""
        return fmean(self.losses.values())

    @property
    def mean_perplexity(self) -> float:
        """Geometric mean over seeds."""
        return exponential(self.mean_loss)

    @property
    def bits_per_byte(self) -> float | None:
        """Mean loss in bits per byte, comparable across tokenizers; None where the bytes are not known."""
        bytes_per_token = self.records[0].bytes_per_token
        return self.mean_loss / math.log(2) / bytes_per_token if bytes_per_token else None

    @property
    def ever_trained(self) -> int:
        """Weights that are trained at some step."""
        return self.records[0].counts.trained + self.records[0].counts.later

    @property
    def flops_saved_share(self) -> float:
        """Share of the plain baseline's training FLOPs that is not needed: the bound on any speed-up."""
        return self.records[0].flops.saved_share

    @property
    def step_seconds(self) -> float:
        """Median over runs of their median step time."""
        return median(record.timing.median_step_seconds for record in self.records)

    @property
    def row_norm(self) -> float | None:
        """Mean norm of the rows of Q and K at init; None where it was not measured."""
        norms = [layer.row_norm for record in self.records for layer in record.geometry]
        return fmean(norms) if norms else None


def group_into_arms(records: Sequence[Record]) -> tuple[Arm, ...]:
    """Arms in the order of their first run.

    The settings include all parts of the method, so its name adds nothing: one method under two spellings
    (`oelm-random+matched`, `oelm-random-matched`) is one arm.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(fingerprint([record.task, flat_settings(record.config)]), []).append(record)
    arms = [Arm(group[0].method, tuple(sorted(group, key=_seed))) for group in groups.values()]
    return tuple(Arm(_label(arm, arms), arm.records) for arm in arms)


def _seed(record: Record) -> int:
    return record.config.seed


def _label(arm: Arm, arms: Iterable[Arm]) -> str:
    """The method's name and, where several arms share it, the settings in which they differ."""
    namesakes = [other for other in arms if other.method.name == arm.method.name]
    paths = dict.fromkeys(path for other in namesakes for path in differing_settings(arm.config, other.config))
    parts = [f"{setting_name(path)}={setting_value(arm.config, path)}" for path in paths]
    if len({other.task for other in namesakes}) > 1:
        parts.append(f"task={arm.task}")
    return " ".join([arm.method.name, *parts])
