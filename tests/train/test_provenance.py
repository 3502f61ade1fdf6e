import pytest
import torch

from oelm.base.runtime import Runtime
from oelm.train.provenance import environment


def test_what_is_preloaded_is_told_without_the_folders_that_name_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library put before torch may compute its matrix products otherwise, and twice as fast."""
    cpu = Runtime(torch.device("cpu"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert "preloaded" not in environment(cpu).model_dump()
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/products.so:libjemalloc.so")
    assert environment(cpu).preloaded == "products.so libjemalloc.so"
