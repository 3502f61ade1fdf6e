"""Our GPT in Llama style beside Hugging Face's Llama on the same weights, and twins that must fail."""

import warnings
from typing import cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from builders import LLAMA, bold_model, embolden, random_tokens, relative_error
from oelm.config.methods import METHODS, parse_method
from oelm.model.gpt import GPT, shared_units
from oelm.model.rotary import Rotary, turn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of other people's imports
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

TOKENS = random_tokens(LLAMA, 3, 10)
TOLERANCE = 1e-9


class ExactRotary(nn.Module):
    """Transformers' angles in float64: its own are computed in float32 whatever the model's type."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = theta

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        exponents = torch.arange(0, LLAMA.head_width, 2, dtype=torch.float64) / LLAMA.head_width
        angles = position_ids[..., None].double() * self.theta**-exponents
        return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()


def exact(model: nn.Module) -> nn.Module:
    """A Llama whose norms and angles are computed in float64, and not in float32."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, LlamaRMSNorm):
                replaced = nn.RMSNorm(len(child.weight), eps=child.variance_epsilon)
                replaced.weight = child.weight
                setattr(module, name, replaced)
            elif isinstance(child, LlamaRotaryEmbedding):
                setattr(module, name, ExactRotary(child.config.rope_parameters["rope_theta"]))
    return model


def hugging_face_twin(model: GPT, **changes: object) -> nn.Module:
    settings: dict[str, object] = {
        "vocab_size": LLAMA.vocabulary,
        "hidden_size": LLAMA.width,
        "intermediate_size": LLAMA.ffn_width,
        "num_hidden_layers": LLAMA.layers,
        "num_attention_heads": LLAMA.heads,
        "max_position_embeddings": LLAMA.context,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        **changes,
    }
    twin = LlamaForCausalLM(LlamaConfig(**settings)).double().eval()
    embolden(twin, seed=99)
    state = twin.state_dict()
    with torch.no_grad():
        for name, tensor in translated(dict(model.named_parameters())).items():
            state[name].copy_(tensor)
    return cast("nn.Module", twin)


def translated(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights (or gradients) under Llama's names."""
    theirs = {
        "model.embed_tokens.weight": ours["token_embedding.weight"],
        "model.norm.weight": ours["final_norm.weight"],
    }
    names = {
        **{f"attention.{side}": f"self_attn.{side}_proj" for side in "qkvo"},
        **{f"ffn.{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
        "attention_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    for layer in range(LLAMA.layers):
        for mine, other in names.items():
            theirs[f"model.layers.{layer}.{other}.weight"] = ours[f"layers.{layer}.{mine}.weight"]
    return theirs


def loss_of(logits_BTV: Tensor) -> Tensor:
    return F.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten())


def test_logits_and_all_gradients_agree_with_llama() -> None:
    model = bold_model("baseline", LLAMA)
    twin = hugging_face_twin(model)
    assert relative_error(twin(TOKENS).logits, model(TOKENS)) < 1e-4, "its norms and angles are in float32"
    assert relative_error(exact(twin)(TOKENS).logits, model(TOKENS)) < TOLERANCE
    loss_of(model(TOKENS)).backward()
    loss_of(twin(TOKENS).logits).backward()
    ours = translated({name: parameter.grad for name, parameter in model.named_parameters()})
    theirs = {name: parameter.grad for name, parameter in twin.named_parameters()}
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        assert gradient is not None
        assert gradient.abs().max() > 0
        assert relative_error(ours[name], gradient) < TOLERANCE, name


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden_act": "gelu"},
        {"rms_norm_eps": 1e-6},
        {"tie_word_embeddings": False},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
    ],
)
def test_another_llama_would_be_noticed(wrong: dict[str, object]) -> None:
    model = bold_model("baseline", LLAMA)
    assert relative_error(exact(hugging_face_twin(model, **wrong))(TOKENS).logits, model(TOKENS)) > 1e3 * TOLERANCE


def test_neighbouring_pairs_would_be_noticed() -> None:
    """The other convention of rotary positions, as a permutation of Q's and K's rows."""
    model = bold_model("baseline", LLAMA)
    twin = exact(hugging_face_twin(model))
    half = LLAMA.head_width // 2
    order = torch.arange(LLAMA.width).view(LLAMA.heads, half, 2).transpose(1, 2).flatten()
    for block in model.blocks:
        for matrix in (block.attention.q, block.attention.k):  # type: ignore[union-attr]
            assert matrix is not None
            matrix.weight.data = matrix.weight.data[order]
    assert relative_error(twin(TOKENS).logits, model(TOKENS)) > 1e-3


def test_a_split_ffn_equals_the_whole_one_unit_for_unit() -> None:
    """With all weights random: a unit's gate row, up row and down column move together."""
    whole, split = bold_model("oelm", LLAMA), GPT(LLAMA, parse_method("oelm+freeze=0.25")).double().eval()
    state = whole.state_dict()
    for layer in range(LLAMA.layers):
        prefix, units = f"layers.{layer}.ffn", shared_units(LLAMA, split.method.plan, layer)
        for name, dim in (("gate.weight", 0), ("up.weight", 0), ("down.weight", 1)):
            tensor = state[f"{prefix}.{name}"]
            state[f"{prefix}_share.{name}"] = tensor.narrow(dim, 0, units)
            state[f"{prefix}.{name}"] = tensor.narrow(dim, units, LLAMA.ffn_width - units)
    split.load_state_dict(state)
    assert relative_error(split(TOKENS), whole(TOKENS)) < 1e-12
    state["layers.0.ffn_share.gate.weight"] = state["layers.0.ffn_share.gate.weight"].flip(0)
    split.load_state_dict(state)
    assert relative_error(split(TOKENS), whole(TOKENS)) > 1e-5


def test_angles_are_no_part_of_a_checkpoint_and_follow_the_models_type() -> None:
    model = GPT(LLAMA, METHODS["oelm-core"])
    assert model.state_dict().keys() == dict(model.named_parameters()).keys()
    exact_cos = torch.tensor(7.0 * 10_000 ** (-2 / LLAMA.head_width), dtype=torch.float64).cos()
    for dtype in (torch.float64, torch.float32):
        rotary = model.to(dtype).blocks[0].attention.rotary  # type: ignore[union-attr]
        assert rotary is not None
        assert rotary.cos_CK.dtype is dtype
        assert rotary.cos_CK[7, 1] == exact_cos.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_turn_keeps_type_and_layout(dtype: torch.dtype) -> None:
    """q and k are views of rows (B, T, H K) of a wider matmul, and stay rows: nothing is copied to be turned."""
    x_BHTK = torch.randn(2, 5, 3, 4, 6, dtype=dtype)[:, :, 1].transpose(1, 2)
    turned = Rotary(8, 6)(x_BHTK)
    assert turned.dtype is dtype
    assert turned.transpose(1, 2).is_contiguous()


def test_the_compilers_formula_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rotary, x_BHTK = Rotary(8, 6), torch.randn(2, 4, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 4, 5, 6, dtype=torch.float64)
    results = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        turned = rotary(x_BHTK, start=2)
        results.append((turned, *torch.autograd.grad((turned * weights).sum(), x_BHTK)))
    for ours, theirs in zip(*results, strict=True):
        assert relative_error(ours, theirs) < 1e-12
    assert relative_error(rotary(x_BHTK, start=1), results[0][0]) > 1e-2
    assert relative_error(turn(x_BHTK, rotary.cos_CK[2:7], -rotary.sin_CK[2:7]), results[0][0]) > 1e-2


def test_dropout_acts_in_training_only() -> None:
    model = GPT(LLAMA.model_copy(update={"dropout": 0.3}), METHODS["baseline"]).double()
    embolden(model)
    model.train()
    assert not torch.equal(model(TOKENS), model(TOKENS))
    model.eval()
    assert relative_error(model(TOKENS), bold_model("baseline", LLAMA)(TOKENS)) < 1e-12
