"""Causal attention: y_t = sum_{u <= t} softmax_u(q_t . k_u / sqrt(K)) v_u.

On a GPU torch's own kernels are the fastest. In training on a CPU, torch's flash kernel multiplies small blocks one by
one and computes all weights a second time in the backward pass. Here a block of queries meets all of its keys in one
batched matmul over the heads, and the weights are kept: T^2 / 2 numbers per head, worth it up to contexts of 1,024.
"""

# B batch  H heads  T time  K head width of Q and K  V of values  C queries of a block  S keys that they see

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 1024
_QUERIES = 64


def causal_attention(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTV: Tensor, dropout: float) -> Tensor:
    """Each token attends to itself and to those before it; `dropout` of the attention weights."""
    wants_gradients = torch.is_grad_enabled() and (q_BHTK.requires_grad or v_BHTV.requires_grad)
    in_blocks = wants_gradients and q_BHTK.device.type == "cpu" and q_BHTK.shape[2] <= LONGEST
    if in_blocks and not dropout and not torch.compiler.is_compiling():
        # Under autocast, v comes out of a matmul in bf16, but a frame is x itself, in float32.
        q_BHTK, k_BHTK = q_BHTK.to(v_BHTV.dtype), k_BHTK.to(v_BHTV.dtype)
        y_BHTV: Tensor = _InBlocks.apply(q_BHTK, k_BHTK, v_BHTV)  # type: ignore[no-untyped-call]
        return y_BHTV
    width, missing = q_BHTK.shape[3], v_BHTV.shape[3] - q_BHTK.shape[3]
    if missing > 0:
        # Torch's fast kernels want one width for all: zeros change no score and are faster than unlike widths.
        q_BHTK, k_BHTK = F.pad(q_BHTK, (0, missing)), F.pad(k_BHTK, (0, missing))
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTV, dropout_p=dropout, is_causal=True, scale=width**-0.5)


class _InBlocks(torch.autograd.Function):
    """Blocks of queries of one text, all heads at once."""

    @staticmethod
    def forward(ctx: Any, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTV: Tensor) -> Tensor:
        """Softmax block by block; its results are kept for the backward pass."""
        q_BHTK = q_BHTK * q_BHTK.shape[3] ** -0.5
        y_BHTV = _like_heads_of_rows(v_BHTV)
        future_CC = torch.full((_QUERIES, _QUERIES), -torch.inf, dtype=q_BHTK.dtype).triu_(1)
        kept = []
        for text, queries, seen in _blocks(q_BHTK):
            scores_HCS = torch.bmm(q_BHTK[text, :, queries], k_BHTK[text, :, seen].transpose(1, 2))
            own_HCC = scores_HCS[:, :, queries]
            own_HCC += future_CC[: own_HCC.shape[1], : own_HCC.shape[2]]
            weights_HCS = torch.softmax(scores_HCS, -1, out=scores_HCS)
            y_BHTV[text, :, queries] = torch.bmm(weights_HCS, v_BHTV[text, :, seen])
            kept.append(weights_HCS)
        ctx.save_for_backward(q_BHTK, k_BHTK, v_BHTV, y_BHTV, *kept)
        return y_BHTV

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_BHTV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d scores = weights (d weights - sum_u weights d weights), and that sum is y . d y."""
        q_BHTK, k_BHTK, v_BHTV, y_BHTV, *kept = ctx.saved_tensors
        d_q_BHTK, d_k_BHTK, d_v_BHTV = (_like_heads_of_rows(part) for part in (q_BHTK, k_BHTK, v_BHTV))
        d_k_BHTK.zero_()
        d_v_BHTV.zero_()
        inner_BHT1 = (d_y_BHTV * y_BHTV).sum(-1, keepdim=True)
        for (text, queries, seen), weights_HCS in zip(_blocks(q_BHTK), kept, strict=True):
            d_y_HCV = d_y_BHTV[text, :, queries]
            d_v_BHTV[text, :, seen] += torch.bmm(weights_HCS.transpose(1, 2), d_y_HCV)
            d_scores_HCS = torch.bmm(d_y_HCV, v_BHTV[text, :, seen].transpose(1, 2))
            d_scores_HCS.sub_(inner_BHT1[text, :, queries]).mul_(weights_HCS)
            d_q_BHTK[text, :, queries] = torch.bmm(d_scores_HCS, k_BHTK[text, :, seen])
            d_k_BHTK[text, :, seen] += torch.bmm(d_scores_HCS.transpose(1, 2), q_BHTK[text, :, queries])
        return d_q_BHTK.mul_(q_BHTK.shape[3] ** -0.5), d_k_BHTK, d_v_BHTV


def _blocks(q_BHTK: Tensor) -> Iterator[tuple[int, slice, slice]]:
    """Text, queries, and the keys that they see."""
    batch, _, time, _ = q_BHTK.shape
    for text in range(batch):
        for start in range(0, time, _QUERIES):
            end = min(start + _QUERIES, time)
            yield text, slice(start, end), slice(end)


def _like_heads_of_rows(heads_BHTK: Tensor) -> Tensor:
    """Room for (B, H, T, K) that lies in memory as (B, T, H K): what the projections read and write."""
    batch, heads, time, width = heads_BHTK.shape
    return heads_BHTK.new_empty(batch, time, heads, width).transpose(1, 2)
