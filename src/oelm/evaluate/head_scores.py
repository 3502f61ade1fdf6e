"""Attention weights of every layer and head, and four scores of them.

On L random tokens that come twice, w(t, u) being the weight from place t to place u:

    entropy        mean over t of -sum_u w(t, u) log w(t, u) / log(t + 1)       1: all places alike, 0: one place
    previous       mean over t >= 1 of w(t, t - 1)
    same token     mean over t >= L of w(t, t - L), where the same token stood
    induction      mean over t >= L of w(t, t - L + 1), the place behind it
"""

# B texts  T places of a query  U of a key  H heads  K head width  L tokens that come twice

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.model.attention import Attention
from oelm.model.causal import with_gain
from oelm.model.gpt import GPT


class HeadScores(NamedTuple):
    """One head, or the mean of several."""

    entropy: float
    previous: float
    same_token: float
    induction: float


@torch.no_grad()
def attention_weights(module: nn.Module, tokens_BT: Tensor) -> list[Tensor]:
    """The weights (B, H, T, U) of each layer, bottom first, in float64."""
    if isinstance(module, GPT):
        return _own_weights(module, tokens_BT)
    model: Any = module
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")  # the fast kernels never hold the weights
    try:
        layers = model(input_ids=tokens_BT, use_cache=False, output_attentions=True).attentions
    finally:
        model.set_attn_implementation(before)
    return [weights_BHTU.cpu().double() for weights_BHTU in layers]


def _own_weights(gpt: GPT, tokens_BT: Tensor) -> list[Tensor]:
    inputs: list[Tensor] = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda _module, given: inputs.append(given[0]))
        for block in gpt.blocks
    ]
    try:
        gpt.encode(tokens_BT)
    finally:
        for hook in hooks:
            hook.remove()
    return [_weights(block.attention, x_BTD, gpt.config.heads) for block, x_BTD in zip(gpt.blocks, inputs, strict=True)]


def _weights(attention: nn.Module, x_BTD: Tensor, heads: int) -> Tensor:
    """softmax(q k^T / sqrt(K)) of what attention itself computes; blind attention looks at all alike."""
    batch, time, _ = x_BTD.shape
    seen_TU = torch.ones(time, time, dtype=torch.bool, device=x_BTD.device).tril()
    if not isinstance(attention, Attention):
        alike_TU = seen_TU.cpu().double() / seen_TU.cpu().sum(1, keepdim=True)
        return alike_TU.expand(batch, heads, time, time)
    q_BTE, k_BTE, _ = attention.queries_keys_values(x_BTD)
    q_BHTK, k_BHUK = with_gain(attention.queries(q_BTE), attention.gain()), attention.keys(k_BTE)
    scores_BHTU = (q_BHTK @ k_BHUK.transpose(2, 3)).to(sum_dtype(x_BTD.device)) * q_BHTK.shape[3] ** -0.5
    weights_BHTU: Tensor = scores_BHTU.masked_fill(~seen_TU, -torch.inf).softmax(-1)
    return weights_BHTU.cpu().double()


def head_scores(weights_BHTU: Tensor) -> list[HeadScores]:
    """Of every head of a layer, on tokens that come twice."""
    time = weights_BHTU.shape[2]
    half = time // 2
    w_HTU = weights_BHTU.mean(0)
    # Entropy is not linear: first of each text, then the mean. log 1 = 0 at the first place, which has no choice.
    plogp_BHT = -(weights_BHTU * weights_BHTU.clamp(min=1e-300).log()).sum(-1)
    most_T = torch.arange(1, time + 1, dtype=torch.float64).log()
    entropy_H = (plogp_BHT[..., 1:] / most_T[1:]).mean((0, 2))
    previous_H = w_HTU.diagonal(-1, 1, 2).mean(-1)
    same_H = w_HTU.diagonal(-half, 1, 2).mean(-1)
    induction_H = w_HTU.diagonal(1 - half, 1, 2)[:, 1:].mean(-1)  # without t = L - 1, which has seen nothing twice
    rows = torch.stack([entropy_H, previous_H, same_H, induction_H], dim=1).tolist()
    return [HeadScores(*row) for row in rows]
