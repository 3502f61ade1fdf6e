"""Extras inside Hugging Face attention: the same logits as our own GPT, and twins that must not have them."""

import copy
import re
from pathlib import Path

import peft
import pytest
import torch
import torch.nn.functional as F
import transformers
from tests.builders import LLAMA, SMALL, bold_model, embolden, random_tokens, relative_error
from tests.model.test_llama import exact
from tests.surgery.models import MODELS, bert, decoder, disagreement, expected_frozen, inputs, logits, rounding, tiny
from torch import Tensor, nn

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.config.model import GPTConfig
from oelm.evaluate.generation import Sampling, generate
from oelm.exports.model_export import as_transformers
from oelm.method.extras import SIDES, rows_of
from oelm.method.geometry import gram_error
from oelm.method.weights import QUERY_KEY_SIDE
from oelm.surgery.architectures import ROTARY, architecture_named
from oelm.surgery.conversion import check_frozen, weight_table
from oelm.surgery.convert import convert
from oelm.surgery.sites import open_sites
from oelm.surgery.storage import load, save

EXTRAS = ("shift", "gain", "norm", "bias", "core", "rank=2", "shift+norm+bias+core+rank=2")
FRAMES = ("oelm-frame", "oelm-lowrank", "oelm-frame+core+rolled+strided")
ATTENTION = {SMALL.style: "transformer.h.{}.attn.oelm.", LLAMA.style: "model.layers.{}.self_attn.oelm."}


def added(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if ".oelm." in name}


def equipped_like(method: str, config: GPTConfig) -> tuple[nn.Module, transformers.PreTrainedModel]:
    """Our GPT with extras, and the same without them exported, converted and given the same tensors."""
    ours, theirs = bold_model(method, config), exact(as_transformers(bold_model("oelm", config)))
    assert isinstance(theirs, transformers.PreTrainedModel)
    convert(theirs, method.replace("oelm+", "keep+"))
    copied = 0
    for layer, block in enumerate(ours.blocks):
        for name, parameter in block.attention.named_parameters():
            if name not in {f"{matrix}.weight" for matrix in "qkvo"}:
                theirs.get_parameter(ATTENTION[config.style].format(layer) + name).data.copy_(parameter)
                copied += 1
    assert copied == len(added(theirs))
    return ours, theirs


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("method", [*(f"oelm+{extras}" for extras in EXTRAS), *FRAMES])
def test_logits_are_those_of_our_gpt(method: str, config: GPTConfig) -> None:
    ours, theirs = equipped_like(method, config)
    plain, tokens = bold_model("oelm", config), random_tokens(config, 2, 12)
    with torch.no_grad():
        assert relative_error(theirs(tokens).logits, ours(tokens)) < 1e-9
        assert relative_error(plain(tokens), ours(tokens)) > 1e-3, "the twin without extras"


def attention_by_the_rows(model: nn.Module, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """The first layer of a BERT, with the definition of extras instead of hooks."""
    site = open_sites(model)[0]
    attention = model.get_submodule(site.module)
    own, heads = dict(attention.oelm.named_parameters()), []
    for side, projector in zip(SIDES, site.sides, strict=True):
        y_BTE = F.linear(x_BTD, projector.linear.weight, projector.linear.bias)
        y_BTHK = y_BTE.unflatten(-1, (4, 6))
        for row in attention.oelm.rows:
            y_BTHK = row.enter(side, y_BTHK, x_BTD, own)
        heads.append(y_BTHK.transpose(1, 2))
    v_BHTK = attention.value(x_BTD).unflatten(-1, (4, 6)).transpose(1, 2)
    y_BHTK = F.scaled_dot_product_attention(*heads, v_BHTK, attn_mask=mask_BT[:, None, None, :].bool())
    return y_BHTK.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("extras", EXTRAS)
def test_bert_attends_as_the_rows_say(extras: str) -> None:
    model = tiny("bert")
    convert(model, f"keep+{extras}")
    embolden(nn.ParameterList(added(model).values()))
    tokens, mask_BT = inputs("bert")["input_ids"], torch.ones(2, 11, dtype=torch.long)
    mask_BT[1, 7:] = 0
    seen: dict[str, Tensor] = {}
    attention = model.bert.encoder.layer[0].attention.self
    attention.register_forward_hook(lambda _m, args, kwargs, out: seen.update(x=args[0], y=out[0]), with_kwargs=True)
    with torch.no_grad():
        model(input_ids=tokens, attention_mask=mask_BT)
        assert relative_error(seen["y"], attention_by_the_rows(model, seen["x"], mask_BT)) < 1e-12
        for parameter in added(model).values():
            parameter.zero_()
        if added(model):
            assert relative_error(attention_by_the_rows(model, seen["x"], mask_BT), seen["y"]) > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_takes_them_or_says_why_not(name: str) -> None:
    """What starts as nothing changes nothing; a key shift of m = 0 neither, whatever the shapes inside."""
    model = tiny(name)
    before, between = logits(model, name), architecture_named(name).between
    if between not in ("", ROTARY):
        with pytest.raises(ConfigError, match=f"{between} stand between"):
            convert(model, "keep+gain")
        return
    convert(model, "keep+shift+gain+bias+core+rank=2")
    extras, shifts = added(model), [p for n, p in added(model).items() if n.endswith("shift_H")]
    assert disagreement(logits(model, name), before) > 1e-3
    for shift_H in shifts:
        shift_H.data.fill_(-1e3)
    assert disagreement(logits(model, name), before) < rounding(name)
    table = {weight.name: weight for weight in weight_table(model)}
    assert table.keys() == dict(model.named_parameters()).keys()
    assert all(table[n].role in QUERY_KEY_SIDE and table[n].count == p.numel() for n, p in extras.items())
    assert all(table[n].layer is not None for n in extras)


def test_grouped_queries_have_tensors_by_their_own_heads() -> None:
    model = tiny("llama")
    convert(model, "keep+shift+gain+core+rank=2")
    sizes = {name.split(".oelm.")[1]: tuple(p.shape) for name, p in added(model).items() if ".0." in name}
    assert (sizes["gain_H"], sizes["core_HKK"], sizes["shift_H"]) == ((4,), (4, 6, 6), (2,))
    assert (sizes["q_update.up.weight"], sizes["k_update.up.weight"]) == ((24, 2), (12, 2))


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, "keep+shift+gain+bias+core+rank=2") for name in ("bert", "gpt2", "llama")), ("gpt2", "oelm-lowrank")],
)
def test_train_save_load(name: str, method: str, tmp_path: Path) -> None:
    model = tiny(name)
    convert(model, method)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(3):  # B is zero at first, so A learns in the second step only
        logits_of(model, name).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    still = {n for n, p in model.named_parameters() if p.numel() and torch.equal(p, start[n])}
    assert still == {n for n, p in model.named_parameters() if not p.requires_grad}
    save(model, tmp_path)
    loaded = load(tmp_path).eval()
    assert type(loaded) is type(model)
    assert disagreement(logits(loaded, name), logits(model, name)) < 1e-12
    assert disagreement(logits(copy.deepcopy(model), name), logits(model, name)) == 0
    plain = type(model).from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert disagreement(logits(plain, name), logits(model, name)) > 1e-3
    for other in (plain, model):
        with pytest.raises(ConfigError, match=rf"converted before, as {re.escape(method)},.*oelm\.load"):
            convert(other, "keep")


def logits_of(model: transformers.PreTrainedModel, name: str) -> Tensor:
    return model(**inputs(name)).logits


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    model = tiny("bert")
    convert(model, "keep+gain")
    state = {name: tensor for name, tensor in model.state_dict().items() if ".oelm." not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(CheckpointError, match=r"lacks .*oelm\.gain_H.*3 such tensors"):
        load(tmp_path)


GREEDY = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("extras", ["core+gain+norm", "shift+gain+bias+rank=2"])
def test_generation_with_cache_padding_and_beams(extras: str, config: GPTConfig) -> None:
    """Alone, as our GPT; in a batch padded on the left, as alone; with beams, as without the cache."""
    ours, theirs = equipped_like(f"oelm+{extras}", config)
    prompt = random_tokens(config, 1, 5)[0].tolist()
    expected = [
        list(generate(ours, prompt[skipped:], tokens=6, sampling=Sampling(temperature=0))) for skipped in (0, 2)
    ]
    for cached in (True, False):
        alone = theirs.generate(torch.tensor([prompt]), **GREEDY, use_cache=cached)
        assert alone[0, 5:].tolist() == expected[0]
    batch = torch.tensor([prompt, [0, 0, *prompt[2:]]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    for cached in (True, False):
        together = theirs.generate(batch, attention_mask=mask, **GREEDY, use_cache=cached)
        assert together[:, 5:].tolist() == expected
    static = {"cache_implementation": "static", "disable_compile": True}
    assert theirs.generate(batch, attention_mask=mask, **GREEDY, **static)[:, 5:].tolist() == expected
    beams = [
        theirs.generate(batch, attention_mask=mask, **GREEDY, num_beams=3, use_cache=each) for each in (True, False)
    ]
    assert torch.equal(*beams)


def test_a_mask_given_by_its_place_is_seen() -> None:
    _, theirs = equipped_like("oelm+shift", LLAMA)
    tokens, mask = random_tokens(LLAMA, 2, 6), torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    with torch.no_grad():
        by_place = theirs.model(tokens, mask).last_hidden_state[0, 2:]
        by_name = theirs.model(input_ids=tokens, attention_mask=mask).last_hidden_state[0, 2:]
        unmasked = theirs.model(tokens).last_hidden_state[0, 2:]
    assert torch.equal(by_place, by_name)
    assert not torch.allclose(unmasked, by_name)


@pytest.mark.filterwarnings("ignore")  # transformers turns the cache off, and says so
@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt2", "llama"])
def test_checkpointing_computes_again_where_its_own_texts_began(config: GPTConfig) -> None:
    """Two forward passes with other padding before one backward pass, as in a preference loss."""
    tokens, full = random_tokens(config, 2, 8), torch.ones(2, 8, dtype=torch.long)
    padded = full.clone()
    padded[0, :3] = 0

    def gradients(*, checkpointing: bool) -> dict[str, Tensor]:
        _, theirs = equipped_like("oelm+shift", config)
        theirs.train()
        if checkpointing:
            theirs.gradient_checkpointing_enable()
        one, other = (theirs(tokens, attention_mask=mask, labels=tokens).loss for mask in (padded, full))
        (one - 2 * other).backward()
        return {name: each.grad for name, each in theirs.named_parameters() if each.grad is not None}

    plain, checkpointed = gradients(checkpointing=False), gradients(checkpointing=True)
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        assert torch.allclose(checkpointed[name], gradient, rtol=1e-9, atol=1e-12), name


def test_a_cache_that_lacks_the_key_before_is_refused() -> None:
    _, theirs = equipped_like("oelm+shift", SMALL)
    tokens = random_tokens(SMALL, 1, 6)
    with torch.no_grad():
        cache = theirs(tokens, use_cache=True).past_key_values
        whole = theirs(torch.cat([tokens, tokens], 1)).logits[:, 6:]
        assert relative_error(theirs(tokens, past_key_values=copy.deepcopy(cache)).logits, whole) < 1e-9
    cache.crop(-2)
    with pytest.raises(ConfigError, match="filled or cut by what does not keep it"):
        theirs(tokens, past_key_values=cache)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_padding_on_the_left_of_an_encoder_changes_nothing(name: str) -> None:
    """Neither in its own attention nor in what the decoder reads of it."""
    model = tiny(name)
    if name == "bart":  # whose positions are counted from the left, padding included
        positions = model.model.encoder.embed_positions.weight.data
        positions[:] = positions[0].clone()
    convert(model, "keep+shift")
    embolden(nn.ParameterList(added(model).values()))
    whole = inputs(name)
    tokens, mask = F.pad(whole["input_ids"], (3, 0)), F.pad(torch.ones_like(whole["input_ids"]), (3, 0))
    with torch.no_grad():
        padded, unmasked = (
            model(**{**whole, "input_ids": tokens, "attention_mask": each}).logits
            for each in (mask, torch.ones_like(mask))
        )
    assert disagreement(padded, logits(model, name)) < 1e-9
    assert disagreement(unmasked, logits(model, name)) > 1e-3


def test_what_changes_the_start_warns() -> None:
    for method, changes in (("keep+core", False), ("keep+shift", True), ("keep+gain=2", True)):
        model = bert()
        model.name_or_path = "somewhere"
        if changes:
            with pytest.warns(UserWarning, match="has changed what this"):
                audit = convert(model, method)
        else:
            audit = convert(model, method)
        assert f"added to attention, and trained: {rows_of(audit.operation.method.extras)[0].what}" in str(audit)


def test_under_half_precision_and_autocast() -> None:
    model = bert().to(torch.bfloat16)
    convert(model, "keep+shift+norm+core+rank=2")
    assert {p.dtype for p in added(model).values()} == {torch.bfloat16}
    assert torch.isfinite(logits(model, "bert")).all()
    model = bert()
    convert(model, "keep+shift+norm+core+rank=2")
    with torch.autocast("cpu", torch.bfloat16):
        logits_of(model, "bert").sum().backward()
    assert all(p.grad is not None for p in added(model).values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile, about itself
def test_compiled_after_a_plain_model_they_are_not_forgotten() -> None:
    """torch.compile keeps code by class: that of a model without hooks must not run for one with extras."""
    for method in ("keep", "keep+core", "keep"):
        model = tiny("bert")
        convert(model, method)
        embolden(nn.ParameterList(added(model).values()))
        compiled = torch.compile(model, backend="eager")
        assert disagreement(logits(compiled, "bert"), logits(model, "bert")) < 1e-9
    torch._dynamo.reset()


def test_an_adapter_alone_is_not_saved(tmp_path: Path) -> None:
    model = bert()
    convert(model, "keep+gain")
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["value"]))
    with pytest.raises(CheckpointError, match="extras inside this model's attention would be lost"):
        save(adapted, tmp_path)


def test_a_frame_is_stored_and_never_trained() -> None:
    model = tiny("gpt2")
    audit = convert(model, "oelm-lowrank")
    assert audit.worst_gram_error < 1e-12
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == expected_frozen("gpt2")
    assert "frames stored as frozen matrices" in str(audit)
    for site in open_sites(model):
        assert torch.equal(site.query.w_HKD.flatten(0, 1), torch.eye(24, dtype=torch.float64))
        assert torch.equal(site.key.w_HKD, site.query.w_HKD)
    model.transformer.h[1].attn.c_attn.q.weight.data[0, 0] = 2
    with pytest.raises(FreezeError, match=r"h\.1\.attn\.c_attn\.q\.weight has changed"):
        check_frozen(model)


def test_one_side_may_be_a_frame() -> None:
    model = tiny("bert")
    convert(model, "oelm-q+freeze=k+layers=1")
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {n for n in expected_frozen("bert") if ".query." in n or ".layer.1.attention.self.key." in n}
    assert all(gram_error(site.query.w_HKD) < 1e-12 for site in open_sites(model))


def test_a_frame_without_room_is_refused() -> None:
    wide = decoder("Gemma", head_dim=8)
    with pytest.raises(ConfigError, match="no room for 32 orthogonal rows of width 24"):
        convert(wide, "oelm-q")
