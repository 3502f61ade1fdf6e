import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.surgery.models import MODELS, disagreement, expected_frozen, logits, tiny

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.surgery.conversion import check_frozen, conversion_of
from oelm.surgery.convert import convert
from oelm.surgery.storage import load, save


def frozen_in(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_plain_and_comes_back_frozen(name: str, tmp_path) -> None:
    model = tiny(name)
    names_before = set(model.state_dict())
    convert(model, "oelm", seed=5)
    expected = logits(model, name)
    save(model, tmp_path)

    plain = type(model).from_pretrained(tmp_path).eval()
    assert set(plain.state_dict()) == names_before
    assert not frozen_in(plain)
    assert disagreement(logits(plain, name), expected) < 1e-9

    loaded = load(tmp_path).eval()
    assert type(loaded) is type(model)
    assert frozen_in(loaded) == expected_frozen(name)
    assert disagreement(logits(loaded, name), expected) < 1e-9
    assert conversion_of(loaded) == conversion_of(model)


def test_the_config_is_the_architectures_own(tmp_path) -> None:
    model = tiny("gpt2")
    model.save_pretrained(tmp_path / "before")
    convert(model, "oelm")
    save(model, tmp_path / "after")
    read = [json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("before", "after")]
    assert read[0] == read[1]


def test_the_sidecar_tells_method_seed_and_digests(tmp_path) -> None:
    model = tiny("bart")
    convert(model, "oelm-qr+matched+all-but-last=1", seed=7, attention=["cross"], train_biases=True)
    save(model, tmp_path)
    sidecar = json.loads((tmp_path / "oelm.json").read_text())
    assert sidecar["method"]["name"] == "oelm-qr+matched+all-but-last=1"
    assert (sidecar["method"]["pretrained"], sidecar["seed"], sidecar["attention"]) == ("qr", 7, ["cross"])
    assert set(sidecar["frozen"]) == frozen_in(model)
    assert all(digest.startswith("float64:") for digest in sidecar["frozen"].values())
    assert frozen_in(load(tmp_path)) == frozen_in(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype, tmp_path) -> None:
    model = tiny("bert").to(dtype)
    convert(model, "oelm")
    save(model, tmp_path)
    assert load(tmp_path).dtype == dtype


def test_a_changed_frozen_tensor_is_refused(tmp_path) -> None:
    model = tiny("gpt2")
    convert(model, "oelm")
    save(model, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["transformer.h.1.attn.c_attn.weight"][0, 0] += 1e-12
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FreezeError, match=r"h\.1\.attn\.c_attn\.q\.weight"):
        load(tmp_path)


def test_a_frozen_tensor_that_moved_is_not_saved(tmp_path) -> None:
    model = tiny("bert")
    convert(model, "oelm")
    check_frozen(model)
    model.bert.encoder.layer[0].attention.self.key.weight.data.mul_(1 + 1e-9)
    with pytest.raises(FreezeError, match=r"layer\.0\.attention\.self\.key\.weight has changed"):
        save(model, tmp_path)


def test_a_thawed_tensor_may_move(tmp_path) -> None:
    model = tiny("bert")
    convert(model, "oelm+until=0.5")
    model.bert.encoder.layer[0].attention.self.key.weight.data.mul_(1.5)
    save(model, tmp_path)
    assert frozen_in(load(tmp_path)) == expected_frozen("bert")


def test_unconverted_models_and_plain_folders_are_refused_with_the_fix(tmp_path) -> None:
    model = tiny("bert")
    with pytest.raises(ConfigError, match="has not been converted"):
        save(model, tmp_path)
    model.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"oelm\.convert\(model, 'keep'\)"):
        load(tmp_path)
