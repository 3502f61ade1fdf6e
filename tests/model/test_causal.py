"""Attention in blocks beside torch's, values and gradients, at lengths that do and do not fill the blocks."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from builders import relative_error
from oelm.base.runtime import generator_for
from oelm.model import causal
from oelm.model.causal import causal_attention

B, H, K = 2, 3, 5


def drawn(time: int) -> list[Tensor]:
    """q, k, v as views of rows (B, T, 3 H K), as the model makes them."""
    rows = torch.randn(B, time, 3, H, K, dtype=torch.float64, generator=generator_for(0, "qkv", time))
    return [part.transpose(1, 2).requires_grad_() for part in rows.unbind(2)]


def results(attention, time: int) -> list[Tensor]:  # type: ignore[no-untyped-def]
    inputs = drawn(time)
    y_BHTK = attention(*inputs)
    weights = torch.randn(y_BHTK.shape, dtype=torch.float64, generator=generator_for(1, "loss", time))
    return [y_BHTK.detach(), *torch.autograd.grad((y_BHTK * weights).sum(), inputs)]


@pytest.mark.parametrize("time", [1, 7, 64, 65, 200])
def test_blocks_give_what_torch_gives(time: int) -> None:
    ours = results(lambda q, k, v: causal_attention(q, k, v, 0.0), time)
    theirs = results(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), time)
    for actual, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(actual, expected, rtol=1e-11, atol=1e-12)


def test_looking_ahead_or_another_scale_is_noticed() -> None:
    ours = results(lambda q, k, v: causal_attention(q, k, v, 0.0), 70)
    for wrong in (
        results(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), 70),
        results(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0), 70),
    ):
        assert min(relative_error(a, b) for a, b in zip(ours, wrong, strict=True)) > 1e-2


@pytest.mark.parametrize("in_rows", [True, False])
def test_a_gain_multiplies_the_logits_of_its_head(in_rows: bool) -> None:
    def own(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        k = k if in_rows else k.contiguous()
        gain_H = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
        return causal_attention(q, k, v, 0.0, gain_H), gain_H

    def of_torch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        gain_H = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
        return F.scaled_dot_product_attention(q * gain_H[:, None, None], k, v, is_causal=True), gain_H

    ours, theirs = (gradients_with_gain(attention) for attention in (own, of_torch))
    for actual, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-11)
    without = results(lambda q, k, v: causal_attention(q, k, v, 0.0), 70)
    assert min(relative_error(a, b) for a, b in zip(ours[:4], without, strict=True)) > 1e-2


def gradients_with_gain(attention) -> list[Tensor]:  # type: ignore[no-untyped-def]
    inputs = drawn(70)
    y_BHTK, gain_H = attention(*inputs)
    weights = torch.randn(y_BHTK.shape, dtype=torch.float64, generator=generator_for(1, "loss", 70))
    return [y_BHTK.detach(), *torch.autograd.grad((y_BHTK * weights).sum(), [*inputs, gain_H])]


SHARP = 30.0
"""Scores times this: most weights underflow float32, and many lie just below its normal range."""


def test_sharp_attention_gives_what_torch_gives() -> None:
    ours = results(lambda q, k, v: causal_attention(SHARP * q, k, v, 0.0), 200)
    theirs = results(lambda q, k, v: F.scaled_dot_product_attention(SHARP * q, k, v, is_causal=True), 200)
    for actual, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(actual, expected, rtol=1e-11, atol=1e-11)


def test_no_number_below_the_normal_range_enters_a_product() -> None:
    """Processors are many times slower at those; the twin shows that a plain softmax would have them."""
    q_BHTK, k_BHTK, v_BHTK = (part.detach().float().requires_grad_() for part in drawn(200))
    y_BHTK = causal_attention(SHARP * q_BHTK, k_BHTK, v_BHTK, 0.0)
    assert y_BHTK.grad_fn is not None
    weights = y_BHTK.grad_fn.saved_tensors[5:]  # type: ignore[attr-defined]
    scores_BHTT = (SHARP * q_BHTK @ k_BHTK.mT) * K**-0.5
    plain = torch.softmax(scores_BHTT.masked_fill(torch.ones(200, 200).triu(1).bool(), -torch.inf), -1)
    assert subnormal(plain) > 100
    assert len(weights) == 4
    assert sum(subnormal(block) for block in weights) == 0
    assert sum(float(block.sum()) for block in weights) == pytest.approx(B * H * 200)


def subnormal(x: Tensor) -> int:
    return int(((x != 0) & (x.abs() < torch.finfo(x.dtype).tiny)).sum())


def test_where_the_weights_would_not_fit_torch_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def saved(time: int) -> int:
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
            causal_attention(*drawn(time), 0.0)
        return sum(sizes)

    kept = saved(128)
    monkeypatch.setattr(causal, "LONGEST", 127)
    assert saved(128) < kept - B * H * 64 * 64
