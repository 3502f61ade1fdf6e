"""Asking a run to stop: SIGTERM, Ctrl-C and a lost terminal let it finish its step, save and end.

A second Ctrl-C ends it at once. A second SIGTERM does not: a scheduler and torchrun may both send one for one reason.
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
    """Turn SIGTERM, SIGINT and SIGHUP, unless it is ignored (nohup), into a request for as long as this lasts."""
    request = StopRequest()
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def ask(number: int, _frame: FrameType | None) -> None:
        if request.signal is not None and number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if number == signal.SIGHUP:
            _replace_by_nothing(terminals)
        request.signal = request.signal or number

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _replace_by_nothing(terminals: list[int]) -> None:
    """The terminal is gone: to print there would be an error, before there was time to save."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in terminals:
        os.dup2(nothing, descriptor)
    os.close(nothing)
