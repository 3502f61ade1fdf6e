import math
import re
from typing import cast

import pytest
import torch
from torch import Tensor

from builders import LLAMA, SMALL, STYLED, built, random_tokens, relative_error
from oelm.base.errors import ConfigError
from oelm.config.methods import METHODS, parse_method
from oelm.config.model import GPTConfig, Style
from oelm.method.geometry import cross_head_overlap, gram_error
from oelm.model.gpt import GPT, Block
from oelm.model.initialise import STD, initialise, measure_geometry

WIDE = GPTConfig(layers=2, width=128, heads=4, ffn_width=512, context=64, vocabulary=300)


def weights(method: str, seed: int = 0, config: GPTConfig = SMALL) -> dict[str, Tensor]:
    """The state of a built model, with a split FFN put together again."""
    state = built(GPT(config, parse_method(method)), seed).state_dict()
    for name in [name for name in state if ".ffn_share." in name]:
        whole, dim = name.replace("ffn_share", "ffn"), 1 if "down.weight" in name else 0
        state[whole] = torch.cat([state.pop(name), state[whole]], dim)
    return state


def of_the_method(name: str) -> bool:
    return name.endswith((".attention.q.weight", ".attention.k.weight"))


@pytest.mark.parametrize(("config", "method"), STYLED)
def test_arms_with_one_seed_share_what_the_method_does_not_touch(config: GPTConfig, method: str) -> None:
    baseline, arm = weights("baseline", config=config), weights(method, config=config)
    untouched = {name for name in baseline if not of_the_method(name)}
    assert untouched <= arm.keys()
    assert all(torch.equal(baseline[name], arm[name]) for name in untouched)


@pytest.mark.parametrize("method", ["oelm", "oelm-random-matched", "oelm-global"])
def test_what_the_method_touches_differs(method: str) -> None:
    baseline, arm = weights("baseline"), weights(method)
    assert not any(torch.equal(baseline[name], arm[name]) for name in baseline if of_the_method(name))


def test_freezing_changes_no_weight() -> None:
    for frozen, trained in (("oelm-random", "baseline"), ("oelm", "orthogonal-trained"), ("oelm", "oelm+freeze=0.5")):
        first, second = weights(frozen), weights(trained)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_deeper_model_keeps_the_lower_layers_streams() -> None:
    """Only the residual matrices differ, by GPT-2's factor for depth."""
    deeper = weights("oelm", config=SMALL.model_copy(update={"layers": 4}))
    for name, weight in weights("oelm").items():
        residual = name.endswith(("attention.o.weight", "ffn.down.weight"))
        factor = math.sqrt(4 / 3) if residual else 1.0
        assert torch.allclose(weight, factor * deeper[name], rtol=1e-6, atol=0)
        assert torch.equal(weight, deeper[name]) or residual


def test_the_seed_decides_everything_random_and_the_global_generator_nothing() -> None:
    torch.manual_seed(1)
    first = weights("oelm-lowrank", seed=3)
    torch.manual_seed(2)
    again, other = weights("oelm-lowrank", seed=3), weights("oelm-lowrank", seed=4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    random = [name for name in first if first[name].ndim == 2 and not name.endswith("update.up.weight")]
    assert not any(torch.equal(first[name], other[name]) for name in random)
    drawn = [first[name].flatten()[:8].tolist() for name in random]
    assert len({tuple(values) for values in drawn}) == len(drawn), "no two tensors share a stream"


def test_every_tensor_is_initialised() -> None:
    """Whatever stood in memory before is gone."""
    for config, method in STYLED:
        model = GPT(config, parse_method(method))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(math.nan)
        initialise(model, 0)
        assert all(parameter.isfinite().all() for parameter in model.parameters()), method


@pytest.mark.parametrize(
    ("ending", "std"),
    [
        ("token_embedding.weight", STD),
        ("position_embedding.weight", STD),
        ("attention.v.weight", STD),
        ("ffn.up.weight", STD),
        ("attention.o.weight", STD / 2),  # 1 / sqrt(2 * 2 layers)
        ("ffn.down.weight", STD / 2),
        ("attention.q.weight", STD),
        ("attention.k.weight", STD),
    ],
)
def test_empirical_std_on_the_built_baseline(ending: str, std: float) -> None:
    found = [weight for name, weight in weights("baseline", config=WIDE).items() if name.endswith(ending)]
    assert found
    for weight in found:
        assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * weight.numel()))
        assert abs(weight.mean().item()) < 5 * std / math.sqrt(weight.numel())


@pytest.mark.parametrize(("ending", "std"), [("gate.weight", STD), ("up.weight", STD), ("down.weight", STD / 2)])
def test_empirical_std_of_swiglu(ending: str, std: float) -> None:
    wide = WIDE.model_copy(update={"style": Style.LLAMA})
    found = [weight for name, weight in weights("baseline", config=wide).items() if name.endswith(f"ffn.{ending}")]
    assert len(found) == 2
    for weight in found:
        assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * weight.numel()))


def test_styles_share_every_draw_that_both_have() -> None:
    gpt, llama = weights("oelm-core"), weights("oelm-core", config=LLAMA)
    assert llama.keys() - gpt.keys() == {f"layers.{layer}.ffn.gate.weight" for layer in range(3)}
    assert all(torch.equal(gpt[name], llama[name]) for name in gpt.keys() & llama.keys())
    assert not any(name.endswith(("bias", "position_embedding.weight")) for name in llama)


def test_constants_on_the_built_model() -> None:
    state = weights("oelm-core+rank=4")
    for name, weight in state.items():
        if name.endswith("norm.weight"):
            assert torch.equal(weight, torch.ones_like(weight))
        if name.endswith(("bias", "gain_H", "update.up.weight")):
            assert not weight.any()
        if name.endswith("core_HKK"):
            assert torch.equal(weight, torch.eye(6).expand(4, 6, 6))
        if name.endswith("shift_H"):
            m_H = weight.sigmoid()
            assert m_H.min().item() == pytest.approx(0.119, abs=1e-3)
            assert m_H.max().item() == pytest.approx(0.881, abs=1e-3)
            assert (m_H.diff() > 0).all()
        if name.endswith("update.down.weight"):
            assert weight.std().item() == pytest.approx(1 / math.sqrt(24), rel=0.3)


def projections(method: str) -> list[tuple[Tensor, Tensor]]:
    model = built(GPT(WIDE, parse_method(method)), 0)
    return [cast("Block", block).attention.projections() for block in model.layers]


@pytest.mark.parametrize("method", ["oelm", "oelm-ffn", "oelm-core", "orthogonal-trained"])
def test_headwise_orthogonality_survives_the_build_and_the_cast(method: str) -> None:
    for q_HKD, k_HKD in projections(method):
        assert q_HKD.dtype is torch.float32
        assert gram_error(q_HKD) < 1e-6
        assert gram_error(k_HKD) < 1e-6
        assert cross_head_overlap(q_HKD) > 0.05  # global orthogonal would have 0
        assert q_HKD.square().sum(-1).sqrt().sub(1).abs().max() < 1e-6


def test_the_neighbours_are_told_apart_on_the_built_model() -> None:
    for q_HKD, _ in projections("oelm-global"):
        assert gram_error(q_HKD) < 1e-6
        assert cross_head_overlap(q_HKD) < 1e-6
    for method in ("baseline", "oelm-random", "oelm-random-matched"):
        assert min(gram_error(q_HKD) for q_HKD, _ in projections(method)) > 0.1


def test_own_keys_are_drawn_anew_and_shared_ones_are_not() -> None:
    for method, shared in (("oelm", False), ("baseline", False), ("oelm-core", True), ("oelm-frame", True)):
        assert all(torch.equal(q_HKD, k_HKD) is shared for q_HKD, k_HKD in projections(method))
    for q_HKD, k_HKD in projections("oelm+rolled"):
        assert torch.equal(k_HKD, q_HKD[[0, 2, 2, 0]])


def test_one_draw_is_the_bottom_layers() -> None:
    """Q and K of all layers are equal; the bottom layer's, and everything else, are those of the arm without it."""
    for method in ("oelm", "oelm-core", "baseline"):
        each, one = weights(method), weights(f"{method}+one-draw")
        assert each.keys() == one.keys()
        for name in each:
            bottom = re.sub(r"layers\.\d+", "layers.0", name) if of_the_method(name) else name
            assert torch.equal(one[name], each[bottom]), name
        assert not torch.equal(one["layers.1.attention.q.weight"], each["layers.1.attention.q.weight"])


def test_thin_heads_are_drawn_orthogonal_and_frames_take_the_first_coordinates() -> None:
    for method, logit_std in (("oelm+thin=8", 1), ("oelm-core+thin=8", 1), ("oelm-global+thin=8", 1)):
        for row in measure_geometry(built(GPT(WIDE, parse_method(method)), 0)):
            assert max(row.query_gram_error, row.key_gram_error) < 1e-6
            assert row.logit_std == pytest.approx(logit_std, abs=1e-6)
    for q_HKD, k_HKD in projections("oelm-frame+thin=8"):
        assert torch.equal(q_HKD, torch.eye(128, dtype=torch.float64).view(4, 32, 128)[:, :8])
        assert torch.equal(q_HKD, k_HKD)


def test_odd_layers_stride() -> None:
    (even, _), (odd, _) = projections("oelm-frame+strided")
    eye_DD = torch.eye(128, dtype=torch.float64)
    assert torch.equal(even, eye_DD.view(4, 32, 128))
    assert torch.equal(odd, torch.stack([eye_DD[h::4] for h in range(4)]))


def test_gains_start_where_they_are_told_and_biases_at_zero() -> None:
    state = weights("oelm-core+gain=2+bias")
    gains = [weight for name, weight in state.items() if name.endswith("gain_H")]
    assert len(gains) == 3
    for gain_H in gains:
        assert torch.allclose(gain_H.exp(), torch.full((4,), 2.0))
    assert not any(weight.any() for name, weight in state.items() if name.endswith("_bias_E"))


def test_heads_that_are_not_thin_are_refused() -> None:
    for thin in (6, 7):
        with pytest.raises(ConfigError, match=r"not thinner than heads of width 6.*Fix: choose \+thin=1 to \+thin=5"):
            GPT(SMALL, parse_method(f"oelm+thin={thin}"))


def test_blind_attention_has_no_geometry() -> None:
    assert measure_geometry(built(GPT(WIDE, METHODS["blind"]), 0)) == ()


def test_geometry_of_the_built_model() -> None:
    def first(method: str) -> dict[str, float]:
        return measure_geometry(built(GPT(WIDE, parse_method(method)), 0))[0].model_dump()

    assert [row.layer for row in measure_geometry(built(GPT(WIDE, METHODS["oelm"]), 0))] == [0, 1]
    oelm, random, matched = first("oelm"), first("oelm-random"), first("oelm-random-matched")
    assert oelm["logit_std"] == pytest.approx(1, abs=1e-6)
    assert oelm["row_norm"] == pytest.approx(1, abs=1e-6)
    assert random["row_norm"] == pytest.approx(0.02 * math.sqrt(128), rel=0.03)
    assert matched["row_norm"] == pytest.approx(1, rel=0.03)
    assert oelm["logit_std"] / random["logit_std"] == pytest.approx(1 / (0.0004 * 128), rel=0.1)
    mixed = first("oelm-q")
    assert mixed["query_gram_error"] == 0
    assert mixed["key_gram_error"] > 0.1
    assert mixed["cross_head_overlap"] == 0


@pytest.mark.parametrize("config", [SMALL, LLAMA])
@pytest.mark.parametrize("ratio", ["0.25", "0.5", "0.7"])
def test_a_split_ffn_computes_the_same_function(ratio: str, config: GPTConfig) -> None:
    def logits(method: str, seed: int = 0) -> Tensor:
        model = built(GPT(config, parse_method(method)).double(), seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(25)  # std 0.02 -> 0.5
        assert any(".ffn_share." in name for name, _ in model.named_parameters()) is ("freeze" in method)
        return model(random_tokens(SMALL, 2, 8)).detach()

    whole = logits("oelm")
    assert relative_error(logits(f"oelm+freeze={ratio}"), whole) < 1e-12
    assert relative_error(logits(f"oelm+freeze={ratio}", seed=1), whole) > 1e-3
    assert relative_error(logits(f"oelm-random+freeze={ratio}"), whole) > 1e-3


def test_a_split_ffn_with_its_parts_exchanged_is_another_function() -> None:
    model = built(GPT(SMALL, parse_method("oelm+freeze=0.5")).double(), 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(25)
        tokens = random_tokens(SMALL, 2, 8)
        before = model(tokens)
        block = cast("Block", model.layers[0])
        assert block.ffn_share is not None
        block.ffn.down.weight.data, block.ffn_share.down.weight.data = (
            block.ffn_share.down.weight.data,
            block.ffn.down.weight.data,
        )
        assert relative_error(model(tokens), before) > 1e-3


@pytest.mark.parametrize("config", [SMALL, LLAMA])
def test_a_stored_frame_starts_as_the_frame_and_is_trained(config: GPTConfig) -> None:
    """The same logits as `oelm-frame`, where the usual start has others; and both matrices get gradients."""
    tokens = torch.arange(24).view(2, 12) % config.vocabulary
    frame, stored, usual = (
        built(GPT(config, parse_method(method)).double(), seed=0)
        for method in ("oelm-frame", "frame-trained+shift+gain", "baseline+shift+gain")
    )
    torch.testing.assert_close(stored(tokens), frame(tokens), rtol=0, atol=1e-12)
    assert (usual(tokens) - frame(tokens)).abs().max() > 1e-6
    stored(tokens).square().sum().backward()
    gradients = [parameter.grad for name, parameter in stored.named_parameters() if of_the_method(name)]
    assert len(gradients) == 2 * config.layers
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)
