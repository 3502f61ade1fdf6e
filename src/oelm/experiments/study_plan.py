"""A study before it starts: its runs, what they train and freeze, FLOPs, time, disk."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oelm.config.labelled_data import Answers, LabelledData
from oelm.config.method import Method
from oelm.config.model import GPTConfig, HuggingFaceModel
from oelm.config.record import FlopCounts, WeightCounts
from oelm.config.run import Precision, RunConfig
from oelm.experiments.local_launcher import cores
from oelm.experiments.matrix import StudyRun, StudyRuns
from oelm.experiments.resolving import resolve_for_plan
from oelm.experiments.selection import all_tuning_runs
from oelm.experiments.study import Study, StudyCell, StudyFile
from oelm.method.cost import weight_counts
from oelm.model.ledger import count_flops, count_weights
from oelm.train.folder import RunFolder

_EVENT_BYTES = 250
_KEPT_CHECKPOINTS = 2
_MOMENTS = 2
_FLOAT_BYTES = 4
_UTILISATION = 0.5
"""Share of a bare matrix product's speed that a whole training step reaches: about a half on CPUs and GPUs alike."""


@dataclass(frozen=True)
class PlannedCell:
    """One line of a plan: an arm, its learning rates, its weights and what one final run of it costs."""

    cell: StudyCell
    config: RunConfig
    """Of the first final run; where the learning rate is tuned, with the lowest of the grid."""
    counts: WeightCounts | None
    flops: float | None
    saved_share: float | None


@dataclass(frozen=True)
class StudyPlan:
    """Everything that is known before the first run."""

    name: str
    study: Study
    rows: tuple[PlannedCell, ...]
    tuning: tuple[StudyRun, ...]
    final: tuple[StudyRun, ...]
    done: int
    flops: float | None
    """Of all runs that are not done; None where a model is not known yet."""
    disk_bytes: int | None

    @property
    def runs(self) -> tuple[StudyRun, ...]:
        """Both stages."""
        return (*self.tuning, *self.final)


def plan_study(file: StudyFile, out: Path, tokens: Path, only: Sequence[str] = ()) -> StudyPlan:
    """Resolve every run without preparing, fetching or starting anything."""
    study, chosen = file.study, file.study.chosen(only)
    planned = StudyRuns(study, file.name, out, resolve_for_plan(study, tokens), chosen)
    tuning, final = all_tuning_runs(planned), planned.final()
    first = {run.cell.name: run.config for run in reversed(final)}
    rows = tuple(_row(cell, first[cell.name]) for cell in chosen)
    open_runs = [run for run in (*tuning, *final) if not RunFolder(run.folder).finished]
    costs = [_flops(run.config) for run in open_runs]
    return StudyPlan(
        name=file.name,
        study=study,
        rows=rows,
        tuning=tuple(tuning),
        final=tuple(final),
        done=len(tuning) + len(final) - len(open_runs),
        flops=None if None in costs else sum(cost for cost in costs if cost is not None),
        disk_bytes=_disk(study, rows, len(tuning) + len(final), final),
    )


def measured_precision(precision: Precision) -> Precision:
    """What the speed of runs in this precision is measured in: their own on a GPU, float32 on cores."""
    import torch

    return precision if torch.cuda.is_available() else Precision.FLOAT32


def matmul_flops_per_second(width: int, precision: Precision = Precision.FLOAT32, seconds: float = 0.5) -> float:
    """How fast this machine multiplies matrices of a model's size, on its first GPU or on all its cores.

    A study is often planned while another one runs: cores are timed by what one thread computes in a second of its own.
    """
    import torch

    from oelm.train.engine import autocast_type, weight_dtype

    on_gpu, threads, tokens = torch.cuda.is_available(), torch.get_num_threads(), 2048
    clock, places = (time.perf_counter, 1) if on_gpu else (time.thread_time, cores())
    device, measured = "cuda" if on_gpu else "cpu", measured_precision(precision)
    dtype = autocast_type(measured) or weight_dtype(measured)
    a, b = (torch.randn(*shape, device=device, dtype=dtype) for shape in ((tokens, width), (width, 4 * width)))
    torch.set_num_threads(1)
    try:
        if on_gpu:  # the first product loads the library and chooses a kernel
            a @ b
            torch.cuda.synchronize()
        done, began = 0, clock()
        while clock() - began < seconds:
            for _ in range(10):
                a @ b
            if on_gpu:
                torch.cuda.synchronize()
            done += 10
        return places * done * 2 * tokens * width * 4 * width / (clock() - began)
    finally:
        torch.set_num_threads(threads)


def estimated_seconds(flops: float, matmul_flops: float) -> float:
    """Training time at the share of the matrix-product speed that a whole step reaches; validation left out."""
    return flops / (matmul_flops * _UTILISATION)


def planned_counts(config: RunConfig) -> WeightCounts | None:
    """The counts that the run's record will have; None of a model that is neither here nor known by name."""
    if isinstance(config.model, GPTConfig):
        return count_weights(config.model, config.method, config.train.steps)
    if not isinstance(config.model, HuggingFaceModel) or not isinstance(config.data, LabelledData):
        return None
    from oelm.surgery.outline import outlined_table

    outputs = None if config.data.answers is Answers.TEXTS else config.data.outputs
    table = outlined_table(config.model, outputs, config.method)
    return None if table is None else weight_counts(config.method.plan, table, config.train.steps)


def _row(cell: StudyCell, config: RunConfig) -> PlannedCell:
    flops = _flop_counts(config)
    saved = None if flops is None else flops.saved_share
    return PlannedCell(cell, config, planned_counts(config), None if flops is None else flops.run, saved)


def _flops(config: RunConfig) -> float | None:
    counts = _flop_counts(config)
    return None if counts is None else counts.run


def _flop_counts(config: RunConfig) -> FlopCounts | None:
    """Of a run of our GPT; of a pre-trained model they are measured when it is here."""
    if not isinstance(config.model, GPTConfig):
        return None
    tokens = config.train.steps * config.train.sequences_per_step * config.model.context
    return _counted_flops(config.model, config.method, config.train.steps, tokens)


@cache
def _counted_flops(model: GPTConfig, method: Method, steps: int, tokens: int) -> FlopCounts:
    """The same for all seeds of an arm."""
    return count_flops(model, method, total_steps=steps, tokens=tokens)


def _disk(study: Study, rows: Sequence[PlannedCell], runs: int, final: Sequence[StudyRun]) -> int | None:
    """Checkpoints at their most (two with moments, and the best), and events."""
    sizes = [
        _FLOAT_BYTES * (row.counts.stored * (_KEPT_CHECKPOINTS + 1) + row.counts.trained * _MOMENTS * _KEPT_CHECKPOINTS)
        for row in rows
        if row.counts is not None
    ]
    if len(sizes) < len(rows):
        return None
    events = sum(_EVENT_BYTES * run.config.train.steps // run.config.machine.log_every for run in final)
    kept = sum(sizes) * runs // len(rows) if study.keep_checkpoints else max(sizes) * cores()
    return kept + events
