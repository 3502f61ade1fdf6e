import os
import signal
import time

from oelm.train.stopping import Interrupted, stop_on_signal
from train.processes import running, until


def test_a_signal_is_remembered_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal() as stop:
        assert stop.signal is None
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # the scheduler's and torchrun's: one request
        assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert Interrupted(signal.SIGTERM).exit_code == 143
    assert "--resume" in str(Interrupted(signal.SIGINT))


def _stubborn() -> None:
    with stop_on_signal():
        print("ready", flush=True)
        time.sleep(0.5)
        time.sleep(60)


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    process = running(_stubborn)
    until(lambda: "ready" in (process.folder / "out").read_text() if (process.folder / "out").exists() else False)
    process.signal(signal.SIGINT)
    process.process.join(0.3)
    assert process.process.is_alive()
    process.signal(signal.SIGINT)
    assert process.ended().code == -signal.SIGINT
