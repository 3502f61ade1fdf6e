"""Causal attention: y_t = sum_{u <= t} softmax_u(q_t . k_u / sqrt(K)) v_u.

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
    """Blocks of queries, all heads of all texts at once: N = B H rows of a batched matmul."""

    @staticmethod
    def forward(ctx: Any, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTV: Tensor) -> Tensor:
        """Softmax block by block; its results are kept for the backward pass."""
        q_NTK = (q_BHTK * q_BHTK.shape[3] ** -0.5).flatten(0, 1)
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
        y_BHTV = _in_rows(y_NTV, len(v_BHTV))
        ctx.save_for_backward(q_NTK, k_NTK, v_NTV, y_BHTV, *kept)
        return y_BHTV

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_BHTV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d scores = weights (d weights - sum_u weights d weights), and that sum is y . d y."""
        q_NTK, k_NTK, v_NTV, y_BHTV, *kept = ctx.saved_tensors
        inner_NT1 = (d_y_BHTV * y_BHTV).sum(-1, keepdim=True).flatten(0, 1)
        d_y_NTV = d_y_BHTV.flatten(0, 1)
        d_q_NTK, d_k_NTK, d_v_NTV = torch.empty_like(q_NTK), torch.zeros_like(k_NTK), torch.zeros_like(v_NTV)
        for (queries, seen), weights_NCS in zip(_blocks(q_NTK), kept, strict=True):
            d_y_NCV = d_y_NTV[:, queries]
            d_v_NTV[:, seen] += torch.bmm(weights_NCS.transpose(1, 2), d_y_NCV)
            d_scores_NCS = torch.bmm(d_y_NCV, v_NTV[:, seen].transpose(1, 2))
            d_scores_NCS.sub_(inner_NT1[:, queries]).mul_(weights_NCS)
            d_q_NTK[:, queries] = torch.bmm(d_scores_NCS, k_NTK[:, seen])
            d_k_NTK[:, seen] += torch.bmm(d_scores_NCS.transpose(1, 2), q_NTK[:, queries])
        d_q_NTK.mul_(q_NTK.shape[2] ** -0.5)
        d_q_BHTK, d_k_BHTK, d_v_BHTV = (_in_rows(d_NTK, len(y_BHTV)) for d_NTK in (d_q_NTK, d_k_NTK, d_v_NTV))
        return d_q_BHTK, d_k_BHTK, d_v_BHTV


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


def _in_rows(x_NTK: Tensor, batch: int) -> Tensor:
    """(B H, T, K) -> (B, H, T, K) that lies in memory as (B, T, H K): what the projections read and write."""
    x_BHTK = x_NTK.view(batch, -1, *x_NTK.shape[1:])
    return x_BHTK.transpose(1, 2).contiguous().transpose(1, 2)
