"""The progress of a preparation: a bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import Protocol, Self

import rich.progress

from oelm.base.console import Console

LINE_SECONDS = 10.0
_STEP_BYTES = 1 << 20  # smaller advances are added up first: a call per document would cost more than the reading


class Progress(Protocol):
    """What a preparation reports while it works."""

    def start(self, stage: str, total_bytes: int | None) -> None:
        """A new stage begins; None if its length is not known."""

    def advance(self, text_bytes: int) -> None:
        """So many more bytes of text are done."""

    def say(self, message: str) -> None:
        """Something worth a line."""


class Silent:
    """Reports nothing."""

    def start(self, stage: str, total_bytes: int | None) -> None:
        """Tell nothing."""

    def advance(self, text_bytes: int) -> None:
        """Tell nothing."""

    def say(self, message: str) -> None:
        """Tell nothing."""


class ConsoleProgress:
    """Reports on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = self._new_bar() if self._console.is_terminal else None
        self._stage = ""
        self._total: int | None = None
        self._done = self._pending = 0
        self._began = self._told = time.monotonic()
        self._task = rich.progress.TaskID(0)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush()
        if self._bar:
            self._bar.stop()

    def start(self, stage: str, total_bytes: int | None) -> None:
        """A new stage begins; None if its length is not known."""
        self._flush()
        self._stage, self._total, self._done, self._pending = stage, total_bytes, 0, 0
        self._began = self._told = time.monotonic()
        if self._bar:
            self._task = self._bar.add_task(stage, total=total_bytes)
        else:
            self._line(f"{stage} ...")

    def advance(self, text_bytes: int) -> None:
        """So many more bytes of text are done."""
        self._pending += text_bytes
        if self._pending >= _STEP_BYTES:
            self._flush()

    def say(self, message: str) -> None:
        """Something worth a line."""
        if self._bar:
            self._bar.console.print(message)
        else:
            self._line(message)

    def _flush(self) -> None:
        pending, self._pending = self._pending, 0
        self._done += pending
        if not pending:
            return
        if self._bar:
            self._bar.advance(self._task, pending)
        elif time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            self._line(self._state())

    def _state(self) -> str:
        speed = self._done / max(self._told - self._began, 1e-9)
        state = f"{self._stage}: {self._done / 1e6:.0f} MB, {speed / 1e6:.1f} MB/s"
        if self._total:
            state += f", {100 * self._done / self._total:.0f}%, {(self._total - self._done) / speed:.0f} s left"
        return state

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def _new_bar(self) -> rich.progress.Progress:
        return rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.DownloadColumn(),
            rich.progress.TransferSpeedColumn(),
            rich.progress.TimeRemainingColumn(),
            console=self._console,
        )
