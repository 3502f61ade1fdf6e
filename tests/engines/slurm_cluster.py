"""A real SLURM of two nodes on this machine: its own munged, slurmctld and slurmds, ports, spool and state folders.

It needs Debian's slurmctld, slurmd, slurm-client and munge, no systemd, and nothing of the machine's own set-up.
"""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from train.processes import free_port, until

from .daemons import Daemons, kill_where

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2")

_CONFIG = """\
ClusterName=oelm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
SlurmdTimeout=60
KillWait=60
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


@dataclass
class SlurmCluster:
    """Daemons that run; its commands find it through SLURM_CONF."""

    folder: Path
    daemons: Daemons

    @property
    def config(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.config)}

    def ask(self, *command: str) -> str:
        """A command of SLURM's, which must not fail."""
        done = self._tried(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_controller(self) -> None:
        self.daemons.start("slurmctld", "slurmctld", "-D", environment=self.environment)

    def start_node(self, node: str) -> None:
        self.daemons.start(node, "slurmd", "-D", "-N", node, environment=self.environment)

    def kill(self, name: str) -> None:
        """A daemon and, if it is a node, its jobs, which are told where they are."""
        self.daemons.kill(name)
        kill_where(lambda own: self._is_job(own) and own["SLURMD_NODENAME"] == name)

    def wait_until_idle(self) -> None:
        """All nodes are up and have nothing to do."""
        until(lambda: self._tried("sinfo", "--noheader", "--format=%T %D").stdout.strip() == f"idle {len(NODES)}")

    def reset(self) -> None:
        """No job is left; whatever a test has killed is there again."""
        if "slurmctld" not in self.daemons.running:
            self.start_controller()
        for node in NODES:
            if node not in self.daemons.running:
                self.start_node(node)
        until(lambda: self._tried("scancel", f"--user={getpass.getuser()}").returncode == 0)
        kill_where(self._is_job)
        self.wait_until_idle()

    def end(self) -> None:
        self.daemons.end()
        kill_where(self._is_job)

    def _tried(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, env=self.environment)

    def _is_job(self, own: Mapping[str, str]) -> bool:
        return own.get("SLURM_CONF") == str(self.config) and "SLURMD_NODENAME" in own


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """The folder's name is short: a socket's path has 107 characters."""
    cluster = SlurmCluster(folder, Daemons(folder))
    ports = [free_port() for _ in range(3)]
    host, user = socket.gethostname(), getpass.getuser()
    cluster.config.write_text(_CONFIG.format(folder=folder, ports=ports, host=host, user=user))
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = [f"--{kind}-file={folder}/munged.{kind}" for kind in ("pid", "log", "seed")]
    munged = ("munged", "--foreground", "--force", f"--key-file={key}", *files, f"--socket={folder}/munge.socket")
    try:
        cluster.daemons.start("munged", *munged, environment=cluster.environment)
        until((folder / "munge.socket").exists)
        cluster.start_controller()
        for node in NODES:
            cluster.start_node(node)
        cluster.wait_until_idle()
        yield cluster
    finally:
        cluster.end()
