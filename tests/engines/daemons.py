"""Daemons of a test's own cluster, with every process that they start: they can be killed, and none outlives us."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "OELM_TEST_DAEMON"


@dataclass
class Daemons:
    """By name; what they print is in their folder."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *command: str, environment: Mapping[str, str]) -> None:
        """A daemon in the foreground: it dies with us, however we end. What it starts inherits its mark."""
        marked = {**environment, MARK: f"{self.folder}/{name}"}
        with (self.folder / f"{name}.out").open("ab") as log:
            words = ("setpriv", "--pdeathsig", "KILL", *command)
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=log, env=marked, start_new_session=True)

    def kill(self, name: str) -> None:
        """A daemon and all that it has started: as if the power were gone."""
        daemon = self.running.pop(name)
        daemon.kill()
        daemon.wait()
        kill_where(lambda own: own.get(MARK) == f"{self.folder}/{name}")

    def end(self) -> None:
        """All of them, the youngest first."""
        for name in reversed(list(self.running)):
            self.kill(name)
        kill_where(lambda own: own.get(MARK, "").startswith(f"{self.folder}/"))


def kill_where(chosen: Callable[[Mapping[str, str]], bool]) -> None:
    """Kill the processes whose environment is so."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and chosen(environment_of(int(entry.name))):
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


def environment_of(process: int) -> dict[str, str]:
    """With which a process was started; nothing of one that is gone."""
    try:
        words = Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)
