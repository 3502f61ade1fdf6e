"""Arms: the runs that differ only in their seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from oelm.config.method import Method
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.report.sides import expected_row_norm, labels_of, side_key
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
    def source(self) -> str:
        """Whether the figures are ours or another study's."""
        return self.records[0].source

    @property
    def seeds(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(record.config.seed for record in self.records)

    @property
    def losses(self) -> dict[int, float]:
        """Last-step validation loss by seed, where there is one (a reported run may lack it)."""
        return {record.config.seed: record.result.loss for record in self.records if record.result.loss is not None}

    @property
    def log_perplexities(self) -> dict[int, float]:
        """What ratios are made of, by seed: the loss; of a reported run the logarithm of the perplexity as printed."""
        printed = {
            record.config.seed: math.log(record.result.measures["perplexity"])
            for record in self.records
            if record.reported is not None and "perplexity" in record.result.measures
        }
        return {seed: printed.get(seed, loss) for seed, loss in self.losses.items()}

    @property
    def perplexities(self) -> tuple[float, ...]:
        """Last-step perplexity of each run, in the order of the seeds."""
        return tuple(exponential(value) for value in self.log_perplexities.values())

    @property
    def mean_loss(self) -> float:
        """Mean over seeds."""
        return fmean(self.losses.values())

    @property
    def mean_perplexity(self) -> float:
        """Geometric mean over seeds, to which ratios refer: exp(mean loss)."""
        return exponential(fmean(self.log_perplexities.values()))

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
    def flops_saved_share(self) -> float | None:
        """Share of the plain baseline's training FLOPs that is not needed: the bound on any speed-up."""
        flops = self.records[0].flops
        return flops.saved_share if flops else None

    @property
    def step_seconds(self) -> float | None:
        """Median over runs of their median step time (of the mean, where only that was reported)."""
        times = [record.timing.median_step_seconds or record.timing.mean_step_seconds for record in self.records]
        known = [time for time in times if time is not None]
        return median(known) if known else None

    @property
    def row_norm(self) -> float | None:
        """Mean norm of the rows of Q and K at init: as measured, or as the method draws them."""
        norms = [layer.row_norm for record in self.records for layer in record.geometry]
        return fmean(norms) if norms else expected_row_norm(self.config)


def group_into_arms(records: Sequence[Record]) -> tuple[Arm, ...]:
    """Arms in the order of their first run. Tuning runs are no arms: they belong to the choice of a rate."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if not is_tuning(record):
            groups.setdefault(side_key(record.task, record.source, record.config), []).append(record)
    members = [tuple(sorted(group, key=_seed)) for group in groups.values()]
    labels = labels_of([(group[0].task, group[0].config) for group in members])
    return tuple(Arm(label, group) for label, group in zip(labels, members, strict=True))


def is_tuning(record: Record) -> bool:
    """Whether the run served to choose a learning rate."""
    return record.config.study is not None and record.config.study.stage == "tuning"


def _seed(record: Record) -> int:
    return record.config.seed
