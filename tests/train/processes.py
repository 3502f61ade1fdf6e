"""The command line in real processes that can be killed, limited and signalled.

They are forked from a server that has imported torch already, which saves three seconds each; `python -m oelm` itself
is started by `started_anew`.
"""

import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
# torch._dynamo: every optimiser imports it, and that takes another two seconds.
_CONTEXT.set_forkserver_preload(["oelm.cli.main", "oelm.experiments.run_study", "torch._dynamo"])
_PATIENCE_SECONDS = 150


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Running:
    """A command that runs."""

    process: BaseProcess
    folder: Path

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def killed(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.join(_PATIENCE_SECONDS)

    def ended(self) -> Ended:
        self.process.join(_PATIENCE_SECONDS)
        if self.process.exitcode is None:
            self.killed()
            raise TimeoutError((self.folder / "err").read_text())
        return Ended(self.process.exitcode, (self.folder / "out").read_text(), (self.folder / "err").read_text())


def started(arguments: list[str], *, limit_bytes: int | None = None, **environment: str) -> Running:
    """`oelm ARGUMENTS` in a process of its own; no file may grow beyond `limit_bytes`."""
    return running(_command, arguments, limit_bytes, **environment)


def running(function: Callable[..., None], *arguments: Any, **environment: str) -> Running:
    """A function of a test module in a process of its own."""
    folder = Path(mkdtemp(dir=_outputs().name))
    process = _CONTEXT.Process(target=_child, args=(folder, dict(os.environ) | environment, function, arguments))
    process.start()
    return Running(process, folder)


@cache
def _outputs() -> TemporaryDirectory[str]:
    """What the commands print, until the tests end."""
    return TemporaryDirectory(prefix="oelm-outputs-")


def parallel(arguments: list[str], processes: int = 2) -> list[Running]:
    """`oelm ARGUMENTS` in so many data-parallel processes, with the environment that torchrun would give them."""
    return [started(arguments, **each) for each in torchrun_environments(processes)]


def torchrun_environments(processes: int) -> list[dict[str, str]]:
    port = str(free_port())
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def free_port() -> int:
    """Below the ports that the system hands out by itself: between our look and its use, gloo may be given one."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def started_anew(*command: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    """`python -m MODULE ...` from nothing, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
        cwd=cwd,
    )


def until(condition: Callable[[], object], *, alive: Callable[[], bool] = lambda: True) -> None:
    """Wait until something is so, but not forever, and not for a process that is gone."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert alive(), "the process ended before what was waited for"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def _child(
    folder: Path, environment: Mapping[str, str], function: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    for name, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    function(*arguments)


def _command(arguments: list[str], limit_bytes: int | None) -> None:
    from oelm.cli.main import main

    if limit_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as every Python does when it starts
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    sys.argv = ["oelm", *arguments]
    main()
