from pathlib import Path

import pytest
import torch

from oelm.base.errors import FreezeError
from oelm.experiments.subjects import build_model
from oelm.train.audit import audit, read_start, tensor_digests, write_start
from train.toys import tiny_config

HELD = frozenset({"layers.0.attention.q.weight", "layers.0.attention.k.weight"})
THAWED = "layers.1.attention.q.weight"


def test_it_tells_the_kinds_apart(tmp_path: Path) -> None:
    model = build_model(tiny_config())
    write_start(tmp_path / "audit.json", model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in HELD:
                parameter.add_(1e-3)
    result = audit(read_start(tmp_path / "audit.json"), model, HELD | {THAWED}, HELD)
    assert set(result.always_frozen) == HELD
    assert result.later_trained == (THAWED,)
    assert set(result.trained) == {name for name, _ in model.named_parameters()} - HELD - {THAWED}
    assert result.unchanged
    assert result.moved
    assert result.digest_before == result.digest_after


def test_one_flipped_bit_of_a_frozen_tensor_is_an_error() -> None:
    model = build_model(tiny_config())
    before = tensor_digests(model)
    query = model.get_parameter("layers.0.attention.q.weight")
    with torch.no_grad():
        query.view(torch.int32)[3, 5] ^= 1
    with pytest.raises(FreezeError, match=r"layers\.0\.attention\.q\.weight"):
        audit(before, model, HELD, HELD)


def test_a_trained_tensor_that_stood_still_is_said() -> None:
    model = build_model(tiny_config())
    assert not audit(tensor_digests(model), model, HELD, HELD).moved


@pytest.mark.parametrize("method", ["oelm-frame", "baseline"])
def test_where_nothing_is_frozen_it_does_not_say_that_frozen_weights_stayed_equal(method: str) -> None:
    model = build_model(tiny_config(method))
    assert audit(tensor_digests(model), model, frozenset(), frozenset()).unchanged is None
