"""Weights that give back what attention computes, and scores of heads whose look is known."""

import pytest
import torch
from torch import Tensor

from builders import LLAMA, SMALL, STYLED, bold_model, random_tokens, relative_error
from oelm.config.evaluated import EvaluationRequest, Suite
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.head_scores import attention_weights, head_scores
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import evaluate
from oelm.exports.model_export import as_transformers
from oelm.model.attention import Attention

HALF = 6


@pytest.mark.parametrize(("config", "method"), STYLED)
@torch.no_grad()
def test_the_weights_times_the_values_are_what_attention_gives(config: GPTConfig, method: str) -> None:
    """Of the bottom layer, whose input is at hand."""
    model, tokens_BT = bold_model(method, config), random_tokens(config, 2, 9)
    layers = attention_weights(model, tokens_BT)
    assert len(layers) == config.layers
    attention = model.blocks[0].attention
    rows_BTD = model.token_embedding(tokens_BT)
    if model.position_embedding is not None:
        rows_BTD = rows_BTD + model.position_embedding.weight[:9]
    x_BTD = model.blocks[0].attention_norm(rows_BTD)
    v_BHTV = attention.v(x_BTD).view(2, 9, config.heads, -1).transpose(1, 2)
    expected = attention(x_BTD)
    assert relative_error(attention.o((layers[0] @ v_BHTV).transpose(1, 2).flatten(2)), expected) < 1e-9
    if isinstance(attention, Attention):
        turned = layers[0].roll(1, dims=1)
        assert relative_error(attention.o((turned @ v_BHTV).transpose(1, 2).flatten(2)), expected) > 1e-3


@pytest.mark.parametrize("method", ["baseline", "oelm-core"])
def test_transformers_says_the_same(method: str) -> None:
    model, tokens_BT = bold_model(method), random_tokens(SMALL, 2, 9)
    exported = as_transformers(model)
    before = exported.config._attn_implementation
    ours, theirs = attention_weights(model, tokens_BT), attention_weights(exported, tokens_BT)
    assert all(relative_error(one, other) < 1e-6 for one, other in zip(theirs, ours, strict=True))
    assert exported.config._attn_implementation == before


def looking(back: int) -> Tensor:
    """A head that looks so many places back, or at the first."""
    w_TU = torch.zeros(2 * HALF, 2 * HALF, dtype=torch.float64)
    for place in range(2 * HALF):
        w_TU[place, max(place - back, 0)] = 1
    return w_TU


def test_scores_of_heads_that_are_known() -> None:
    seen_TU = torch.ones(2 * HALF, 2 * HALF, dtype=torch.float64).tril()
    alike_TU = seen_TU / seen_TU.sum(1, keepdim=True)
    heads = [looking(1), looking(HALF), looking(HALF - 1), alike_TU]
    previous, same, induction, alike = head_scores(torch.stack(heads)[None].repeat(3, 1, 1, 1))
    assert previous == pytest.approx((0, 1, 0, 0))
    assert same.same_token == 1
    assert same.induction == 0
    assert induction.induction == 1
    assert induction.same_token == 0
    assert alike.entropy == pytest.approx(1)
    assert alike.induction == pytest.approx(alike_TU[HALF:].max(1).values.mean())


@pytest.mark.parametrize("config", [SMALL, LLAMA])
def test_the_suite(config: GPTConfig) -> None:
    module = bold_model("oelm-core", config.model_copy(update={"vocabulary": 257}))
    model = LanguageModel(name="toy", module=module, tokenizer=byte_tokenizer(), context=12, end_of_text=256)
    (answer,) = evaluate(model, EvaluationRequest(suites=(Suite.ATTENTION,), batch_size=3))
    result = answer.result
    assert [part.name for part in result.parts][:5] == ["0.0", "0.1", "0.2", "0.3", "1.0"]
    assert len(result.parts) == result.count == 12
    best = max(part.measures["attention_induction"] for part in result.parts)
    assert result.evaluation.measures["attention_induction"] == best
    assert all(0 <= value <= 1 + 1e-9 for part in result.parts for value in part.measures.values())
