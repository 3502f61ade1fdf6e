"""A real Ray on this machine, by `ray start`: a head and two nodes of one CPU each, with their own ports and folder."""

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from train.processes import free_port, until

from .daemons import MARK, Daemons, environment_of

_NODES = ("first", "second")
_WORKER_PORTS = 200


@dataclass
class RayCluster:
    """Daemons that run; a coordinator finds it through RAY_ADDRESS."""

    folder: Path
    daemons: Daemons
    address: str
    variables: dict[str, str]
    """With which its nodes are started, and coordinators join."""

    def start(self, name: str, *arguments: str) -> None:
        """`ray start`, and wait until it has."""
        first = free_port()
        ports = (f"--min-worker-port={first}", f"--max-worker-port={first + _WORKER_PORTS}")
        options = ("--num-gpus=0", "--object-store-memory=80000000", "--block", *ports)
        command = (str(Path(sys.executable).parent / "ray"), "start", *arguments, *options)
        self.daemons.start(name, *command, environment={**os.environ, **self.variables})
        until(lambda: "Ray runtime started" in (self.folder / f"{name}.out").read_text())

    def start_node(self, name: str) -> None:
        self.start(name, f"--address={self.address}", "--num-cpus=1")

    def node_of(self, process: int) -> str:
        """On which node a run's process is: the one whose worker has started it."""
        while True:
            process = _parent(process)
            assert process > 1, "it is on no node"
            name = environment_of(process).get(MARK, "").removeprefix(f"{self.folder}/")
            if name in self.daemons.running:
                return name

    def lose(self, name: str, process: int) -> None:
        """A node with everything on it, also a run's process, which is stopped and does not notice before it ends."""
        self.daemons.kill(name)
        os.kill(process, signal.SIGKILL)

    def reset(self) -> None:
        """Whatever a test has killed is there again."""
        for name in _NODES:
            if name not in self.daemons.running:
                self.start_node(name)


def own_variables(folder: Path) -> dict[str, str]:
    """A Ray that keeps to its folder and writes no token into the person's home: it has one of its own."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**token, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}


@contextmanager
def ray_cluster(folder: Path) -> Iterator[RayCluster]:
    """The folder's name is short: sockets lie in it."""
    port = free_port()
    cluster = RayCluster(folder, Daemons(folder), f"127.0.0.1:{port}", own_variables(folder))
    try:
        head = (f"--port={port}", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--include-dashboard=false")
        cluster.start("head", "--head", "--num-cpus=0", *head)
        for node in _NODES:
            cluster.start_node(node)
        yield cluster
    finally:
        cluster.daemons.end()


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
