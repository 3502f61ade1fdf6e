"""One SLURM, and one Ray, for all tests of a process. Where they are not installed, tests are skipped and say so."""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from train import processes

from .daemons import kill_where
from .ray_cluster import RayCluster, own_variables, ray_cluster
from .slurm_cluster import SlurmCluster, missing_tools, slurm_cluster


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons, queues and several Pythons at a time on a busy machine take their time."""
    monkeypatch.setattr(processes, "_PATIENCE_SECONDS", 900)


@pytest.fixture(scope="session")
def _running_slurm() -> Iterator[SlurmCluster]:
    if missing := missing_tools():
        pytest.skip(
            f"NO SLURM ({missing[0]} is missing): nothing is tested on it. "
            "Fix: apt-get install slurmctld slurmd slurm-client munge"
        )
    with _short_folder("slurm-") as folder, slurm_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def slurm(_running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster with two idle nodes, and no job of a test is left behind on it."""
    monkeypatch.setenv("SLURM_CONF", str(_running_slurm.config))
    yield _running_slurm
    _running_slurm.reset()


@pytest.fixture(scope="session")
def _running_ray() -> Iterator[RayCluster]:
    _require_ray()
    with _short_folder("ray-") as folder, ray_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def ray(_running_ray: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    """A cluster with two nodes that coordinators join."""
    for name, value in {**_running_ray.variables, "RAY_ADDRESS": _running_ray.address}.items():
        monkeypatch.setenv(name, value)
    yield _running_ray
    _running_ray.reset()


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cluster to be joined: a coordinator starts its own."""
    _require_ray()
    with _short_folder("ray-") as folder:
        for name, value in {**own_variables(folder), "RAY_ADDRESS": "local"}.items():
            monkeypatch.setenv(name, value)
        yield
        kill_where(lambda own: own.get("RAY_TMPDIR") == str(folder))


def _require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("NO RAY: nothing is tested on it. Fix: pip install --constraint constraints.txt 'oelm[ray]'")


@contextmanager
def _short_folder(prefix: str) -> Iterator[Path]:
    """Sockets lie in it, and a socket's path has 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
