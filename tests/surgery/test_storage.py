import json

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.surgery.models import expected_frozen, tiny

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.surgery.conversion import check_frozen, conversion_of
from oelm.surgery.convert import convert
from oelm.surgery.storage import load, save


def frozen_in(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_the_config_has_one_key_more_and_it_travels(tmp_path) -> None:
    model = tiny("gpt2")
    model.save_pretrained(tmp_path / "before")
    convert(model, "oelm")
    model.save_pretrained(tmp_path / "after")  # as a trainer or push_to_hub does, without oelm.save
    before, after = (json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("before", "after"))
    assert after.pop("oelm")["method"]["name"] == "oelm"
    assert before == after
    loaded = load(tmp_path / "after")
    assert conversion_of(loaded) == conversion_of(model)
    assert frozen_in(loaded) == expected_frozen("gpt2")


def test_the_config_tells_method_seed_and_digests(tmp_path) -> None:
    model = tiny("bart")
    convert(model, "oelm-qr+matched+all-but-last=1", seed=7, attention=["cross"], train_biases=True)
    save(model, tmp_path)
    marker = json.loads((tmp_path / "config.json").read_text())["oelm"]
    assert marker["method"]["name"] == "oelm-qr+matched+all-but-last=1"
    assert (marker["method"]["pretrained"], marker["seed"], marker["attention"]) == ("qr", 7, ["cross"])
    assert set(marker["frozen"]) == frozen_in(model)
    assert all(digest.startswith("float64:") for digest in marker["frozen"].values())
    assert frozen_in(load(tmp_path)) == frozen_in(model)


def test_options_of_from_pretrained(tmp_path) -> None:
    model = tiny("bert")
    convert(model, "keep")
    save(model, tmp_path)
    loaded = load(tmp_path, dtype=torch.float32, attn_implementation="eager")
    assert loaded.dtype == torch.float32
    assert loaded.config._attn_implementation == "eager"
    assert frozen_in(loaded) == expected_frozen("bert")


def test_the_old_name_of_dtype_is_heard(tmp_path) -> None:
    model = tiny("bert")
    convert(model, "keep")
    save(model, tmp_path)
    assert load(tmp_path, torch_dtype=torch.bfloat16).dtype == torch.bfloat16
    assert load(tmp_path).dtype == torch.float64


def test_what_load_cannot_give_is_refused(tmp_path) -> None:
    model = tiny("gpt2")
    convert(model, "keep")
    save(model, tmp_path / "model")
    with pytest.raises(ConfigError, match="leave output_loading_info out"):
        load(tmp_path / "model", output_loading_info=True)
    places = dict.fromkeys(
        ("lm_head", *(f"transformer.{part}" for part in ("wte", "wpe", "h.0", "h.2", "ln_f"))), "cpu"
    )
    places["transformer.h.1"] = "disk"
    with pytest.raises(ConfigError, match=r"transformer\.h\.1\..* is not in memory.*device_map"):
        load(tmp_path / "model", device_map=places, offload_folder=str(tmp_path / "offloaded"))
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["c_attn.v"]))
    save(adapted, tmp_path / "adapter")
    with pytest.raises(CheckpointError, match=r"holds an adapter, not a model.*PeftModel\.from_pretrained"):
        load(tmp_path / "adapter")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile, about itself
def test_a_compiled_model_is_saved_as_itself(tmp_path) -> None:
    model = tiny("bert")
    convert(model, "keep")
    save(torch.compile(model), tmp_path)
    assert frozen_in(load(tmp_path)) == expected_frozen("bert")


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
    with pytest.raises(CheckpointError, match=r"oelm\.convert\(model\)"):
        load(tmp_path)
