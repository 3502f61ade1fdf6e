"""What a coordinator shows: a bar per run on a terminal, plain lines in a log."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from oelm.experiments.matrix import StudyRun
from oelm.experiments.run_status import RunStatus, WatchedRun, status_of

_LOOK_SECONDS = 1.0
_NAME_WIDTH = 34


class RunsDisplay:
    """All runs of a stage, and those under way."""

    def __init__(self, console: Console, *, total: int, done: int) -> None:
        columns = (
            TextColumn(f"{{task.description:<{_NAME_WIDTH}}}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
        )
        self._console = console
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._all = self._progress.add_task("all runs", total=total, completed=done, facts="")
        self._bars: dict[str, TaskID] = {}
        self._looked = 0.0
        self._said = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def started(self, run: StudyRun, device: str) -> None:
        """A worker was started."""
        self._said = ""
        if not self._console.is_terminal:
            self._say(f"{run.name:<{_NAME_WIDTH}} started on {device}")

    def waiting_for(self, reason: str) -> None:
        """There is no room. A log gets one line for each period of waiting; a terminal shows it beside the total."""
        self._progress.update(self._all, facts=reason)
        if not self._said and not self._bars and not self._console.is_terminal:
            self._say(f"waiting: {reason}")
            self._said = reason

    def finished(self, now: RunStatus) -> None:
        """A run has its record."""
        self._remove(now.run)
        self._progress.advance(self._all)
        self._say(f"{now.run.name:<{_NAME_WIDTH}} {now.run.measure.title.english} {now.quality}")

    def cut_off(self, run: StudyRun, saved_step: int) -> None:
        """A worker was killed or preempted, and its run will be resumed."""
        self._remove(run)
        self._say(f"{run.name} was cut off after saving step {saved_step}; it will be resumed")

    def ended(self, run: StudyRun, how: str, lines: Sequence[str]) -> None:
        """A run ended without a record."""
        self._remove(run)
        self._progress.advance(self._all)
        self._say(f"{run.name} {how}")
        for line in lines:
            self._say(f"    {line}")

    def show(self, waiting: Sequence[StudyRun], running: Sequence[StudyRun]) -> None:
        """Look at the runs under way, ours and others', once a second."""
        if not self._console.is_terminal or time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for run in running:
            if run.name not in self._bars:
                self._bars[run.name] = self._progress.add_task(run.name, total=run.config.train.steps, facts="")
            now = status_of(run)
            self._progress.update(self._bars[run.name], completed=now.state.step if now.state else 0, facts=now.quality)
        if running:
            self._progress.update(self._all, facts=f"{len(waiting)} waiting" if waiting else "")

    def _remove(self, run: WatchedRun) -> None:
        if run.name in self._bars:
            self._progress.remove_task(self._bars.pop(run.name))

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
