import platform
import subprocess
import sys

import pytest
import torch

from oelm.base.errors import ConfigError
from oelm.base.runtime import Runtime, choose_runtime, generator_for, world_from_environment


def test_streams_of_one_purpose_are_equal_and_do_not_disturb_each_other() -> None:
    first, second, other = generator_for(7, "a"), generator_for(7, "a"), generator_for(7, "b")
    torch.randn(100, generator=other)
    torch.randn(100)
    drawn = torch.randn(5, generator=first)
    assert torch.equal(drawn, torch.randn(5, generator=second))
    assert not torch.equal(drawn, torch.randn(5, generator=generator_for(7, "b")))
    assert not torch.equal(drawn, torch.randn(5, generator=generator_for(8, "a")))


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    torch.randn(5, generator=generator_for(0, "x"))
    assert torch.equal(before, torch.get_rng_state())


def test_the_cpu_can_always_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    runtime = choose_runtime("cpu")
    assert runtime == Runtime(torch.device("cpu"), rank=0, world=1)
    assert runtime.leads
    assert runtime.device_name == "cpu"


def test_torchrun_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert world_from_environment() == (5, 1, 8)
    runtime = choose_runtime("cpu")
    assert (runtime.rank, runtime.world, runtime.leads) == (5, 8, False)


@pytest.mark.parametrize("device", ["banana", "cuda:99", ""])
def test_an_unusable_device_is_refused_in_one_line(device: str) -> None:
    with pytest.raises(ConfigError, match=r"device .* cannot be used.*Fix: choose --device") as error:
        choose_runtime(device)
    assert "\n" not in str(error.value)


def test_peak_memory_is_in_bytes() -> None:
    torch.zeros(2**22)  # 16 MiB
    assert 2**24 < choose_runtime("cpu").peak_bytes() < 2**40


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.parametrize(("call", "kept"), [("keep_freed_memory", True), ("give_large_blocks_back", False)])
def test_freed_memory_is_kept_or_given_back(call: str, kept: bool) -> None:
    script = f"""
import torch
from oelm.base import runtime
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
runtime.{call}()
before = resident()
block = torch.ones(50_000_000)
assert resident() - before > 190e6
del block
print(resident() - before > 190e6)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(kept)
