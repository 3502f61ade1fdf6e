"""What each method writes and freezes, and what is refused; every architecture is in test_architectures.py."""

import peft
import pytest
import torch
import transformers
from tests.surgery.models import (
    FEW,
    bert,
    bert_decoder,
    bold,
    disagreement,
    expected_frozen,
    gpt2,
    inputs,
    logits,
    tiny,
)
from torch import Tensor, nn

from oelm.base.errors import ConfigError, FreezeError
from oelm.config.methods import METHODS
from oelm.method.cost import weight_counts
from oelm.method.freezing import frozen_names
from oelm.method.geometry import cross_head_overlap, gram_error, row_norm
from oelm.method.weights import Role
from oelm.surgery.conversion import check_frozen, weight_table
from oelm.surgery.convert import convert
from oelm.surgery.sites import open_sites

few_architectures = pytest.mark.parametrize("name", FEW)


def frozen_in(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@few_architectures
@pytest.mark.parametrize("method", ["oelm", "oelm-qr", "oelm-polar", "oelm-global", "oelm-qr+matched"])
def test_heads_are_orthogonal_on_the_built_model(name: str, method: str) -> None:
    model = tiny(name)
    audit = convert(model, method)
    assert audit.worst_gram_error < 1e-12
    for site in open_sites(model):
        for side in (site.query, site.key):
            for w_KD in side.w_HKD:
                assert gram_error(w_KD.unsqueeze(0)) < 1e-12
            assert interleaved_gram_error(side.w_HKD) > 0.1 or method == "oelm-global"


def interleaved_gram_error(w_HKD: Tensor) -> float:
    """The twin: heads read as every H-th row."""
    heads, head_width, width = w_HKD.shape
    wrong_HKD = w_HKD.reshape(head_width, heads, width).transpose(0, 1)
    return gram_error(wrong_HKD / wrong_HKD.square().sum(2).mean(1).sqrt().view(-1, 1, 1))


def test_global_is_orthogonal_across_heads() -> None:
    for method, overlaps in (("oelm-global", False), ("oelm", True)):
        model = tiny("bert")
        convert(model, method)
        overlap = cross_head_overlap(open_sites(model)[0].query.w_HKD)
        assert (overlap > 0.05) is overlaps


def test_gpt2_parts_are_q_k_v_in_this_order() -> None:
    model = tiny("gpt2")
    fused = model.transformer.h[0].attn.c_attn.weight.detach().clone()
    convert(model, "keep")
    split = model.transformer.h[0].attn.c_attn
    parts = [split.q.weight, split.k.weight, split.v.weight]
    assert torch.equal(torch.cat([part.T for part in parts], dim=1), fused)
    assert not torch.equal(torch.cat([part.T for part in reversed(parts)], dim=1), fused)


@pytest.mark.parametrize("cache", [True, False])
def test_gpt2_generates_as_before(cache: bool) -> None:
    model = tiny("gpt2")
    prompt = inputs("gpt2")["input_ids"]
    settings = {"max_new_tokens": 12, "use_cache": cache, "eos_token_id": None, "pad_token_id": 0}
    before = model.generate(prompt, do_sample=False, **settings)
    beams = model.generate(prompt, do_sample=False, num_beams=3, **settings)
    convert(model, "keep")
    assert torch.equal(model.generate(prompt, do_sample=False, **settings), before)
    assert torch.equal(model.generate(prompt, do_sample=False, num_beams=3, **settings), beams)


@pytest.mark.parametrize("build", [bert_decoder, lambda: gpt2(add_cross_attention=True)], ids=["bert", "gpt2"])
def test_cross_attention_of_a_decoder_is_found(build) -> None:
    model = bold(build())
    generator = torch.Generator().manual_seed(0)
    outside = torch.randn(2, 5, 24, dtype=torch.float64, generator=generator)
    given = {**inputs("gpt2"), "encoder_hidden_states": outside}
    before = model(**given).logits.detach()
    audit = convert(model, "keep")
    assert len(audit.sites) == 6
    assert disagreement(model(**given).logits.detach(), before) < 1e-9
    convert(model, "oelm", attention=["cross"])
    assert all("crossattention" in tensor for tensor in frozen_in(model))
    assert len(frozen_in(model)) == 3 * 4


@pytest.mark.parametrize(
    ("kinds", "parts"),
    [
        (["encoder"], ["encoder.layers"]),
        (["decoder"], ["decoder.layers", "self_attn"]),
        (["cross"], ["encoder_attn"]),
        (["encoder", "cross"], None),
    ],
)
def test_kinds_of_attention_are_selectable(kinds: list[str], parts: list[str] | None) -> None:
    model = tiny("bart")
    untouched = {name: p.detach().clone() for name, p in model.named_parameters()}
    convert(model, "oelm", attention=kinds)
    frozen = frozen_in(model)
    counts = {"encoder": 8, "decoder": 12, "cross": 12}
    assert len(frozen) == sum(counts[kind] for kind in kinds)
    if parts:
        assert all(part in name for name in frozen for part in parts)
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, untouched[name])}
    assert changed == {name for name in frozen if name.endswith("weight")}


def test_scale_of_the_original_is_unit_rows_and_t5_carries_the_missing_division() -> None:
    bert_model, t5_model = tiny("bert"), tiny("t5")
    for method in ("oelm", "oelm-qr", "oelm-polar"):
        convert(bert_model, method)
        convert(t5_model, method)
        site = open_sites(bert_model)[0]
        assert [row_norm(site.query.w_HKD), row_norm(site.key.w_HKD)] == pytest.approx([1, 1])
        for site in open_sites(t5_model):
            assert [row_norm(site.query.w_HKD), row_norm(site.key.w_HKD)] == pytest.approx([5**-0.5, 1])


def test_random_as_original_and_matched() -> None:
    model = bold(bert())
    before = [row_norm(head.unsqueeze(0)) for head in open_sites(model)[1].query.w_HKD]
    convert(model, "oelm-random-matched")
    after = [row_norm(head.unsqueeze(0)) for head in open_sites(model)[1].query.w_HKD]
    assert after == pytest.approx(before, rel=0.35)  # 6 rows of 24 normal entries: in expectation
    convert(model, "oelm-random")
    assert row_norm(open_sites(model)[1].query.w_HKD) == pytest.approx(0.02 * 24**0.5, rel=0.2)


@few_architectures
@pytest.mark.parametrize("method", ["oelm", "oelm-qr", "oelm-polar"])
def test_matched_heads_keep_their_pretrained_size(name: str, method: str) -> None:
    model = tiny(name)
    before = [row_norm(head.unsqueeze(0)) for site in open_sites(model) for head in site.query.w_HKD]
    convert(model, f"{method}+matched")
    after = [row_norm(head.unsqueeze(0)) for site in open_sites(model) for head in site.query.w_HKD]
    assert after == pytest.approx(before)


def test_draws_depend_on_the_seed_and_not_on_the_head_of_the_model() -> None:
    classifier, bare = tiny("bert"), bold(transformers.BertModel(bert().config))
    other = tiny("bert")
    convert(classifier, "oelm", seed=3)
    convert(bare, "oelm", seed=3)
    convert(other, "oelm", seed=4)
    q_of = [open_sites(model)[2].query.w_HKD for model in (classifier, bare, other)]
    assert torch.equal(q_of[0], q_of[1])
    assert not torch.equal(q_of[0], q_of[2])


def test_biases_may_train() -> None:
    model = tiny("bert")
    convert(model, "oelm", train_biases=True)
    assert frozen_in(model) == {name for name in expected_frozen("bert") if name.endswith("weight")}


def test_only_what_the_plan_freezes_is_rewritten() -> None:
    model = tiny("bert")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    convert(model, "oelm+layers=1")
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {f"bert.encoder.layer.1.attention.self.{side}.weight" for side in ("query", "key")}
    model = tiny("bert")
    convert(model, "oelm+freeze=q")
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {f"bert.encoder.layer.{i}.attention.self.query.weight" for i in range(3)}


def test_layers_of_a_decoder_follow_on_its_encoder() -> None:
    model = tiny("bart")
    convert(model, "oelm+all-but-last=1")
    thawed = expected_frozen("bart") - frozen_in(model)
    assert thawed == {name for name in expected_frozen("bart") if "decoder.layers.2." in name}


def test_baseline_changes_nothing_and_trained_methods_rewrite_everything() -> None:
    model = tiny("bert")
    before = logits(model, "bert")
    audit = convert(model, "baseline")
    assert not frozen_in(model)
    assert torch.equal(logits(model, "bert"), before)
    assert "nothing frozen" in str(audit)
    audit = convert(model, "orthogonal-trained")
    assert not frozen_in(model)
    assert audit.worst_gram_error < 1e-12
    assert all(site.query.written and site.key.written for site in audit.sites)


def test_converting_again_thaws_what_the_first_conversion_froze_and_nothing_else() -> None:
    model = tiny("bert")
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    audit = convert(model, "oelm")
    assert audit.frozen_otherwise == model.bert.embeddings.word_embeddings.weight.numel()
    convert(model, "keep+layers=0")
    assert frozen_in(model) == {
        "bert.embeddings.word_embeddings.weight",
        *(name for name in expected_frozen("bert") if ".layer.0." in name),
    }


@pytest.mark.parametrize("method", ["oelm+tied", "oelm+rolled", "oelm-polar+tied"])
def test_shared_keys_are_stored_twice_and_equal(method: str) -> None:
    model = tiny("bert")
    convert(model, method)
    site = open_sites(model)[0]
    order = [0, 2, 2, 0] if "rolled" in method else [0, 1, 2, 3]
    assert torch.equal(site.key.w_HKD, site.query.w_HKD[order])


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2"])
def test_whole_ffn(name: str) -> None:
    model = tiny(name)
    convert(model, "oelm-ffn")
    ffn = {weight.name for weight in weight_table(model) if weight.role is Role.FFN}
    assert len(ffn) == {"bert": 12, "t5": 10, "gpt2": 12}[name]
    assert frozen_in(model) == expected_frozen(name) | ffn


@few_architectures
@pytest.mark.parametrize("method", ["oelm", "keep+until=0.5", "oelm-qr+all-but-last=1", "baseline"])
def test_the_table_names_every_parameter_and_freezes_the_same(name: str, method: str) -> None:
    model = tiny(name)
    audit = convert(model, method)
    table = weight_table(model)
    plan = audit.operation.method.plan
    assert [weight.name for weight in table] == [tensor for tensor, _ in model.named_parameters()]
    assert frozen_names(plan, table, 0, 100) == frozen_in(model)
    if method == "keep+until=0.5":
        assert frozen_names(plan, table, 50, 100) == frozenset()
    counts = weight_counts(plan, table, 100)
    assert (counts.trained, counts.frozen) == (audit.trained, audit.frozen)
    roles = {weight.role for weight in table}
    assert {Role.QUERY, Role.KEY, Role.VALUE, Role.OUTPUT, Role.FFN, Role.NORM} <= roles
    assert name == "clip" or Role.TOKEN_EMBEDDING in roles


def test_bert_base_counts_of_the_original() -> None:
    with torch.device("meta"):
        model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=3))
    # On the meta device there is nothing to rewrite; `keep` freezes the same tensors.
    total = sum(p.numel() for p in model.parameters())
    sites = open_sites(model)
    frozen = sum(p.numel() for site in sites for side in (site.query, site.key) for p in side.linear.parameters())
    assert (total, frozen, total - frozen) == (109_484_547, 14_174_208, 95_310_339)


@pytest.mark.slow
def test_bert_base_converted() -> None:
    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=3))
    audit = convert(model, "oelm-qr")
    assert (audit.total, audit.frozen, audit.trained) == (109_484_547, 14_174_208, 95_310_339)
    assert audit.worst_gram_error < 1e-5
    assert "109,484,547 weights: 95,310,339 trained, 14,174,208 frozen (12.9%)" in str(audit)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("oelm+thin=4", "Q/K width of its own"),
        ("oelm+one-draw", "one draw, which is for models from scratch"),
        ("oelm+freeze=0.25", "cannot be frozen in part"),
        ("orthogonal-trained+tied", "training would part them"),
        ("oelm+tied+until=0.5", "training would part them"),
        ("keep+tied", "cannot be tied"),
        ("oelm-best", "unknown method.*baseline, oelm.*keep, oelm-qr, oelm-polar, oelm-exact"),
        ("oelm+layers=9", "there is no layer 9"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(method: str, problem: str) -> None:
    model = tiny("gpt2")
    before = logits(model, "gpt2")
    with pytest.raises((ConfigError, FreezeError), match=problem):
        convert(model, method)
    assert not frozen_in(model)
    assert disagreement(logits(model, "gpt2"), before) < 1e-12


def test_shared_keys_need_pairs() -> None:
    with pytest.raises(ConfigError, match="4 query heads share 2 key heads"):
        convert(tiny("llama"), "oelm+tied")


def test_too_many_orthogonal_rows_are_refused() -> None:
    config = transformers.T5Config(
        vocab_size=20, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config)
    with pytest.raises(ConfigError, match="no room for 32 orthogonal rows of width 16"):
        convert(model, "oelm-global")
    convert(model, "oelm")


@pytest.mark.parametrize(("name", "kind"), [("bert", "cross"), ("gpt2", "encoder")])
def test_attention_that_is_not_there_is_an_error(name: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"no {kind} attention"):
        convert(tiny(name), "oelm", attention=[kind])


@pytest.mark.parametrize("kinds", ["cross", ["self"], []])
def test_unknown_kinds_of_attention_are_refused(kinds) -> None:
    with pytest.raises(ConfigError, match="give a list of: encoder, decoder, cross"):
        convert(tiny("bart"), "oelm", attention=kinds)


def test_a_method_may_be_given_as_a_value() -> None:
    by_name, by_value = tiny("bert"), tiny("bert")
    convert(by_name, "oelm")
    convert(by_value, METHODS["oelm"])
    assert torch.equal(logits(by_name, "bert"), logits(by_value, "bert"))
    convert(by_value, METHODS["baseline"])
    assert torch.equal(logits(by_name, "bert"), logits(by_value, "bert"))
    assert not frozen_in(by_value)


def test_a_wrapped_projection_is_refused() -> None:
    model = tiny("bert")
    model.bert.encoder.layer[1].attention.self.query = nn.Sequential(nn.Linear(24, 24))
    with pytest.raises(ConfigError, match="convert the model before adapters"):
        convert(model, "oelm")


def test_what_is_no_model_of_transformers_is_refused() -> None:
    with pytest.raises(ConfigError, match="this is a Linear, not a transformers model"):
        convert(nn.Linear(3, 3), "oelm")  # type: ignore[arg-type]


def test_the_audit_prints_what_was_done() -> None:
    text = str(convert(tiny("bart"), "oelm-polar+matched"))
    assert "oelm-polar+matched on BartForConditionalGeneration, seed 0" in text
    assert "attention found: 2 encoder, 3 decoder, 3 cross" in text
    assert "nearest orthogonal frame per head, rows as long as the pre-trained ones; Q and K frozen, always" in text
    assert text.count("written, frozen") == 16


@pytest.mark.slow
@pytest.mark.parametrize("wrap", ["compile", "peft", "adapter", "nothing of transformers"])
@pytest.mark.filterwarnings("ignore:Could not find a config file:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile, about itself
def test_a_wrapped_model_is_refused_with_the_order(wrap: str) -> None:
    model = tiny("bert")
    lora = peft.LoraConfig(r=2, target_modules=["value"])
    if wrap == "compile":
        model = torch.compile(model)
    elif wrap == "peft":
        model = peft.get_peft_model(model, lora)
    elif wrap == "adapter":
        model.add_adapter(lora)
    else:
        model = nn.DataParallel(model)
    fix = {
        "compile": r"then torch\.compile",
        "peft": r"then peft\.get_peft_model",
        "adapter": r"then peft\.get_peft_model",
        "nothing of transformers": "give the model itself",
    }
    with pytest.raises(ConfigError, match=fix[wrap]):
        convert(model, "keep")


class Int8Linear(nn.Linear):
    """A linear layer as quantising libraries make them: whole numbers, and a scale for each row."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, device="meta")
        scale = plain.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((plain.weight.detach() / scale).round().to(torch.int8), requires_grad=False)
        self.bias = plain.bias
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


class Int8Tensor(Tensor):
    """A weight as torchao makes them: a tensor that says it is of floats, and knows the product and little else."""

    @staticmethod
    def __new__(cls, whole: Tensor, scale: Tensor) -> "Int8Tensor":
        return Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)

    def __init__(self, whole: Tensor, scale: Tensor) -> None:
        self.whole, self.scale = whole, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["whole", "scale"], None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, weight.whole.to(x.dtype) * weight.scale, bias)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        raise NotImplementedError(function)


def int8_weight(plain: nn.Linear) -> nn.Linear:
    quantised = Int8Linear(plain)
    plain.weight = nn.Parameter(Int8Tensor(quantised.weight.data, quantised.scale), requires_grad=False)
    return plain


@pytest.mark.parametrize("quantised", [Int8Linear, int8_weight], ids=["layer", "tensor"])
def test_a_quantised_model_can_be_kept_and_nothing_else(quantised) -> None:
    model = tiny("bert")
    for layer in model.bert.encoder.layer:
        for name in ("query", "key", "value"):
            setattr(layer.attention.self, name, quantised(getattr(layer.attention.self, name)))
    before = logits(model, "bert")
    with pytest.raises(ConfigError, match=r"query is quantised.*take keep"):
        convert(model, "oelm-polar")
    audit = convert(model, "keep")
    assert torch.equal(logits(model, "bert"), before)
    assert set(audit.frozen_names) == expected_frozen("bert")
    assert "nan" in str(audit)
    logits_now = model(**inputs("bert")).logits
    logits_now.sum().backward()
    assert model.bert.encoder.layer[0].attention.self.query.bias.grad is None
    assert model.bert.encoder.layer[0].attention.self.value.bias.grad is not None
    check_frozen(model)
    weight = model.bert.encoder.layer[1].attention.self.key.weight
    getattr(weight, "whole", weight).data[0, 0] += 1
    with pytest.raises(FreezeError, match=r"layer\.1\.attention\.self\.key\.weight has changed"):
        check_frozen(model)


def test_a_quantised_fused_weight_cannot_be_split() -> None:
    model = tiny("phi3")
    model.model.layers[0].self_attn.qkv_proj = Int8Linear(model.model.layers[0].self_attn.qkv_proj)
    with pytest.raises(ConfigError, match=r"qkv_proj is a Int8Linear.*llm_int8_skip_modules=\['qkv_proj'\]"):
        convert(model)


class Buffers(nn.Module):
    """A linear layer as GPTQ and AWQ make them: without a parameter."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.register_buffer("qweight", plain.weight.detach().round().to(torch.int8))


@pytest.mark.parametrize("method", ["keep", "keep+core", "oelm"])
def test_a_quantised_model_without_parameters_needs_no_conversion(method: str) -> None:
    model = tiny("llama")
    for layer in model.model.layers:
        layer.self_attn.q_proj, layer.self_attn.k_proj = (
            Buffers(layer.self_attn.q_proj),
            Buffers(layer.self_attn.k_proj),
        )
    with pytest.raises(ConfigError, match=r"q_proj is quantised \(Buffers\) into buffers.*go on without"):
        convert(model, method)


def test_weights_that_are_not_in_memory_are_refused() -> None:
    with torch.device("meta"):
        model = gpt2()
    with pytest.raises(ConfigError, match=r"wte\.weight is not in memory: it was offloaded"):
        convert(model)


def test_the_default_keeps_and_the_others_warn_and_measure(tmp_path, recwarn) -> None:
    tiny("gpt2").save_pretrained(tmp_path)
    batch = {**inputs("gpt2"), "labels": inputs("gpt2")["input_ids"]}

    def loaded() -> transformers.PreTrainedModel:
        return transformers.GPT2LMHeadModel.from_pretrained(tmp_path)

    for harmless in (None, "oelm-exact", "baseline"):
        audit = convert(loaded(), probe=batch) if harmless is None else convert(loaded(), harmless, probe=batch)
        assert audit.damage.change < 1e-9
        assert audit.damage.loss_after == pytest.approx(audit.damage.loss_before)
        assert "on the probe batch: logits changed by" in str(audit)
        convert(loaded(), harmless or "keep")
    with pytest.warns(
        UserWarning, match=r"oelm has changed what this GPT2LMHeadModel computes: logits changed by .*loss"
    ):
        audit = convert(loaded(), "oelm", probe=batch)
    assert audit.damage.change > 0.1
    assert audit.damage.loss_after != pytest.approx(audit.damage.loss_before, rel=1e-3)
    for method in ("oelm", "oelm-polar+matched", "oelm-exact+equal"):
        with pytest.warns(UserWarning, match="give probe=batch"):
            convert(loaded(), method)
    convert(tiny("gpt2"), "oelm")  # built from a config: nothing to lose


def test_a_probe_needs_an_answer_and_leaves_the_mode_alone() -> None:
    model = tiny("bert").train()
    with pytest.warns(UserWarning, match="has changed"):
        convert(model, "oelm", probe=inputs("bert"))
    assert model.training
    model.bert.embeddings.eval()
    convert(model, probe=inputs("bert"))
    assert [model.training, model.bert.training, model.bert.embeddings.training] == [True, True, False]
    with pytest.raises(ConfigError, match="the probe batch is a Tensor, not inputs by name"):
        convert(model, probe=inputs("bert")["input_ids"])
    bare = bold(transformers.BertModel(bert().config))
    assert convert(bare, probe=inputs("bert")).damage.of == "hidden states"
