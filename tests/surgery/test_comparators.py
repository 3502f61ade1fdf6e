"""LoRA, BitFit, frozen embeddings, top layers: exactly the right weights are trained, by table and by name."""

import pytest
import torch
from tests.surgery.models import bert, bold, disagreement, gpt2, inputs, logits, tiny

from oelm.base.errors import ConfigError
from oelm.config.method import Comparator
from oelm.config.methods import parse_method
from oelm.method.cost import always_frozen, weight_counts
from oelm.method.freezing import frozen_names
from oelm.method.weights import Role
from oelm.surgery.comparators import merge, tuned
from oelm.surgery.conversion import weight_table
from oelm.surgery.convert import apply, convert


def compared(name: str, method: str) -> tuple[torch.nn.Module, set[str]]:
    """The model and the names of what the table would have the loop train."""
    model = tiny(name)
    comparator: Comparator | None = parse_method(method).comparator
    apply(model, method, seed=0, attention=None, train_biases=False)
    table = tuned(model, weight_table(model), comparator, seed=0)
    assert [weight.name for weight in table] == [tensor for tensor, _ in model.named_parameters()]
    frozen = frozen_names(None, table, 0, 10)
    assert frozen == always_frozen(None, table, 10)
    counts = weight_counts(None, table, 10)
    assert counts.frozen == sum(model.get_parameter(tensor).numel() for tensor in frozen)
    return model, {weight.name for weight in table} - frozen


HEADS = {"bert": {"classifier.weight", "classifier.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias"}}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gpt_neox", "phi3"])
def test_lora_starts_at_the_model_and_is_merged_into_it(name: str) -> None:
    before = logits(tiny(name), name)
    names_before = set(tiny(name).state_dict())
    model, trained = compared(name, "lora+rank=2")
    assert trained - HEADS.get(name, set()) == {tensor for tensor, _ in model.named_parameters() if ".lora_" in tensor}
    adapted = {tensor.split(".lora_")[0].rpartition(".")[2] for tensor in trained if ".lora_" in tensor}
    assert adapted == {"bert": {"query", "value"}, "llama": {"q_proj", "v_proj"}}.get(name, {"q", "v"})
    assert disagreement(logits(model.eval(), name), before) < 1e-9
    for tensor, parameter in model.named_parameters():
        if ".lora_B" in tensor:
            parameter.data.normal_(generator=torch.Generator().manual_seed(0))
    changed = logits(model, name)
    assert disagreement(changed, before) > 1e-3
    merge(model)
    assert disagreement(logits(model, name), changed) < 1e-9
    assert set(model.state_dict()) == names_before


def test_bitfit_trains_biases_and_the_head() -> None:
    model, trained = compared("bert", "bitfit")
    biases = {tensor for tensor, _ in model.named_parameters() if tensor.endswith("bias")}
    assert trained == biases | HEADS["bert"]
    with pytest.raises(ConfigError, match="would train nothing"):
        compared("llama", "bitfit")


def test_frozen_embeddings() -> None:
    model, trained = compared("gpt2", "frozen-embeddings")
    everything = {tensor for tensor, _ in model.named_parameters()}
    assert everything - trained == {"transformer.wte.weight", "transformer.wpe.weight"}


def test_top_layers() -> None:
    model, trained = compared("gpt2", "top-layers+top=1")
    top = {tensor for tensor, _ in model.named_parameters() if ".h.2." in tensor}
    assert trained == top | {"transformer.ln_f.weight", "transformer.ln_f.bias"}
    model, trained = compared("bert", "top-layers")
    layers = {tensor for tensor, _ in model.named_parameters() if ".layer.1." in tensor or ".layer.2." in tensor}
    assert trained == layers | HEADS["bert"]
    with pytest.raises(ConfigError, match="all of the 3 layers"):
        compared("bert", "top-layers+top=3")


@pytest.mark.parametrize(
    ("name", "norms"),
    [
        ("bart", set()),  # layernorm_embedding stands below its layers
        ("deberta-v2", set()),  # encoder.LayerNorm is read by all of them
        ("opt", {"model.decoder.final_layer_norm.weight", "model.decoder.final_layer_norm.bias"}),
        ("t5", {"decoder.final_layer_norm.weight"}),
        ("modernbert", {"model.final_norm.weight"}),
    ],
)
def test_top_layers_train_the_norm_behind_them_and_none_below(name: str, norms: set[str]) -> None:
    model, trained = compared(name, "top-layers+top=1")
    table = {weight.name: weight for weight in weight_table(model)}
    found = {each for each in trained if table[each].layer is None and table[each].role is Role.NORM}
    assert {each.removeprefix("transformer.") for each in found if "head" not in each} == norms


def test_seeds_draw_the_adapters() -> None:
    def drawn(seed: int) -> torch.Tensor:
        model = bold(bert())
        apply(model, "lora", seed=seed, attention=None, train_biases=False)
        tuned(model, weight_table(model), parse_method("lora").comparator, seed)
        return model.bert.encoder.layer[0].attention.self.query.lora_A["default"].weight

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize(
    ("method", "by_hand"),
    [
        ("lora", "peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16))"),
        ("bitfit", "all parameters but the biases and the new head"),
        ("frozen-embeddings", "requires_grad_(False) on the model's embedding layers"),
        ("top-layers+top=1", "all parameters but those of the top 1 layers and the new head"),
    ],
)
def test_convert_refuses_them_and_says_how_to_do_each(method: str, by_hand: str) -> None:
    assert inputs("gpt2")
    with pytest.raises(ConfigError, match="comparator for `oelm finetune`") as refused:
        convert(bold(gpt2()), method)
    assert f"run oelm finetune --method {method}, or" in refused.value.fix
    assert by_hand in refused.value.fix
    assert ("peft" in refused.value.fix) == (method == "lora")


def test_they_stand_for_themselves() -> None:
    for wrong in ("lora+freeze=q", "bitfit+shift", "top-layers+until=0.5"):
        with pytest.raises(ConfigError):
            parse_method(wrong)
    assert parse_method("lora+rank=4").comparator.rank == 4
    with pytest.raises(ConfigError, match="belongs to top-layers"):
        parse_method("keep+top=1")
