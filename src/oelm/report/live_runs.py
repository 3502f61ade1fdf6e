"""Runs as they are now, for a page that follows them: which files tell of them, and the curves of unfinished ones."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from oelm.base.errors import OelmError
from oelm.base.files import PARTIAL_PREFIX
from oelm.config.evaluated import EVALUATION_FILE
from oelm.config.record import Event, StepEvent, ValidationEvent
from oelm.config.registered import PLAN_FILE
from oelm.config.run import RunConfig
from oelm.config.yaml_file import read_yaml
from oelm.report.arms import is_tuning
from oelm.report.curves import LONGEST_CURVE, Lists, P, Point, points_per_curve, run_data, thinned
from oelm.report.record_files import CONFIG, RECORD

EVENTS = "events.jsonl"
_OF_THE_REPORT = frozenset({RECORD, EVALUATION_FILE, PLAN_FILE, CONFIG})
_WATCHED = _OF_THE_REPORT | {EVENTS}
_NOT_LOOKED_INTO = frozenset({"checkpoint", "tensorboard"})
_MANY_RUNS = 4096
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)

Stamp = tuple[int, int]
"""When a file was changed, and its length: another stamp means another content."""
Stamps = Mapping[Path, Stamp]


def look(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """The files in and below `paths` that a page is made of."""
    found = {}
    for file in (file for path in paths for file in _watched(path)):
        with suppress(OSError):  # gone since
            status = file.stat()
            if stat.S_ISREG(status.st_mode):  # to read from a pipe would be to wait for it
                found[file] = (status.st_mtime_ns, status.st_size)
    return found


def _watched(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, below, names in os.walk(path):
        below[:] = [name for name in below if name not in _NOT_LOOKED_INTO and not name.startswith(PARTIAL_PREFIX)]
        yield from (Path(folder, name) for name in _WATCHED.intersection(names))


def of_the_report(seen: Stamps) -> dict[Path, Stamp]:
    """Those that a report is made of: it names the runs that have no record, too."""
    return {file: stamp for file, stamp in seen.items() if file.name in _OF_THE_REPORT}


@dataclass(frozen=True)
class LivePoint:
    """Training as logged, or a validation."""

    step: int
    tokens: int
    seconds: float | None
    loss: float | None
    train_loss: float | None


@dataclass(frozen=True)
class LiveRun:
    """One line of the drawing of all runs so far."""

    label: str
    seed: int
    curve: Sequence[Point]
    is_open: bool
    """Whether it has no record yet."""


def unfinished_curves(seen: Stamps) -> list[LiveRun]:
    """The runs without a record that have logged something, in the order of their folders."""
    folders = sorted(file.parent for file in seen if file.name == EVENTS and file.with_name(RECORD) not in seen)
    runs = [
        LiveRun(*named, _curve(folder / EVENTS, seen[folder / EVENTS]), is_open=True)
        for folder in folders
        if (named := _label_and_seed(folder / CONFIG, seen.get(folder / CONFIG)))
    ]
    return [run for run in runs if run.curve]


def label_of(config: RunConfig) -> str:
    """The arm of a run, as its study names it."""
    name = config.study.cell if config.study and config.study.cell else config.method.name
    return f"{name} lr={config.optim.lr:g}" if is_tuning(config) else name


def live_curves(runs: Sequence[LiveRun], colours: Mapping[str, int]) -> dict[str, Any]:
    """What `curves.js` draws of all runs so far; `colours` are by label."""
    labels = {label: place for place, label in enumerate(dict.fromkeys(run.label for run in runs))}
    steps: Lists = {}
    tokens: Lists = {}
    longest = points_per_curve(len(runs))
    return {
        "arms": [
            {"label": label, "colour": colours[label], "control": None, "bytes_per_token": None} for label in labels
        ],
        "runs": [
            {**run_data(labels[run.label], run.seed, _thin(run.curve, longest), steps, tokens), "open": run.is_open}
            for run in runs
        ],
        "steps": list(steps),
        "tokens": list(tokens),
        "margin": None,
    }


def _thin(curve: Sequence[P], longest: int) -> Sequence[P]:
    """Validations and what was logged between them are thinned apart: there may be a hundred logged to one of them."""
    validated = thinned([point for point in curve if point.loss is not None], longest)
    logged = thinned([point for point in curve if point.loss is None], longest)
    return sorted((*validated, *logged), key=lambda point: point.step)


@lru_cache(maxsize=_MANY_RUNS)
def _label_and_seed(config: Path, stamp: Stamp | None) -> tuple[str, int] | None:
    """None where the config is not there or of another version."""
    try:
        settings = read_yaml(RunConfig, config) if stamp else None
    except (OSError, OelmError):
        return None
    return (label_of(settings), settings.seed) if settings else None


@lru_cache(maxsize=_MANY_RUNS)
def _curve(events: Path, stamp: Stamp) -> Sequence[LivePoint]:  # noqa: ARG001 (another stamp, another curve)
    points: dict[int, LivePoint] = {}
    train_loss = None
    for line in events.read_bytes().splitlines():
        try:
            event = _EVENT.validate_json(line)
        except ValueError:  # half a line, which the run is writing, or a damaged one
            continue
        if not isinstance(event, StepEvent | ValidationEvent):
            continue
        point = LivePoint(event.step, event.tokens, event.seconds, event.loss, train_loss)
        if isinstance(event, StepEvent):
            train_loss = point.loss
            point = replace(point, loss=None, train_loss=train_loss)
        points[point.step] = point
    return tuple(_thin(list(points.values()), LONGEST_CURVE))
