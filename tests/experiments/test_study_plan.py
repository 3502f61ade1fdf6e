"""What a plan says of a machine holds for the machine, not for the moment."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from oelm.cli.main import command_line
from oelm.config.run import Precision
from oelm.experiments.local_launcher import cores
from oelm.experiments.study_plan import matmul_flops_per_second

from .studies import TEXT, study


class StandInGpu(TorchFunctionMode):
    """The CPU in the place of a GPU; notes the type of every product, and when it was waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.done: list[torch.dtype | str] = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: self.done.append("waited"))

    def __torch_function__(
        self, function: Callable[..., Any], _types: object, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if "matmul" in function.__name__:
            self.done.append(args[0].dtype)
        given = kwargs or {}
        return function(*args, **(given | {"device": "cpu"} if "device" in given else given))


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("float16", torch.float16), ("bf16", torch.bfloat16), ("float32", torch.float32), ("float64", torch.float64)],
)
def test_a_gpu_is_timed_in_the_precision_of_the_runs_after_a_product_that_warms_up(
    monkeypatch: pytest.MonkeyPatch, precision: str, dtype: torch.dtype
) -> None:
    with StandInGpu(monkeypatch) as gpu:
        assert matmul_flops_per_second(16, Precision(precision), seconds=1e-3) > 0
    assert gpu.done[:13] == [dtype, "waited", *[dtype] * 10, "waited"]


def test_a_plan_says_in_which_precision_it_has_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = study(tmp_path, TEXT.replace("  lr: 1e-3\n", "  lr: 1e-3\n  precision: bf16\n"))
    arguments = ["experiment", "plan", str(file.path)]
    command_line(arguments)(args=arguments, standalone_mode=False)
    in_float32 = ", measured on this machine in float32, though the runs are in bf16, and half of it"
    assert in_float32 in " ".join(capsys.readouterr().out.split())
    with StandInGpu(monkeypatch):
        command_line(arguments)(args=arguments, standalone_mode=False)
    assert ", measured on this machine in bf16 and half of it" in " ".join(capsys.readouterr().out.split())


def test_the_hours_of_a_plan_do_not_depend_on_what_else_runs() -> None:
    threads, alone = torch.get_num_threads(), matmul_flops_per_second(128, seconds=0.1)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * cores())]
    try:
        time.sleep(0.5)
        assert matmul_flops_per_second(128, seconds=0.1) > 0.4 * alone
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert torch.get_num_threads() == threads
