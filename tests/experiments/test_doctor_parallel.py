"""What torchrun's processes said is kept, and none of them outlives a check that hung."""

import re
import sys
import time
from pathlib import Path

import pytest

from oelm.experiments import doctor_parallel
from oelm.experiments.doctor_parallel import run_apart, why_failed

from .toy_studies import is_alive

TABLE = """\
W1119 04:16:13.472000 15793 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 15848 closing signal
E1119 04:16:13.592000 15793 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 2) local_rank: 0
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
oelm FAILED
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""
AGENT = """
import signal, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
def close(*_):
    worker.kill()
    worker.wait()
    sys.exit(1)
signal.signal(signal.SIGTERM, close)
print("waiting for", worker.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "some warning\nerror: no folder. Fix: make it.\nerror: no folder. Fix: make it.\n",
            "error: no folder. Fix: make it.",
        ),
        ("Traceback\nValueError: of rank 0\n", "Traceback\nValueError: of rank 0"),
    ],
)
def test_the_table_of_torchrun_hides_no_reason(said: str, kept: str) -> None:
    assert why_failed(said + TABLE) == kept
    assert why_failed(TABLE) == TABLE.strip(), "better than nothing"
    assert why_failed("") == "nothing"


def test_a_process_that_fails_is_quoted(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "import sys; print('error: too small. Fix: a larger one.'); sys.exit(2)"]
    with pytest.raises(RuntimeError, match=r"^error: too small. Fix: a larger one.$"):
        run_apart(failing, tmp_path / "log", 30)


def test_a_hung_check_leaves_no_process(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"not done after 2 s; until then: waiting for (\d+)") as hung:
        run_apart([sys.executable, "-c", AGENT], tmp_path / "log", 2)
    found = re.search(r"waiting for (\d+)", str(hung.value))
    assert found
    assert not is_alive(int(found[1]))


def test_what_does_not_close_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_parallel, "_CLOSING_SECONDS", 0.3)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="until then: deaf"):
        run_apart([sys.executable, "-c", deaf], tmp_path / "log", 2)
    assert time.monotonic() - began < 30
