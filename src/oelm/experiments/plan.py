"""A study before it starts: its runs, what they train and freeze, FLOPs, time, disk."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oelm.config.model import GPTConfig
from oelm.config.record import WeightCounts
from oelm.config.run import RunConfig
from oelm.experiments.local import cores
from oelm.experiments.matrix import Cell, StudyRun, cells, final_runs
from oelm.experiments.planned_models import planned_counts
from oelm.experiments.resolving import resolve_for_plan
from oelm.experiments.selection import all_tuning_runs
from oelm.experiments.standing import Stage, standing
from oelm.experiments.study import Study, study_name
from oelm.experiments.study_file import StudyFile
from oelm.model.ledger import count_flops, count_weights

_EVENT_BYTES = 250
_KEPT_CHECKPOINTS = 2
_MOMENTS = 2
_FLOAT_BYTES = 4
_UTILISATION = 0.5
"""Share of a bare matrix product's speed that a whole training step reaches: about a half on CPUs and GPUs alike."""


@dataclass(frozen=True)
class PlannedCell:
    """One line of a plan: an arm, its learning rates, its weights and what one final run of it costs."""

    cell: Cell
    config: RunConfig
    """Of the first final run; where the learning rate is tuned, with the lowest of the grid."""
    counts: WeightCounts | None
    flops: float | None
    saved_share: float | None


@dataclass(frozen=True)
class Plan:
    """All that can be said before a run."""

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


def plan_study(file: StudyFile, out: Path, tokens: Path, only: Sequence[str] = ()) -> Plan:
    """Resolve every run without preparing, fetching or starting anything."""
    study, name = file.study, study_name(str(file.path))
    chosen, resolve = cells(study, only), resolve_for_plan(file, tokens)
    tuning = all_tuning_runs(study, name, chosen, out, resolve)
    lowest = {cell.name: study.tuning.grid[0] for cell in chosen} if study.tuning else {}
    final = final_runs(study, name, chosen, out, resolve, lowest)
    first = {run.cell.name: run.config for run in reversed(final)}
    rows = tuple(_row(cell, first[cell.name]) for cell in chosen)
    open_runs = [run for run in (*tuning, *final) if standing(run).stage is not Stage.FINISHED]
    costs = [_flops(run.config) for run in open_runs]
    return Plan(
        name=name,
        study=study,
        rows=rows,
        tuning=tuple(tuning),
        final=tuple(final),
        done=len(tuning) + len(final) - len(open_runs),
        flops=None if None in costs else sum(cost for cost in costs if cost is not None),
        disk_bytes=_disk(study, rows, len(tuning) + len(final), final),
    )


def matmul_flops_per_second(width: int, seconds: float = 0.5) -> float:
    """How fast this machine multiplies matrices of a model's size, on all its cores or its first GPU."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens = 2048
    a, b = torch.randn(tokens, width, device=device), torch.randn(width, 4 * width, device=device)
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            a @ b
        if device == "cuda":
            torch.cuda.synchronize()
        done += 10
    return done * 2 * tokens * width * 4 * width / (time.perf_counter() - began)


def estimated_seconds(flops: float, matmul_flops: float) -> float:
    """Training time at the share of the matrix-product speed that a whole step reaches; validation left out."""
    return flops / (matmul_flops * _UTILISATION)


def _row(cell: Cell, config: RunConfig) -> PlannedCell:
    if isinstance(config.model, GPTConfig):
        counts = count_weights(config.model, config.method, config.train.steps)
        flops = count_flops(config.model, config.method, total_steps=config.train.steps, tokens=_tokens(config))
        return PlannedCell(cell, config, counts, flops.run, flops.saved_share)
    return PlannedCell(cell, config, planned_counts(config), None, None)


def _flops(config: RunConfig) -> float | None:
    if not isinstance(config.model, GPTConfig):
        return None
    return count_flops(config.model, config.method, total_steps=config.train.steps, tokens=_tokens(config)).run


def _tokens(config: RunConfig) -> int:
    assert isinstance(config.model, GPTConfig)
    return config.train.steps * config.train.sequences_per_step * config.model.context


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
