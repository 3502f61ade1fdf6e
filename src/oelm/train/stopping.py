"""Asking a run to stop: SIGTERM and Ctrl-C let it finish its step, save and end; a second Ctrl-C ends it at once.

A second SIGTERM does not: a scheduler and torchrun may both send one for the same reason.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


class Interrupted(Exception):
    """The run was asked to stop, has saved itself and can be resumed."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after saving; --resume continues")
        self.exit_code = 128 + signal_number


@dataclass
class StopRequest:
    """Set by a signal, read once a step."""

    signal: int | None = None


@contextlib.contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn SIGTERM and SIGINT into a request for as long as the context lasts."""
    request = StopRequest()

    def ask(number: int, _frame: FrameType | None) -> None:
        if request.signal is not None and number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        request.signal = request.signal or number

    previous = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
