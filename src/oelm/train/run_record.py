"""From a finished run to its record, and the original's `timing_stats.json` beside it."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from oelm.config.measure import Measure
from oelm.config.methods import ORIGINAL_NAMES
from oelm.config.record import CurvePoint, Event, Record, Result, StepEvent, Timing, ValidationEvent
from oelm.train.checkpoint import Progress

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_ORIGINAL_TYPES = {ours: theirs for theirs, ours in ORIGINAL_NAMES.items()}


def read_events(path: Path) -> tuple[Event, ...]:
    """All events of a run, oldest first."""
    return tuple(_EVENT.validate_json(line) for line in path.read_bytes().splitlines())


def curve(events: tuple[Event, ...]) -> tuple[CurvePoint, ...]:
    """The validations, each with the training loss that was last seen before it."""
    points, train_loss = [], None
    for event in events:
        if isinstance(event, StepEvent):
            train_loss = event.loss
        elif isinstance(event, ValidationEvent):
            points.append(
                CurvePoint(
                    step=event.step,
                    tokens=event.tokens,
                    seconds=event.seconds,
                    loss=event.loss,
                    train_loss=train_loss,
                )
            )
    return tuple(points)


def result(events: tuple[Event, ...], best_by: Measure) -> Result:
    """The last validation is the result; the best one is named beside it."""
    validations = [event for event in events if isinstance(event, ValidationEvent)]
    best = min(validations, key=lambda event: best_by.badness(event.measures))
    last = validations[-1]
    return Result(loss=last.loss, measures=last.measures, best_step=best.step, best_loss=best.loss, text=last.text)


def timing(progress: Progress, *, tokens_per_step: float, peak_bytes: int) -> Timing:
    """Step times without warm-up and validation; a run too short to have any reports all of its time."""
    seconds = progress.step_seconds or [progress.training_seconds / progress.step]
    mean = statistics.fmean(seconds)
    return Timing(
        measured_steps=len(progress.step_seconds),
        mean_step_seconds=mean,
        median_step_seconds=statistics.median(seconds),
        tokens_per_second=tokens_per_step / mean,
        training_seconds=progress.training_seconds,
        validation_seconds=progress.validation_seconds,
        wall_seconds=progress.wall_seconds,
        peak_bytes=peak_bytes,
    )


def timing_stats(record: Record, progress: Progress) -> dict[str, Any]:
    """`timing_stats.json` with the original's keys and names, so that its scripts go on working. Times: seconds."""
    method, timing = record.config.method, record.timing
    seconds = np.array(progress.step_seconds or [progress.training_seconds / progress.step])
    validations = len(record.curve)
    return {
        "model_type": _ORIGINAL_TYPES.get(method.name, method.name),
        "init_method": "orthogonal" if method.query.value.endswith("orthogonal") else method.query.value,
        "dataset": record.config.data.name,
        "final_perplexity": record.result.measures.get("perplexity"),
        "total_wall_time": progress.wall_seconds,
        "total_formatted": _formatted(progress.wall_seconds),
        "num_steps_measured": len(progress.step_seconds),
        "warmup_steps": record.config.train.steps - len(progress.step_seconds),
        "mean_step_time": timing.mean_step_seconds,
        "std_step_time": float(seconds.std()),
        "median_step_time": timing.median_step_seconds,
        "min_step_time": float(seconds.min()),
        "max_step_time": float(seconds.max()),
        "p95_step_time": float(np.percentile(seconds, 95)),
        "p99_step_time": float(np.percentile(seconds, 99)),
        "total_validation_time": progress.validation_seconds,
        "mean_validation_time": progress.validation_seconds / validations,
        "num_validations": validations,
        "peak_memory_bytes": timing.peak_bytes,
    }


def _formatted(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02d}m{rest:02d}s"
