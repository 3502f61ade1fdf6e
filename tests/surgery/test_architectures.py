"""Every architecture by its properties: the right tensors, in the right head layout, and what stands between them.

Each property has a twin that must fail, so that a wrong row cannot pass.
"""

import copy
from dataclasses import replace

import pytest
import torch
import transformers
from tests.surgery.models import (
    MODELS,
    answer,
    bold,
    deberta,
    disagreement,
    expected_frozen,
    inputs,
    logits,
    rounding,
    tiny,
)
from torch import Tensor, nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.method.geometry import gram_error
from oelm.method.weights import Role
from oelm.surgery.architectures import ARCHITECTURES, Architecture, Attention, Fused, Place, architecture_named
from oelm.surgery.conversion import weight_table
from oelm.surgery.convert import convert
from oelm.surgery.orthogonal import row_norms
from oelm.surgery.sites import Site, open_sites
from oelm.surgery.storage import load, save

every_architecture = pytest.mark.parametrize("name", MODELS)
PLAIN = [name for name in MODELS if not architecture_named(name).between]
INSIDE_OTHERS = {"clip_text_model", "clip_vision_model"}  # the towers of `clip`


def frozen_in(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_every_row_has_tiny_models() -> None:
    assert [name for row in ARCHITECTURES for name in row.names if name not in INSIDE_OTHERS] == sorted(
        MODELS, key=[name for row in ARCHITECTURES for name in row.names].index
    )


@every_architecture
def test_keep_freezes_exactly_q_and_k_and_leaves_the_logits_alone(name: str) -> None:
    model = tiny(name)
    before, fixed = logits(model, name), frozen_in(model)  # Whisper's encoder has fixed positions
    audit = convert(model)
    assert frozen_in(model) - fixed == expected_frozen(name) == set(audit.frozen_names)
    assert audit.frozen == sum(model.get_parameter(tensor).numel() for tensor in audit.frozen_names)
    assert audit.total == sum(p.numel() for p in model.parameters())
    answers = answer(model, name)
    assert disagreement(answers, before) < rounding(name)
    answers.square().mean().backward()
    assert all(model.get_parameter(tensor).grad is None for tensor in audit.frozen_names)
    # BERT's pooler and the like may be unused, but V must train everywhere.
    table = weight_table(model)
    assert {Role.QUERY, Role.KEY, Role.VALUE, Role.OUTPUT, Role.FFN, Role.NORM} <= {weight.role for weight in table}
    values = [weight.name for weight in table if weight.role is Role.VALUE]
    assert all(model.get_parameter(tensor).grad is not None for tensor in values)
    assert len(values) >= len(audit.sites)


@every_architecture
def test_turning_a_head_with_its_key_changes_nothing(name: str) -> None:
    """(R_h q_h) . (R_h k_h) = q_h . k_h if rows hK .. hK+K-1 are head h; interleaved, it is not."""
    model = tiny(name)
    for parameter_name, parameter in model.named_parameters():
        if "q_norm" in parameter_name or "k_norm" in parameter_name:
            parameter.data.fill_(0.5)  # a norm that weighs dimensions alike sees only the length, and turns keep that
    open_sites(model)
    before = logits(model, name)
    assert disagreement(logits(turned_heads(model, interleaved=False), name), before) < rounding(name)
    assert disagreement(logits(turned_heads(model, interleaved=True), name), before) > 1e-3


def turned_heads(model: PreTrainedModel, *, interleaved: bool) -> PreTrainedModel:
    """Rotations of the planes (i, i + K/2), by another angle for each key head: these commute with rotary positions."""
    model = copy.deepcopy(model)
    for site in open_sites(model):
        angles = torch.linspace(0.5, 2.5, site.key.heads, dtype=torch.float64)
        for side in site.sides:
            turns_HKK = torch.stack([turn(a, side.head_width) for a in angles]).repeat_interleave(
                side.heads // site.key.heads, 0
            )
            order = torch.arange(side.linear.out_features).view(side.heads, side.head_width)
            if interleaved:
                order = torch.arange(side.linear.out_features).view(side.head_width, side.heads).T
            for part in side.linear.parameters():
                rows_HKx = part.data[order].view(side.heads, side.head_width, -1)
                part.data[order.flatten()] = (turns_HKK @ rows_HKx).view(part.shape)
    return model


def turn(angle: Tensor, head_width: int) -> Tensor:
    half = head_width // 2
    turn_KK = torch.eye(head_width, dtype=torch.float64)
    for i in range(half):
        turn_KK[i, i] = turn_KK[i + half, i + half] = angle.cos()
        turn_KK[i, i + half], turn_KK[i + half, i] = -angle.sin(), angle.sin()
    return turn_KK


@pytest.mark.parametrize("name", PLAIN)
def test_key_and_query_are_not_swapped(name: str) -> None:
    """Softmax does not see what is added to every key, but sees what is added to every query."""
    model = tiny(name)
    sites = open_sites(model)
    before = logits(model, name)

    def with_constant_on(side: str) -> Tensor:
        hooks = [getattr(site, side).linear.register_forward_hook(lambda _m, _x, y: y + 1.0) for site in sites]
        changed = logits(model, name)
        for hook in hooks:
            hook.remove()
        return changed

    assert disagreement(with_constant_on("key"), before) < rounding(name)
    assert disagreement(with_constant_on("query"), before) > 1e-3


@pytest.mark.parametrize("name", [name for name in MODELS if name in PLAIN or name == "deberta-v2"])
def test_swapping_q_and_k_is_noticed(name: str) -> None:
    model = tiny(name)
    before = logits(model, name)
    for site in open_sites(model):
        site.query.linear.weight.data, site.key.linear.weight.data = (
            site.key.linear.weight.data,
            site.query.linear.weight.data,
        )
    assert disagreement(logits(model, name), before) > 1e-3


@every_architecture
def test_what_stands_between_is_what_the_row_says(name: str) -> None:
    """(A q).(A^-T k) = q.k for any A if nothing stands between, one query head meets one key head; else it is not."""
    model = bold(deberta(share_att_key=False)) if name == "deberta-v2" else tiny(name)
    before = logits(model, name)
    sites = open_sites(model)
    grouped = any(site.query.heads != site.key.heads for site in sites)
    for site in sites:
        skew(site)
    exact = not architecture_named(name).between and not grouped
    changed = disagreement(logits(model, name), before)
    assert changed < rounding(name) if exact else changed > 1e-3


def skew(site: Site) -> None:
    """q -> A q, k -> A^-T k with an A that is no rotation; key heads take their first query head's."""
    generator = torch.Generator().manual_seed(site.layer)
    width = site.query.head_width
    noise = torch.randn(site.query.heads, width, width, dtype=torch.float64, generator=generator)
    a_HKK = torch.eye(width, dtype=torch.float64) + 0.2 * noise
    inverse_HKK = torch.linalg.inv(a_HKK).transpose(1, 2)[:: site.query.heads // site.key.heads]
    for side, turns_HKK in ((site.query, a_HKK), (site.key, inverse_HKK)):
        for part in side.linear.parameters():
            rows_HKx = part.data.view(side.heads, width, -1)
            part.data = (turns_HKK @ rows_HKx).reshape(part.shape)


@every_architecture
def test_exact_is_exact_or_refused_with_the_reason(name: str) -> None:
    model = tiny(name)
    before = logits(model, name)
    row = architecture_named(name)
    grouped = any(site.query.heads != site.key.heads for site in open_sites(model))
    if row.between or grouped:
        reason = "query heads share" if grouped else f"{row.between} stand between"
        with pytest.raises(ConfigError, match=reason):
            convert(model, "oelm-exact")
        return
    loaded_norms = [row_norms(side.w_HKD) for site in open_sites(model) for side in site.sides]
    audit = convert(model, "oelm-exact")
    assert disagreement(logits(model, name), before) < rounding(name)
    assert audit.worst_gram_error < 1e-6
    for site in open_sites(model):
        for side in site.sides:
            assert gram_error(side.w_HKD / row_norms(side.w_HKD).unsqueeze(2)) < 1e-6
            assert not torch.allclose(row_norms(side.w_HKD), row_norms(side.w_HKD).mean())
    assert any(
        not torch.allclose(old, row_norms(side.w_HKD))
        for old, side in zip(loaded_norms, (s for site in open_sites(model) for s in site.sides), strict=True)
    )


@every_architecture
def test_blind_attention_is_uniform_or_refused_with_the_reason(name: str) -> None:
    model, row = tiny(name), architecture_named(name)
    model.set_attn_implementation("eager")
    if row.adds_to_logits or "disentangled" in row.between or "norm" in row.between:
        with pytest.raises(ConfigError, match="would still look somewhere"):
            convert(model, "blind")
        return
    assert not looks_uniformly(model, name)
    audit = convert(model, "blind")
    assert looks_uniformly(model, name)
    assert frozen_in(model) >= expected_frozen(name) == set(audit.frozen_names)
    assert "zeros, so that attention is uniform" in str(audit)
    with pytest.raises(ConfigError, match="by its biases"):
        convert(tiny(name), "blind", train_biases=True)


def looks_uniformly(model: PreTrainedModel, name: str) -> bool:
    """Whether every query gives all places that it may see the same weight."""
    with torch.no_grad():
        out = model(**inputs(name), output_attentions=True)
    kinds = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    towers = [out, *(out[tower] for tower in ("text_model_output", "vision_model_output") if tower in out)]  # CLIP
    layers = [w_BHTU for tower in towers for kind in kinds for w_BHTU in tower.get(kind) or () if w_BHTU is not None]
    assert layers, "no weights to look at"
    seen = [(w_BHTU > 0).to(w_BHTU) for w_BHTU in layers]
    pairs = zip(layers, seen, strict=True)
    return all(torch.allclose(w_BHTU, sees / sees.sum(-1, keepdim=True), atol=1e-9) for w_BHTU, sees in pairs)


@every_architecture
def test_a_saved_model_is_plain_and_comes_back_frozen(name: str, tmp_path) -> None:
    model = tiny(name)
    names_before = set(model.state_dict())
    convert(model, "oelm", seed=5)
    expected = logits(model, name)
    save(model, tmp_path)

    plain = type(model).from_pretrained(tmp_path).eval()
    assert set(plain.state_dict()) == names_before
    fixed = frozen_in(plain)
    assert fixed.isdisjoint(expected_frozen(name))
    assert disagreement(logits(plain, name), expected) < rounding(name)

    loaded = load(tmp_path).eval()
    assert type(loaded) is type(model)
    assert frozen_in(loaded) - fixed == expected_frozen(name)
    assert disagreement(logits(loaded, name), expected) < rounding(name)


FALCON = Architecture(  # as docs/architectures.md has it
    names=("falcon",),
    places={
        Attention.DECODER: Place(
            stack="h",
            module="self_attention",
            query="query_key_value.q",
            key="query_key_value.k",
            fused={"query_key_value": Fused(parts=("q", "k", "v"), per_head=True)},
        )
    },
    head_width="head_dim",
    value=r"self_attention\.query_key_value\.v",
    output=r"self_attention\.dense",
    ffn=r"mlp\.dense_(h_to_4h|4h_to_h)",
    between="rotary positions",
)


def falcon(**changes: object) -> PreTrainedModel:
    config = transformers.FalconConfig(
        vocab_size=37,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=0,
        **{"multi_query": False, "new_decoder_architecture": False, **changes},
    )
    return bold(transformers.FalconForCausalLM(config))


def test_a_user_adds_an_architecture(tmp_path) -> None:
    model = falcon()
    with pytest.raises(ConfigError, match=r"'falcon'.*bert, electra.*docs/architectures\.md"):
        convert(model)
    before = logits(model, "falcon")
    audit = convert(model, "oelm", architecture=FALCON)
    assert len(audit.frozen_names) == 4
    assert audit.worst_gram_error < 1e-12
    expected = logits(model, "falcon")
    assert disagreement(expected, before) > 1e-3
    save(model, tmp_path)
    with pytest.raises(ConfigError, match="'falcon'"):
        load(tmp_path)
    loaded = load(tmp_path, architecture=FALCON).eval()
    assert frozen_in(loaded) == frozen_in(model)
    assert disagreement(logits(loaded, "falcon"), expected) < 1e-9


PLACE = FALCON.places[Attention.DECODER]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (replace(FALCON, head_width="width"), r"no number 'width'.*head_dim=6"),
        (replace(PLACE, query="query_key_value.Q"), r"no module 'query_key_value\.Q'.*query_key_value\.q, "),
        (replace(PLACE, fused={"qkv": Fused(parts=("q", "k", "v"))}), r"no module 'qkv'.*query_key_value, "),
        (replace(PLACE, query="query_key_value", key="query_key_value", fused={}), "query and key are both"),
    ],
    ids=["head width", "part", "fused", "not split"],
)
def test_a_row_that_does_not_fit_says_where(row: Architecture | Place, problem: str) -> None:
    if isinstance(row, Place):
        row = replace(FALCON, places={Attention.DECODER: row})
    with pytest.raises(ConfigError, match=problem):
        convert(falcon(), architecture=row)


@pytest.mark.parametrize("layout", [{"multi_query": True}, {"new_decoder_architecture": True, "num_kv_heads": 2}])
def test_fused_weights_of_another_layout_are_refused(layout: dict[str, object]) -> None:
    """Falcons whose keys are fewer: cut in three equal parts, Q would be half of it, and some of V frozen."""
    with pytest.raises(ConfigError, match=r"query_key_value\.q would have 1[26] rows, and attention puts out \[24\]"):
        convert(falcon(**layout), architecture=FALCON)


def test_documented_architecture_is_the_tested_one() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs/architectures.md").read_text(encoding="utf-8")
    block = text.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(block, "architectures.md", "exec"), names)
    assert names["falcon"] == FALCON


def test_an_unknown_stack_is_an_error() -> None:
    assert set(inputs("falcon")) == {"input_ids"}
    with pytest.raises(ConfigError, match="has no"):
        convert(falcon(), architecture=architecture_named("t5"))
