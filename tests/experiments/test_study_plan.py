"""What a plan says of a machine holds for the machine, not for the moment."""

import subprocess
import sys
import time

import torch

from oelm.experiments.local_launcher import cores
from oelm.experiments.study_plan import matmul_flops_per_second


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
