import copy
import pickle

import torch
from tests.surgery.models import disagreement, logits, tiny

from oelm.surgery.convert import convert


def test_a_split_model_has_the_state_dict_of_a_fused_one() -> None:
    model = tiny("gpt2")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    convert(model, "keep")
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert "transformer.h.0.attn.c_attn.q.weight" in dict(model.named_parameters())


def test_a_split_model_loads_a_fused_state_dict() -> None:
    source, target = tiny("gpt2"), tiny("gpt2")
    convert(target, "oelm")
    assert disagreement(logits(target, "gpt2"), logits(source, "gpt2")) > 1e-3
    result = target.load_state_dict(source.state_dict())
    assert not result.missing_keys
    assert not result.unexpected_keys
    assert disagreement(logits(target, "gpt2"), logits(source, "gpt2")) < 1e-9


def test_split_models_can_be_copied_and_pickled() -> None:
    model = tiny("gpt2")
    convert(model, "oelm")
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.state_dict().keys() == model.state_dict().keys()
        assert disagreement(logits(twin, "gpt2"), logits(model, "gpt2")) == 0
        twin.transformer.h[0].attn.c_attn.v.weight.data.zero_()
        assert not torch.equal(
            twin.state_dict()["transformer.h.0.attn.c_attn.weight"],
            model.state_dict()["transformer.h.0.attn.c_attn.weight"],
        )


def test_splitting_keeps_what_the_user_froze() -> None:
    model = tiny("gpt2")
    model.requires_grad_(False)
    audit = convert(model, "keep+layers=0")
    assert audit.trained == 0
