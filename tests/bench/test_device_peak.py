"""Peaks by name, and nothing for a name that is only similar."""

import pytest
import torch

from oelm.base.runtime import Runtime
from oelm.bench.device_peak import listed_peak, runtime_peak
from oelm.config.run import Precision


@pytest.mark.parametrize(
    ("name", "precision", "tf32", "tera"),
    [
        ("NVIDIA A100-SXM4-40GB", Precision.BF16, False, 312.0),
        ("NVIDIA A100-SXM4-80GB", Precision.FLOAT32, True, 156.0),
        ("NVIDIA A100 80GB PCIe", Precision.FLOAT32, False, 19.5),
        ("NVIDIA A10", Precision.BF16, False, 125.0),
        ("NVIDIA H100 80GB HBM3", Precision.BF16, False, 989.4),
        ("NVIDIA H100 PCIe", Precision.BF16, False, 756.0),
        ("Tesla V100-SXM2-16GB", Precision.FLOAT32, True, 15.7),
        ("Tesla T4", Precision.FLOAT32, False, 8.1),
        ("NVIDIA L4", Precision.BF16, False, 121.0),
        ("NVIDIA GeForce RTX 3090", Precision.FLOAT32, False, 35.6),
        ("NVIDIA GeForce RTX 4090", Precision.BF16, False, 165.2),
    ],
)
def test_peaks_of_data_sheets(name, precision, tf32, tera):
    peak = listed_peak(name, precision, tf32=tf32)
    assert peak is not None
    assert peak.flops_per_second == pytest.approx(tera * 1e12)
    assert peak.source.startswith("data sheet")


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("NVIDIA A10G", Precision.BF16),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", Precision.BF16),
        ("NVIDIA GeForce RTX 3090 Ti", Precision.BF16),
        ("Somebody's GPU", Precision.FLOAT32),
        ("Tesla T4", Precision.BF16),  # has no bf16 units
        ("NVIDIA A100-SXM4-40GB", Precision.FLOAT64),
    ],
)
def test_what_is_not_listed_is_measured(name, precision):
    assert listed_peak(name, precision, tf32=False) is None


def test_a_cpu_is_measured_and_says_so():
    peak = runtime_peak(Runtime(torch.device("cpu")), Precision.BF16, 5e10)
    assert peak.flops_per_second == 5e10
    assert peak.source == "measured: a 2048 x 2048 float32 product"
