"""Every extra has an answer everywhere: in names, controls, the model, its init, ledger, rates, export, conversion."""

import pytest
import torch
from tests.builders import LLAMA, SMALL, VARIETY, bold_model, built, embolden, random_tokens, relative_error
from tests.surgery.models import disagreement, logits, tiny
from torch import Tensor, nn

from oelm.base.errors import ConfigError
from oelm.config.method import Extras, Method
from oelm.config.methods import CARRIED, control_of, parse_method
from oelm.config.model import GPTConfig
from oelm.exports.model_export import as_transformers
from oelm.method.extras import CHANGES_THE_START, EXTRAS, OF_TRAINING, SIDES, Exported, extra_tensors, rows_of
from oelm.method.weights import QUERY_KEY_SIDE
from oelm.model.attention import Attention
from oelm.model.gpt import GPT
from oelm.model.ledger import weight_table
from oelm.surgery.convert import convert
from oelm.train.optimiser import lr_share

MODIFIERS = {
    "shift": "shift",
    "gain": "gain",
    "gain_start": "gain=2",
    "norm": "norm",
    "bias": "bias",
    "core": "core",
    "rank": "rank=2",
    "layer_lr": "layer-lr=0.9",
    "query_key_lr": "qk-lr=0.3",
}
"""By the field of `Extras`: how a method's name says it."""


def unanswered(extras: type[Extras]) -> dict[str, set[str]]:
    """Fields without an answer, by the table that lacks it."""
    tables = {"rows": {*EXTRAS, *OF_TRAINING}, "controls": set(CARRIED) - {"thin"}, "names": set(MODIFIERS)}
    return {table: set(extras.model_fields) ^ fields for table, fields in tables.items()}


def test_every_extra_has_an_answer() -> None:
    assert unanswered(Extras) == {"rows": set(), "controls": set(), "names": set()}
    assert not EXTRAS.keys() & OF_TRAINING


def test_a_forgotten_extra_is_found() -> None:
    class Grown(Extras):
        window: int = 0

    assert unanswered(Grown) == {"rows": {"window"}, "controls": {"window"}, "names": {"window"}}


@pytest.mark.parametrize("field", Extras.model_fields)
def test_a_name_switches_it_on_and_the_control_has_it_or_not(field: str) -> None:
    method = parse_method(f"oelm+{MODIFIERS[field]}")
    control = parse_method(control_of(method))
    assert field in method.extras.changed
    assert (field in control.extras.changed) == (CARRIED[field] is not None)


@pytest.mark.parametrize("field", EXTRAS)
def test_the_shared_tests_see_it(field: str) -> None:
    """Parity with the definition, ledger, FLOPs, generation and exports are tried with all of these."""
    assert any(field in parse_method(name).extras.changed for name in VARIETY)


@pytest.mark.parametrize("field", sorted(OF_TRAINING))
def test_what_is_of_training_changes_the_start_or_the_rates(field: str) -> None:
    plain, changed = (
        parse_method(name) for name in ("oelm+gain", f"oelm+gain+{MODIFIERS[field]}".replace("gain+gain", "gain"))
    )

    def start(method: Method) -> float:
        return built(GPT(SMALL, method), seed=0).get_parameter("layers.0.attention.gain_H")[0].item()

    def rates(method: Method) -> list[float]:
        extras, table = method.extras, weight_table(SMALL, method)
        return [lr_share(weight, SMALL.layers, extras.layer_lr, extras.query_key_lr) for weight in table]

    assert (start(plain) != start(changed)) == (field == "gain_start")
    assert (rates(plain) != rates(changed)) == (field != "gain_start")


def by_the_rows(attention: Attention, x_BTD: Tensor, extras: Extras, *, without: str | None = None) -> Tensor:
    """Attention as the rows of the table say, one after the other."""
    own = dict(attention.named_parameters())
    entered = []
    for side, w_HKD in zip(SIDES, attention.projections(), strict=True):
        y_BTHK = torch.einsum("btd,hkd->bthk", x_BTD, w_HKD.double())
        for row in rows_of(extras):
            y_BTHK = y_BTHK if row is EXTRAS.get(without or "") else row.enter(side, y_BTHK, x_BTD, own)
        y_BHTK = y_BTHK.transpose(1, 2)
        entered.append(y_BHTK if attention.rotary is None else attention.rotary(y_BHTK))
    q_BHTK, k_BHTK = entered
    v_BHTV = attention.split_heads(attention.v(x_BTD))
    y_BHTV = torch.nn.functional.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTV, is_causal=True)
    return attention.o(y_BHTV.transpose(1, 2).flatten(2))


CASES = [name for name in VARIETY if rows_of(parse_method(name).extras)]


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt", "llama"])
@pytest.mark.parametrize("name", CASES)
def test_attention_computes_what_the_rows_say(config: GPTConfig, name: str) -> None:
    name = name.replace("thin=3", "thin=2")
    model, x_BTD = bold_model(name, config), torch.randn(2, 7, SMALL.width, dtype=torch.float64)
    attention = model.blocks[1].attention
    assert isinstance(attention, Attention)
    with torch.no_grad():
        expected = attention(x_BTD)
        assert relative_error(by_the_rows(attention, x_BTD, model.method.extras), expected) < 1e-12
        for field in sorted(EXTRAS.keys() & model.method.extras.changed):
            missing = by_the_rows(attention, x_BTD, model.method.extras, without=field)
            assert relative_error(missing, expected) > 1e-4, field


@pytest.mark.parametrize("field", EXTRAS)
def test_its_tensors_are_the_models(field: str) -> None:
    method = parse_method(f"oelm+{MODIFIERS[field]}")
    attention = GPT(SMALL, method).blocks[0].attention
    assert isinstance(attention, Attention)
    tensors = extra_tensors(method.extras, attention.shape)
    added = dict(attention.named_parameters()).keys() - {f"{matrix}.weight" for matrix in "qkvo"}
    assert {tensor.name for tensor in tensors} == added
    assert all(attention.get_parameter(tensor.name).shape == tensor.size for tensor in tensors)
    assert {tensor.role for tensor in tensors} <= QUERY_KEY_SIDE


@pytest.mark.parametrize("config", [SMALL, LLAMA], ids=["gpt", "llama"])
@pytest.mark.parametrize("field", Extras.model_fields)
def test_an_export_runs_it_or_refuses_it(field: str, config: GPTConfig) -> None:
    model, tokens = bold_model(f"oelm+{MODIFIERS[field]}", config), random_tokens(config, 2, 12)
    if any(row.exported is Exported.REFUSED for row in rows_of(model.method.extras)):
        with pytest.raises(ConfigError, match=EXTRAS[field].what):
            as_transformers(model)
    else:
        with torch.no_grad():
            assert relative_error(as_transformers(model)(tokens).logits, model(tokens)) < 1e-4


@pytest.mark.parametrize("field", Extras.model_fields)
def test_a_conversion_runs_it(field: str) -> None:
    """From the first forward pass on where the table says so, and after training wherever it has tensors."""
    model = tiny("gpt2")
    before = logits(model, "gpt2")
    audit = convert(model, f"keep+{MODIFIERS[field]}")
    assert ("kept by oelm's training loop" in str(audit)) == (field in {"layer_lr", "query_key_lr"})
    assert (disagreement(logits(model, "gpt2"), before) > 1e-3) == (field in CHANGES_THE_START)
    added = {name: tensor for name, tensor in model.named_parameters() if ".oelm." in name}
    embolden(nn.ParameterList(added.values()))
    assert (disagreement(logits(model, "gpt2"), before) > 1e-3) == (field not in {"layer_lr", "query_key_lr"})
