"""Who is timed when."""

import time

import torch

from oelm.base.runtime import Runtime
from oelm.bench.device_peak import MatrixProduct
from oelm.bench.rounds import interleave
from oelm.config.run import Precision

CPU = Runtime(torch.device("cpu"))


def test_every_round_has_everybody_in_a_new_order():
    calls = []
    names = ("a", "b", "c", "d")
    acts = {name: lambda index, name=name: calls.append((name, index)) for name in names}
    timed = interleave(acts, rounds=8, repeats=2, runtime=CPU, product=None, emit=lambda _line: None)
    assert [index for _, index in calls] == list(range(9 * 4 * 2))
    order = [name for name, _ in calls[::2]]
    rounds = [tuple(order[start : start + 4]) for start in range(0, len(order), 4)]
    assert all(sorted(names) == sorted(one) for one in rounds)
    assert len(set(rounds)) > 4
    assert {len(seconds) for seconds in timed.rounds.values()} == {8}
    assert timed.flops_per_second == 0


def test_the_warm_up_is_told_apart():
    def slow_at_first(index: int) -> None:
        time.sleep(0.05 if index == 0 else 0.001)

    timed = interleave({"a": slow_at_first}, rounds=3, repeats=1, runtime=CPU, product=None, emit=lambda _line: None)
    assert timed.first["a"] >= 0.05
    assert timed.best["a"] == min(timed.rounds["a"])
    assert max(timed.rounds["a"]) < 0.05


def test_a_product_is_timed_beside_the_rounds(monkeypatch):
    monkeypatch.setattr("oelm.bench.device_peak.CPU_SIDE", 64)
    product = MatrixProduct(CPU, Precision.FLOAT32)
    timed = interleave({"a": lambda _i: None}, rounds=1, repeats=1, runtime=CPU, product=product, emit=lambda _l: None)
    assert timed.flops_per_second > 1e6
