"""`oelm ARGUMENTS` inside this process: a thousand command lines a minute instead of twenty."""

import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from oelm.cli.main import main
from train.processes import Ended

CRASHED = 70
HUNG = 71


class HungError(BaseException):
    """The command took longer than it may."""


def called(*arguments: str | Path, seconds: float = 20.0, cwd: Path | None = None) -> Ended:
    """How the command ended; with a traceback its code is `CRASHED`, without an end in time `HUNG`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    before = sys.argv, signal.getsignal(signal.SIGINT)
    sys.argv = ["oelm", *map(str, arguments)]
    try:
        folder = contextlib.chdir(cwd or Path.cwd())
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), folder, _alarm(seconds):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except HungError:
        code = HUNG
    except BaseException:  # noqa: BLE001 (it is what we look for)
        err.write(traceback.format_exc())
        code = CRASHED
    finally:
        sys.argv = before[0]
        signal.signal(signal.SIGINT, before[1])
    return Ended(code, out.getvalue(), err.getvalue())


def refused(*arguments: str | Path, cwd: Path | None = None) -> str:
    """The one line with which a command is refused."""
    ended = called(*arguments, cwd=cwd)
    assert ended.code == 2, ended
    last = ended.err.splitlines()[-1]
    assert last.startswith("error: "), ended.err
    assert "Traceback" not in ended.err
    return last


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def as_argument(content: bytes) -> str:
    """Bytes as the operating system would hand them over."""
    return os.fsdecode(content)
