"""Causal attention: y_t = sum_{u <= t} softmax_u(g_h q_t . k_u / sqrt(K)) v_u.

On a GPU torch's own kernels are the fastest. In training on a CPU, torch's flash kernel multiplies small blocks one by
one and computes all weights a second time in the backward pass. Here a block of queries of all texts meets all of its
keys in one batched matmul, and the weights are kept: T^2 / 2 numbers per head, worth it up to contexts of 1,024.
"""

# B batch  H heads  N = B H  T time  K head width of Q and K  V of values  C queries of a block  S keys that they see

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 1024
_QUERIES = 64
_NEGLIGIBLE = -46.0
"""A score this far below the largest has a weight under 1e-19 and changes no sum, in float32 or float64."""


def causal_attention(
    q_BHTK: Tensor, k_BHTK: Tensor, v_BHTV: Tensor, dropout: float, gain_H: Tensor | None = None
) -> Tensor:
    """Each token attends to itself and to those before it; `dropout` of the attention weights."""
    wants_gradients = torch.is_grad_enabled() and (q_BHTK.requires_grad or v_BHTV.requires_grad)
    in_blocks = wants_gradients and q_BHTK.device.type == "cpu" and q_BHTK.shape[2] <= LONGEST
    if in_blocks and not dropout and not torch.compiler.is_compiling():
        # Under autocast, v comes out of a matmul in bf16, but a frame is x itself, in float32.
        q_BHTK, k_BHTK = q_BHTK.to(v_BHTV.dtype), k_BHTK.to(v_BHTV.dtype)
        y_BHTV: Tensor = _InBlocks.apply(q_BHTK, k_BHTK, v_BHTV, gain_H)  # type: ignore[no-untyped-call]
        return y_BHTV
    q_BHTK = with_gain(q_BHTK, gain_H)
    width, missing = q_BHTK.shape[3], v_BHTV.shape[3] - q_BHTK.shape[3]
    if missing > 0:
        # Torch's fast kernels want one width for all: zeros change no score and are faster than unlike widths.
        q_BHTK, k_BHTK = F.pad(q_BHTK, (0, missing)), F.pad(k_BHTK, (0, missing))
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTV, dropout_p=dropout, is_causal=True, scale=width**-0.5)


def with_gain(q_BHTK: Tensor, gain_H: Tensor | None) -> Tensor:
    """g_h q_h: what multiplies all logits of a head."""
    return q_BHTK if gain_H is None else q_BHTK * gain_H.to(q_BHTK.dtype)[:, None, None]


class _InBlocks(torch.autograd.Function):
    """Blocks of queries, all heads of all texts at once: N = B H rows of a batched matmul.

    Gradients lie in memory as their inputs do: in rows, or head by head.
    """

    @staticmethod
    def forward(ctx: Any, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTV: Tensor, gain_H: Tensor | None) -> Tensor:
        """Softmax block by block; its results are kept for the backward pass."""
        ctx.in_rows = [not x_BHTK.is_contiguous() for x_BHTK in (q_BHTK, k_BHTK, v_BHTV)]
        q_NTK = torch.mul(q_BHTK, _scale(q_BHTK, gain_H), out=_empty(q_BHTK, in_rows=False)).flatten(0, 1)
        k_NTK, v_NTV = k_BHTK.flatten(0, 1), v_BHTV.flatten(0, 1)
        y_NTV = torch.empty_like(v_NTV)
        future_CC = torch.full((_QUERIES, _QUERIES), -torch.inf, dtype=q_NTK.dtype).triu_(1)
        is_sharp = _widest_spread(q_NTK, k_NTK) > -_NEGLIGIBLE
        kept = []
        for queries, seen in _blocks(q_NTK):
            scores_NCS = torch.bmm(q_NTK[:, queries], k_NTK[:, seen].transpose(1, 2))
            own_NCC = scores_NCS[:, :, queries]
            own_NCC += future_CC[: own_NCC.shape[1], : own_NCC.shape[2]]
            if is_sharp:
                _leave_out_negligible(scores_NCS)
            weights_NCS = torch.softmax(scores_NCS, -1, out=scores_NCS)
            y_NTV[:, queries] = torch.bmm(weights_NCS, v_NTV[:, seen])
            kept.append(weights_NCS)
        y_BHTV = _in_rows(y_NTV.view_as(v_BHTV))
        ctx.save_for_backward(q_NTK, k_NTK, v_NTV, y_BHTV, gain_H, *kept)
        return y_BHTV

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_BHTV: Tensor) -> tuple[Tensor | None, ...]:
        """d scores = weights (d weights - sum_u weights d weights), and that sum is y . d y."""
        q_NTK, k_NTK, v_NTV, y_BHTV, gain_H, *kept = ctx.saved_tensors
        inner_NT1 = (d_y_BHTV * y_BHTV).sum(-1, keepdim=True).flatten(0, 1)
        d_y_NTV = d_y_BHTV.flatten(0, 1)
        d_q_NTK = torch.empty_like(q_NTK)
        blocks = [*zip(_blocks(q_NTK), kept, strict=True)]
        for (queries, seen), weights_NCS in reversed(blocks):  # the last queries see all keys: no sum begins with zeros
            d_y_NCV = d_y_NTV[:, queries]
            d_scores_NCS = torch.bmm(d_y_NCV, v_NTV[:, seen].transpose(1, 2))
            d_scores_NCS.sub_(inner_NT1[:, queries]).mul_(weights_NCS)
            d_q_NTK[:, queries] = torch.bmm(d_scores_NCS, k_NTK[:, seen])
            d_v_NSV = torch.bmm(weights_NCS.transpose(1, 2), d_y_NCV)
            d_k_NSK = torch.bmm(d_scores_NCS.transpose(1, 2), q_NTK[:, queries])
            if seen.stop == q_NTK.shape[1]:
                d_k_NTK, d_v_NTV = d_k_NSK, d_v_NSV
            else:
                d_k_NTK[:, seen] += d_k_NSK
                d_v_NTV[:, seen] += d_v_NSV
        d_q_BHTK, d_k_BHTK, d_v_BHTV = (
            d_NTK.view(*y_BHTV.shape[:2], *d_NTK.shape[1:]) for d_NTK in (d_q_NTK, d_k_NTK, d_v_NTV)
        )
        d_gain_H = None
        if gain_H is not None:  # the q of the scores is g q / sqrt(K)
            d_gain_H = (d_q_BHTK * q_NTK.view_as(d_q_BHTK)).sum((0, 2, 3)).to(gain_H.dtype) / gain_H
        q_in_rows, k_in_rows, v_in_rows = ctx.in_rows
        d_q_BHTK = torch.mul(d_q_BHTK, _scale(d_q_BHTK, gain_H), out=_empty(d_q_BHTK, in_rows=q_in_rows))
        return (
            d_q_BHTK,
            _in_rows(d_k_BHTK) if k_in_rows else d_k_BHTK,
            _in_rows(d_v_BHTV) if v_in_rows else d_v_BHTV,
            d_gain_H,
        )


def _scale(q_BHTK: Tensor, gain_H: Tensor | None) -> Tensor | float:
    """g_h / sqrt(K)."""
    scale: float = q_BHTK.shape[3] ** -0.5
    return scale if gain_H is None else (gain_H * scale).to(q_BHTK.dtype)[:, None, None]


def _widest_spread(q_NTK: Tensor, k_NTK: Tensor) -> float:
    """No two scores of a query lie further apart: 2 max |q| max |k|."""
    return 2 * float(torch.linalg.vector_norm(q_NTK, dim=-1).max() * torch.linalg.vector_norm(k_NTK, dim=-1).max())


def _leave_out_negligible(scores_NCS: Tensor) -> None:
    """Let negligible weights become exactly zero.

    Products with them would fall below the normal range of float32, where processors are many times slower: a model
    would train the more slowly the better it knows where to look.
    """
    scores_NCS.sub_(scores_NCS.amax(-1, keepdim=True))
    F.threshold(scores_NCS, _NEGLIGIBLE, -torch.inf, inplace=True)


def _blocks(q_NTK: Tensor) -> Iterator[tuple[slice, slice]]:
    """Queries, and the keys that they see."""
    time = q_NTK.shape[1]
    for start in range(0, time, _QUERIES):
        end = min(start + _QUERIES, time)
        yield slice(start, end), slice(end)


def _in_rows(x_BHTK: Tensor) -> Tensor:
    """The same, as it lies in memory as (B, T, H K): what the projections read and write."""
    return _empty(x_BHTK, in_rows=True).copy_(x_BHTK)


def _empty(like_BHTK: Tensor, *, in_rows: bool) -> Tensor:
    """Memory for as much, in rows or head by head."""
    batch, heads, time, width = like_BHTK.shape
    if in_rows:
        return like_BHTK.new_empty(batch, time, heads, width).transpose(1, 2)
    return like_BHTK.new_empty(like_BHTK.shape)
