import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oelm.base.errors import ConfigError
from oelm.base.locks import FileLock, is_locked
from oelm.experiments.gpus import IdleGpus, driver_version, read_gpus
from oelm.experiments.launcher import JobState
from oelm.experiments.local_launcher import GpuSlots, LocalLauncher, Slot, local_launcher
from oelm.experiments.ownership import is_claimed
from oelm.experiments.run_status import status_of
from train.processes import started_anew, until

from .toy_studies import final_of, is_alive, worker_of, write_study

STAND_IN = Path(__file__).with_name("nvml_stand_in")
GIB = 1 << 30
FOREIGN = [4711]


@dataclass
class Server:
    """The GPUs that NVML shows, and a clock."""

    file: Path
    gpus: list[dict[str, Any]] = field(default_factory=list)
    now: float = 0.0

    def show(self, *gpus: dict[str, Any]) -> None:
        self.gpus = [{"uuid": f"GPU-{'abcd'[index]}", "free": 16 * GIB, **gpu} for index, gpu in enumerate(gpus)]
        partial = self.file.with_suffix(".new")  # a reader in another process sees it whole
        partial.write_text(json.dumps({"gpus": self.gpus}))
        partial.replace(self.file)

    def idle(self, gpus: IdleGpus, *, after: float = 0.0) -> list[int]:
        """Which count as idle some seconds later, looked at once a second until then."""
        for _ in range(int(after)):
            self.now += 1
            found = gpus.idle()
        return [gpu.index for gpu in (found if after else gpus.idle())]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NVML_STAND_IN", str(tmp_path / "nvml.json"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.syspath_prepend(STAND_IN)
    real = sys.modules.pop("pynvml", None)
    yield Server(tmp_path / "nvml.json")
    sys.modules.pop("pynvml", None)
    if real is not None:
        sys.modules["pynvml"] = real


def watch(server: Server, **rule: Any) -> IdleGpus:
    return IdleGpus(**{"free_bytes": 8 * GIB, "seconds": 30.0, **rule}, clock=lambda: server.now)


def test_no_driver_is_no_gpus(server: Server) -> None:
    assert read_gpus() == ()
    assert driver_version() is None
    with pytest.raises(ConfigError, match=r"NVML shows no GPU.*--on cpu"):
        local_launcher("gpu", None, None, free_gib=8, idle_seconds=30)
    assert "CPU slots" in local_launcher("auto", None, None, free_gib=8, idle_seconds=30)[0].description


def test_idle_for_the_stated_time_and_not_a_second_less(server: Server) -> None:
    server.show({}, {})
    gpus = watch(server)
    assert driver_version() == "570.00"
    assert server.idle(gpus) == []
    assert server.idle(gpus, after=29) == []
    assert server.idle(gpus, after=1) == [0, 1]


@pytest.mark.parametrize("busy", [{"compute": FOREIGN}, {"graphics": FOREIGN}, {"free": 8 * GIB - 1}])
def test_a_foreign_process_or_too_little_memory_keeps_a_gpu_until_the_time_after_it(
    server: Server, busy: dict[str, Any]
) -> None:
    gpus = watch(server)
    server.show(busy, {})
    assert server.idle(gpus, after=100) == [1]
    assert any(phrase in "; ".join(gpus.complaints()) for phrase in ("GPU 0 has 1 process", "GPU 0 has 8.0 GiB free"))
    server.show({}, {})
    assert server.idle(gpus, after=30) == [1]
    assert gpus.complaints() == ["GPU 0 idle for 29 of 30 s"]
    assert server.idle(gpus, after=1) == [0, 1]


def test_a_blip_starts_the_wait_anew(server: Server) -> None:
    gpus = watch(server)
    server.show({})
    assert server.idle(gpus, after=30) == []
    server.show({"compute": FOREIGN})
    assert server.idle(gpus, after=1) == []
    server.show({})
    assert server.idle(gpus, after=30) == []
    assert server.idle(gpus, after=1) == [0]


def test_who_has_not_looked_does_not_know(server: Server) -> None:
    """All our runs are placed for an hour, and somebody was there meanwhile: the wait begins when we look again."""
    gpus = watch(server)
    server.show({})
    assert server.idle(gpus, after=31) == [0]
    server.now += 3600
    assert server.idle(gpus) == []
    assert server.idle(gpus, after=30) == [0]


def test_a_gpu_that_fell_off_the_bus_is_left_out(server: Server) -> None:
    server.show({"lost": True}, {})
    assert [gpu.index for gpu in read_gpus()] == [1]


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("1", [1]),
        ("2,0", [0, 2]),
        ("GPU-b", [1]),
        ("GPU-c, 0", [0, 2]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("NoDevFiles", []),
        ("7", []),
    ],
)
def test_only_gpus_that_we_may_use(
    server: Server, monkeypatch: pytest.MonkeyPatch, visible: str, seen: list[int]
) -> None:
    server.show({}, {}, {})
    assert [gpu.index for gpu in read_gpus()] == [0, 1, 2]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in read_gpus()] == seen


def test_a_place_is_one_gpu_and_only_that(server: Server) -> None:
    server.show({"compute": FOREIGN}, {}, {})
    places = GpuSlots(watch(server, seconds=0), total=3)
    first, second = places.take(1), places.take(1)
    assert isinstance(first, Slot)
    assert isinstance(second, Slot)
    assert [place.environment["CUDA_VISIBLE_DEVICES"] for place in (first, second)] == ["GPU-b", "GPU-c"]
    assert first.device == "gpu 1"
    assert places.take(1) is None, "NVML does not show our runs yet, and the places are taken all the same"
    first.release()
    again = places.take(1)
    assert again is not None
    second.release()
    again.release()


def test_several_gpus_for_one_run_all_or_none(server: Server, places: Path) -> None:
    server.show({}, {}, {})
    gpus = GpuSlots(watch(server, seconds=0), total=3)
    other = FileLock.take(places / "GPU-b.lock")
    assert other is not None
    assert gpus.take(3) is None
    assert not is_locked(places / "GPU-a.lock")
    assert not is_locked(places / "GPU-c.lock")
    both = gpus.take(2)
    assert both is not None
    assert both.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-c"
    both.release()
    other.release()


def test_a_run_that_could_never_be_placed_is_refused(server: Server) -> None:
    server.show({}, {})
    launcher, at_once = local_launcher("gpu", None, None, free_gib=1, idle_seconds=0)
    assert at_once == 2
    launcher.refuse(2)
    with pytest.raises(ConfigError, match="needs 3 GPUs and there are 2"):
        launcher.refuse(3)


def test_a_worker_holds_its_gpu_and_sees_no_other(server: Server, tmp_path: Path, places: Path) -> None:
    """A real worker (it ends at once, for want of a config): its environment, and the lock that goes over to it."""
    server.show({}, {})
    launcher = LocalLauncher(GpuSlots(watch(server, seconds=0), total=2))
    (tmp_path / "run").mkdir()
    assert launcher.has_room(1)
    (job,) = launcher.submit([tmp_path / "run"], 1)
    assert job.device == "gpu 0"
    assert is_locked(places / "GPU-a.lock")
    variables = Path(f"/proc/{job.id.split('/')[1]}/environ")  # empty until the process is Python's
    until(lambda: b"CUDA_VISIBLE_DEVICES=GPU-a" in variables.read_bytes().split(b"\0"))
    successor = LocalLauncher(GpuSlots(watch(server, seconds=0), total=2))
    assert successor.state(job) is JobState.ALIVE, "another coordinator can ask about it"
    until(lambda: launcher.state(job) is JobState.ENDED)
    assert successor.state(job) is JobState.ENDED
    assert not is_locked(places / "GPU-a.lock")


@pytest.mark.slow
def test_no_run_is_placed_on_a_gpu_with_a_foreign_process_until_it_goes(
    server: Server, tmp_path: Path, places: Path
) -> None:
    """`oelm experiment run --on gpu` itself, beside a server whose three GPUs are: busy, full, and not ours to use."""
    study = write_study(tmp_path / "study.yaml", arms=["oelm"], seeds=[0], train={"steps": 100_000})
    (run,) = final_of(study, tmp_path / "out")
    server.show({"compute": FOREIGN}, {"free": GIB}, {})
    seconds = 2.0
    command = ["oelm", "experiment", "run", str(study), f"--out-dir={tmp_path / 'out'}", "--on=gpu"]
    coordinator = started_anew(
        *command,
        "--gpu-free-gib=8",
        f"--gpu-idle-seconds={seconds}",
        PYTHONPATH=os.pathsep.join([str(STAND_IN), *filter(None, [os.environ.get("PYTHONPATH")])]),
        CUDA_VISIBLE_DEVICES="0,1",
    )
    assert coordinator.stdout is not None
    try:
        lines = [coordinator.stdout.readline() for _ in range(3)]
        assert "2 GPU(s)" in lines[0]
        assert "waiting: GPU 0 has 1 process(es); GPU 1 has 1.0 GiB free" in lines[2]
        time.sleep(seconds + 1)
        assert not is_claimed(run.folder)
        assert coordinator.poll() is None
        gone = time.time()
        server.show({}, {"free": GIB}, {})
        until(lambda: is_claimed(run.folder), alive=lambda: coordinator.poll() is None)
        assert time.time() - gone >= seconds
        until(lambda: worker_of(run) is not None)
        worker = worker_of(run)
        assert worker is not None
        assert status_of(run).device == "gpu 0"
        assert b"CUDA_VISIBLE_DEVICES=GPU-a" in Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        coordinator.send_signal(signal.SIGTERM)
        _out, err = coordinator.communicate()
        assert (coordinator.returncode, err) == (143, "")
        assert not is_alive(worker)
    finally:
        if coordinator.poll() is None:
            os.killpg(coordinator.pid, signal.SIGKILL)
            coordinator.communicate()
