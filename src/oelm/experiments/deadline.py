"""So much time and no more, for something that may hang."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_SECONDS = 10.0
"""Whatever was interrupted may have caught the error, and gone on."""


class TooLongError(Exception):
    """What was tried has not ended in its time."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise where Python is after so many seconds: in the main thread only, and not within a call of C that hangs."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
