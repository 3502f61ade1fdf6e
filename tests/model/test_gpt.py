"""Our GPT beside Hugging Face's GPT-2 on the same weights: logits and all gradients, and twins that must fail."""

import warnings
from collections.abc import Callable
from typing import cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from builders import SMALL, STYLED, bold_model, built, embolden, random_tokens, relative_error
from oelm.config.method import FreezingPlan, OnlyLayers
from oelm.config.methods import METHODS, parse_method
from oelm.config.model import GPTConfig
from oelm.model.gpt import GPT, Block, shared_units

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of other people's imports
    from transformers import GPT2Config, GPT2LMHeadModel

TOKENS = random_tokens(SMALL, 3, 10)
TOLERANCE = 1e-9


def hugging_face_twin(model: GPT, *, activation: str = "gelu", scale: bool = True, tie: bool = True) -> nn.Module:
    config = GPT2Config(
        vocab_size=SMALL.vocabulary,
        n_positions=SMALL.context,
        n_embd=SMALL.width,
        n_layer=SMALL.layers,
        n_head=SMALL.heads,
        n_inner=SMALL.ffn_width,
        activation_function=activation,
        scale_attn_weights=scale,
        tie_word_embeddings=tie,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
    )
    twin = GPT2LMHeadModel(config).double().eval()
    embolden(twin, seed=99)
    state = twin.state_dict()
    with torch.no_grad():
        for name, tensor in translated(dict(model.named_parameters())).items():
            state[name].copy_(tensor)
    return cast("nn.Module", twin)


def translated(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights (or gradients) under GPT-2's names: Q, K and V fused, matrices transposed, attention biases zero."""
    theirs = {
        "transformer.wte.weight": ours["token_embedding.weight"],
        "transformer.wpe.weight": ours["position_embedding.weight"],
        "transformer.ln_f.weight": ours["final_norm.weight"],
        "transformer.ln_f.bias": ours["final_norm.bias"],
    }
    for layer in range(SMALL.layers):
        mine, other = f"layers.{layer}", f"transformer.h.{layer}"
        qkv = torch.cat([ours[f"{mine}.attention.{part}.weight"] for part in "qkv"])
        theirs[f"{other}.attn.c_attn.weight"] = qkv.T
        theirs[f"{other}.attn.c_attn.bias"] = torch.zeros(len(qkv), dtype=qkv.dtype)
        theirs[f"{other}.attn.c_proj.weight"] = ours[f"{mine}.attention.o.weight"].T
        theirs[f"{other}.attn.c_proj.bias"] = torch.zeros(SMALL.width, dtype=qkv.dtype)
        for part, name in (("ffn.up", "mlp.c_fc"), ("ffn.down", "mlp.c_proj")):
            theirs[f"{other}.{name}.weight"] = ours[f"{mine}.{part}.weight"].T
            theirs[f"{other}.{name}.bias"] = ours[f"{mine}.{part}.bias"]
        for part, name in (("attention_norm", "ln_1"), ("ffn_norm", "ln_2")):
            theirs[f"{other}.{name}.weight"] = ours[f"{mine}.{part}.weight"]
            theirs[f"{other}.{name}.bias"] = ours[f"{mine}.{part}.bias"]
    return theirs


def loss_of(logits_BTV: Tensor) -> Tensor:
    return F.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten())


def logits_error(model: GPT, twin: nn.Module) -> float:
    return relative_error(model(TOKENS), twin(TOKENS).logits)


def test_logits_and_all_gradients_agree_with_gpt2() -> None:
    model = bold_model("baseline")
    twin = hugging_face_twin(model)
    assert logits_error(model, twin) < TOLERANCE
    loss_of(model(TOKENS)).backward()
    loss_of(twin(TOKENS).logits).backward()
    ours = translated({name: parameter.grad for name, parameter in model.named_parameters()})
    theirs = {name: parameter.grad for name, parameter in twin.named_parameters()}
    compared = {name for name in ours if not name.endswith(("c_attn.bias", "attn.c_proj.bias"))}
    assert compared == {name for name in theirs if not name.endswith(("c_attn.bias", "attn.c_proj.bias"))}
    for name in compared:
        gradient = theirs[name]
        assert gradient is not None
        assert gradient.abs().max() > 0
        assert relative_error(ours[name], gradient) < TOLERANCE, name


def swap_query_and_key(model: GPT) -> None:
    for block in model.layers:
        attention = cast("Block", block).attention
        attention.q, attention.k = attention.k, attention.q


def zero_query_and_key(model: GPT) -> None:
    attention = cast("Block", model.layers[1]).attention
    assert attention.q is not None
    attention.q.weight.data.zero_()


@pytest.mark.parametrize("spoil", [swap_query_and_key, zero_query_and_key])
def test_a_wrong_attention_would_be_noticed(spoil: Callable[[GPT], None]) -> None:
    model = bold_model("baseline")
    twin = hugging_face_twin(model)
    spoil(model)
    assert logits_error(model, twin) > 1e4 * TOLERANCE


@pytest.mark.parametrize("wrong", [{"activation": "gelu_new"}, {"scale": False}, {"tie": False}])
def test_another_architecture_would_be_noticed(wrong: dict[str, bool | str]) -> None:
    """The tanh GELU, attention without 1/sqrt(K), an output matrix of its own."""
    model = bold_model("baseline")
    assert logits_error(model, hugging_face_twin(model, **wrong)) > 1e4 * TOLERANCE


def test_the_embedding_is_tied_and_trained_through_both_uses() -> None:
    model = bold_model("baseline")
    loss_of(model(TOKENS)).backward()
    gradient = model.token_embedding.weight.grad
    assert gradient is not None
    unused = sorted(set(range(SMALL.vocabulary)) - set(TOKENS.flatten().tolist()))
    assert unused
    assert (gradient[unused].abs().amax(1) > 0).all(), "tokens that never occur still have an output gradient"


def test_logits_do_not_see_the_future() -> None:
    for method in ("baseline", "oelm-core", "baseline+rolled+shift"):
        model = bold_model(method)
        changed = TOKENS.clone()
        changed[:, 6:] = (changed[:, 6:] + 1) % SMALL.vocabulary
        before, after = model(TOKENS), model(changed)
        assert torch.equal(before[:, :6], after[:, :6])
        assert not torch.allclose(before[:, 6:], after[:, 6:])


def test_dropout_acts_in_training_only() -> None:
    model = GPT(SMALL.model_copy(update={"dropout": 0.3}), METHODS["baseline"]).double()
    embolden(model)
    model.train()
    assert not torch.equal(model(TOKENS), model(TOKENS))
    model.eval()
    assert torch.equal(model(TOKENS), model(TOKENS))
    assert relative_error(model(TOKENS), bold_model("baseline")(TOKENS)) < 1e-12


def test_shared_units_only_where_the_plan_says() -> None:
    plan = FreezingPlan(ffn_share=0.25, layers=OnlyLayers(layers=(1,)))
    assert [shared_units(SMALL, plan, layer) for layer in range(3)] == [0, 12, 0]
    assert shared_units(SMALL, None, 1) == 0
    assert shared_units(SMALL, FreezingPlan(ffn_share=1.0), 1) == 0, "a whole frozen FFN needs no second module"


def test_a_split_ffn_equals_the_whole_one_weight_for_weight() -> None:
    """With all weights random, biases included: a unit's row, bias and column move together."""
    whole, split = bold_model("oelm"), GPT(SMALL, parse_method("oelm+freeze=0.25")).double().eval()
    state = whole.state_dict()
    for layer in range(SMALL.layers):
        prefix, units = f"layers.{layer}.ffn", shared_units(SMALL, split.method.plan, layer)
        for name, dim in (("up.weight", 0), ("up.bias", 0), ("down.weight", 1)):
            tensor = state[f"{prefix}.{name}"]
            state[f"{prefix}_share.{name}"] = tensor.narrow(dim, 0, units)
            state[f"{prefix}.{name}"] = tensor.narrow(dim, units, SMALL.ffn_width - units)
    split.load_state_dict(state)
    assert relative_error(split(TOKENS), whole(TOKENS)) < 1e-12
    state["layers.0.ffn_share.up.bias"] = state["layers.0.ffn_share.up.bias"].flip(0)
    split.load_state_dict(state)
    assert relative_error(split(TOKENS), whole(TOKENS)) > 1e-5


def test_checkpointed_layers_give_the_same_gradients_and_keep_less() -> None:
    def gradients_and_kept(checkpointing: bool) -> tuple[list[Tensor], int]:
        model, kept = bold_model("oelm-core").train(), []
        if checkpointing:
            model.gradient_checkpointing_enable()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], lambda t: t):
            loss = model(TOKENS[:, :-1], TOKENS[:, 1:])
        held = sum(kept)
        loss.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None], held

    (plain, all_kept), (again, few_kept) = gradients_and_kept(False), gradients_and_kept(True)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(again, plain, strict=True))
    assert few_kept < all_kept / 3


@pytest.mark.parametrize(("config", "method"), STYLED)
def test_every_method_trains_under_autocast(config: GPTConfig, method: str) -> None:
    """In bf16 the loss and its gradients are near those of float32, and not the same."""
    model = built(GPT(config, parse_method(method)), 0)

    def loss_and_gradient(low: bool) -> tuple[float, Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = model(TOKENS[:, :-1], TOKENS[:, 1:])
        loss.backward()
        found = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
        return loss.item(), torch.cat(found)

    (exact, exact_gradient), (near, near_gradient) = loss_and_gradient(False), loss_and_gradient(True)
    assert near == pytest.approx(exact, rel=1e-2)
    error = ((near_gradient - exact_gradient).norm() / exact_gradient.norm()).item()
    assert 1e-4 < error < 0.05
