"""Observers of a run: the terminal (a bar, or plain lines), train.log and TensorBoard. None of them influences it."""

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from oelm.base.files import make_folder, open_regular, refusing_storage
from oelm.config.record import BadStepEvent, Event, FreezeEvent, StepEvent, ValidationEvent

Emit = Callable[[Event], None]


def describe(event: Event, steps: int) -> str:
    """One line for a person."""
    match event:
        case StepEvent():
            return (
                f"step {event.step}/{steps}  loss {event.loss:.4f}  lr {event.lr:.2e}  "
                f"{event.step_seconds * 1000:.0f} ms/step  {event.tokens_per_second:,.0f} tokens/s"
                + (f"  {event.skipped_steps} skipped" if event.skipped_steps else "")
            )
        case ValidationEvent():
            return f"step {event.step}/{steps}  validation loss {event.loss:.4f}  {'  '.join(_besides_loss(event))}"
        case FreezeEvent():
            return (
                f"step {event.step}/{steps}  {event.frozen} tensors frozen ({event.frozen_weights:,} weights); "
                f"thawed {len(event.thawed)}, newly frozen {len(event.newly_frozen)}"
            )
        case BadStepEvent():
            return f"step {event.step}/{steps}  bad step: {event.reason}; policy: {event.action.value}"


def _besides_loss(event: ValidationEvent) -> list[str]:
    return [f"{name.replace('_', ' ')} {value:.4f}" for name, value in event.measures.items() if name != "loss"]


class LogFile:
    """train.log: every line with the time it was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_regular(path, "ab")

    def write(self, line: str) -> None:
        """Append one line."""
        with refusing_storage(self._path):
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n".encode())
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # what a full disk did not take, `write` has complained about
            self._file.close()


class Terminal:
    """A progress bar on a terminal; elsewhere the same facts as plain lines, validations and a few steps only."""

    def __init__(self, label: str, start: int, steps: int, console: Console) -> None:
        self._console = console
        self._steps = steps
        self._every = max(1, steps // 10)
        self._validated = ""
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}", style="bold", markup=False),
                BarColumn(bar_width=20),
                TaskProgressColumn(),
                TextColumn("{task.fields[facts]}", markup=False),
                TimeRemainingColumn(compact=True),
            )
            self._bar = Progress(*columns, console=console)
            self._task = self._bar.add_task(label, total=steps, completed=start, facts="")
            self._bar.start()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, ValidationEvent):
            self._validated = f" · valid {(*_besides_loss(event), f'{event.loss:.4f}')[0]}"
        if self._bar is None:
            if not isinstance(event, StepEvent) or event.step % self._every == 0:
                self._console.print(describe(event, self._steps), highlight=False)
        elif isinstance(event, StepEvent):
            facts = f"loss {event.loss:.3f}{self._validated} · {event.tokens_per_second:,.0f} tok/s"
            self._bar.update(self._task, completed=event.step, facts=facts)
        else:
            self._bar.console.print(describe(event, self._steps), highlight=False)

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()


class TensorBoard:
    """Scalars under the run's own folder; what a crash left behind the checkpoint is purged on resume.

    Written record by record and not by torch's SummaryWriter: that one puts the machine's name into the file's, and
    its thread answers a full disk with a traceback.
    """

    def __init__(self, folder: Path, start: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        self._path = make_folder(folder) / f"events.out.tfevents.{time.time_ns()}"
        self._file = open_regular(self._path, "wb")
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        # TensorBoard forgets what older files say of this step and later ones; `start` itself was saved.
        self._write(step=start + 1, session_log=SessionLog(status=SessionLog.START))

    def __call__(self, event: Event) -> None:
        """Write an event's scalars."""
        match event:
            case StepEvent():
                names = ("loss", "lr", "gradient_norm", "tokens_per_second")
                self._add({f"train/{name}": getattr(event, name) for name in names}, event.step)
            case ValidationEvent():
                self._add({f"validation/{name}": value for name, value in event.measures.items()}, event.step)
            case FreezeEvent():
                self._add({"train/frozen_weights": event.frozen_weights}, event.step)
            case BadStepEvent():
                self._add({"train/bad_steps": 1.0}, event.step)

    def _add(self, scalars: dict[str, float], step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items() if math.isfinite(value)]
        self._write(step=step, summary=Summary(value=values))

    def _write(self, **content: Any) -> None:
        from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]

        with refusing_storage(self._path):
            self._records.write(event_pb2.Event(wall_time=time.time(), **content).SerializeToString())
            self._records.flush()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # what a full disk did not take, `_write` has complained about
            self._file.close()
