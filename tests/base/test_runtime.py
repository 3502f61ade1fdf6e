import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from oelm.base.errors import ConfigError
from oelm.base.runtime import (
    Runtime,
    avoid_unusable_tiles,
    choose_runtime,
    generator_for,
    leaves_vectors_unused,
    processor,
    sum_dtype,
    world_from_environment,
)


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


def test_only_mps_sums_in_float32() -> None:
    kinds = ("cpu", "cuda", "mps")
    assert [sum_dtype(torch.device(kind)) for kind in kinds] == [torch.float64, torch.float64, torch.float32]


def test_torchrun_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert world_from_environment() == (5, 1, 8)
    runtime = choose_runtime("cpu")
    assert (runtime.rank, runtime.world, runtime.leads) == (5, 8, False)


@pytest.mark.parametrize("device", ["banana", "cuda:99", ""])
def test_an_unusable_device_is_refused_in_one_line(device: str) -> None:
    with pytest.raises(ConfigError, match=r"device .* cannot be used.*Fix: choose --device .*mps\.$") as error:
        choose_runtime(device)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("level", "flags", "avoided"),
    [(28, "avx512f amx_bf16 amx_tile", True), (32, "avx512f amx_bf16 amx_tile", False), (22, "avx512f", False)],
)
def test_tiles_that_are_named_but_not_described_are_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: int, flags: str, avoided: bool
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\ncpuid level\t: {level}\nflags\t\t: fpu {flags}\n")
    avoid_unusable_tiles(cpuinfo)
    assert ("ONEDNN_MAX_CPU_ISA" in os.environ) is avoided
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    avoid_unusable_tiles(cpuinfo)
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"  # the user's own word


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch computes its products without MKL")
@pytest.mark.parametrize(
    ("maker", "flags", "unused"),
    [("AuthenticAMD", "avx2 avx512f", True), ("AuthenticAMD", "avx2", False), ("GenuineIntel", "avx2 avx512f", False)],
)
def test_vectors_that_mkl_leaves_unused_are_noticed(tmp_path: Path, maker: str, flags: str, unused: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"vendor_id\t: {maker}\nmodel name\t: A CPU\nflags\t\t: fpu {flags}\n")
    assert processor(cpuinfo) == "A CPU"
    answered = hasattr(ctypes.CDLL(None), "mkl_serv_intel_cpu_true")
    assert leaves_vectors_unused(cpuinfo) is (unused and not answered)


def test_a_run_in_bf16_is_not_ended_by_an_illegal_instruction() -> None:
    product = "torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)"
    program = f"import torch; from oelm.base.runtime import choose_runtime; choose_runtime('cpu'); {product}"
    inherited = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    subprocess.run([sys.executable, "-c", program], env=inherited, check=True)


def test_peak_memory_is_in_bytes() -> None:
    torch.zeros(2**22)  # 16 MiB
    assert 2**24 < choose_runtime("cpu").peak_bytes() < 2**40


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not reset it")
def test_peak_memory_can_be_measured_anew() -> None:
    """In a process of its own: what is started inherits the peak of what starts it."""
    program = """
import torch
from oelm.base.runtime import choose_runtime
runtime = choose_runtime("cpu")
torch.ones(2**26)
runtime.reset_peak()
before = runtime.peak_bytes()
torch.ones(2**24)
print(before, runtime.peak_bytes())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = (int(number) for number in done.stdout.split())
    assert before < 2**29
    assert 2**25 < after - before < 2**28


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
