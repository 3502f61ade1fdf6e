"""From x to queries and keys, with the backward passes written out.

Matrices that read the same x, as one matmul; low-rank updates; keys mixed with the key before them; normed heads.
"""

# B batch  T time  N = B T  D model width  E = H K  R rank  H heads  K head width

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def project(x_BTD: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    """x W^T for each of the weights, which stay tensors of their own: frozen ones get no gradient and cost none.

    Forward one matmul with the weights side by side. Backward, dx = sum_i dy_i W_i is added up inside the matmuls.
    """
    if torch.compiler.is_compiling():  # the compiler arranges its own matmuls
        return tuple(F.linear(x_BTD, weight) for weight in weights)
    projected: tuple[Tensor, ...] = _Project.apply(x_BTD, *weights)  # type: ignore[no-untyped-call]
    return projected


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BTD: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        together = weights[0] if len(weights) == 1 else torch.cat(weights)
        y_BT = F.linear(x_BTD, together)
        ctx.save_for_backward(x_BTD, *weights)
        return torch.split(y_BT, [len(weight) for weight in weights], dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_ys: Tensor | None) -> tuple[Tensor | None, ...]:
        x_BTD, *weights = ctx.saved_tensors
        present = [(index, d_y.flatten(0, -2)) for index, d_y in enumerate(d_ys) if d_y is not None]
        d_x_ND: Tensor | None = None
        d_weights: list[Tensor | None] = [None] * len(weights)
        for index, d_y_NO in present:
            weight, x_ND = weights[index].to(d_y_NO.dtype), x_BTD.flatten(0, -2).to(d_y_NO.dtype)
            if ctx.needs_input_grad[0]:
                d_x_ND = d_y_NO @ weight if d_x_ND is None else torch.addmm(d_x_ND, d_y_NO, weight, out=d_x_ND)
            if ctx.needs_input_grad[1 + index]:
                d_weights[index] = (d_y_NO.T @ x_ND).to(weights[index].dtype)
        d_x_BTD = None if d_x_ND is None else d_x_ND.view_as(x_BTD).to(x_BTD.dtype)
        return d_x_BTD, *d_weights


def add_low_rank(y_BTE: Tensor, down_BTR: Tensor, up_ER: Tensor) -> Tensor:
    """y + B a, of which a = A x is given.

    Backward, matrices with few columns are computed as their transposes: MKL is faster at those.
    """
    if torch.compiler.is_compiling():
        return y_BTE + F.linear(down_BTR, up_ER)
    sum_BTE: Tensor = _AddLowRank.apply(y_BTE, down_BTR, up_ER)  # type: ignore[no-untyped-call]
    return sum_BTE


class _AddLowRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y_BTE: Tensor, down_BTR: Tensor, up_ER: Tensor) -> Tensor:
        ctx.save_for_backward(down_BTR, up_ER)
        ctx.dtype = y_BTE.dtype
        return torch.addmm(y_BTE.flatten(0, 1), down_BTR.flatten(0, 1), up_ER.T).view_as(y_BTE)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_sum_BTE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        down_BTR, up_ER = ctx.saved_tensors
        d_sum_NE = d_sum_BTE.flatten(0, 1)
        d_down_RN = up_ER.T.to(d_sum_NE.dtype) @ d_sum_NE.T
        d_up_RE = down_BTR.flatten(0, 1).T.to(d_sum_NE.dtype) @ d_sum_NE
        d_down_BTR = d_down_RN.T.view_as(down_BTR).to(down_BTR.dtype)
        return d_sum_BTE.to(ctx.dtype), d_down_BTR, d_up_RE.T.contiguous().to(up_ER.dtype)


def mix_with_previous(k_BTD: Tensor, now_H: Tensor, before_H: Tensor, previous_B1D: Tensor | None = None) -> Tensor:
    """k_t <- now_h k_t + before_h k_{t-1}; the first key is its own predecessor unless `previous` is given."""
    now_H, before_H = now_H.to(k_BTD.dtype), before_H.to(k_BTD.dtype)
    if torch.compiler.is_compiling():  # the compiler fuses the formula by itself
        first_B1D = k_BTD[:, :1] if previous_B1D is None else previous_B1D
        shifted_BTD = torch.cat([first_B1D, k_BTD[:, :-1]], dim=1)
        return k_BTD * _per_coordinate(now_H, k_BTD) + shifted_BTD * _per_coordinate(before_H, k_BTD)
    mixed_BTD: Tensor = _Mix.apply(k_BTD, now_H, before_H, previous_B1D)  # type: ignore[no-untyped-call]
    return mixed_BTD


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, k_BTD: Tensor, now_H: Tensor, before_H: Tensor, previous_B1D: Tensor | None) -> Tensor:
        ctx.save_for_backward(k_BTD, now_H, before_H)
        now_D, before_D = _per_coordinate(now_H, k_BTD), _per_coordinate(before_H, k_BTD)
        mixed_BTD = k_BTD * now_D
        mixed_BTD[:, 1:].addcmul_(k_BTD[:, :-1], before_D)
        mixed_BTD[:, :1].addcmul_(k_BTD[:, :1] if previous_B1D is None else previous_B1D, before_D)
        return mixed_BTD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mixed_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        k_BTD, now_H, before_H = ctx.saved_tensors
        now_D, before_D = _per_coordinate(now_H, k_BTD), _per_coordinate(before_H, k_BTD)
        d_k_BTD = d_mixed_BTD * now_D
        d_k_BTD[:, :-1].addcmul_(d_mixed_BTD[:, 1:], before_D)
        d_k_BTD[:, :1].addcmul_(d_mixed_BTD[:, :1], before_D)
        heads = len(now_H)
        d_now_D = (d_mixed_BTD * k_BTD).sum((0, 1))
        d_before_D = (d_mixed_BTD[:, 1:] * k_BTD[:, :-1]).sum((0, 1)) + (d_mixed_BTD[:, 0] * k_BTD[:, 0]).sum(0)
        return d_k_BTD, d_now_D.view(heads, -1).sum(1), d_before_D.view(heads, -1).sum(1), None


def norm_heads(x_BTE: Tensor, heads: int, epsilon: float, gain_H: Tensor | None = None) -> Tensor:
    """x_h <- g_h x_h / rms(x_h), rms^2 = mean of x_h^2 + epsilon; without a gain g = 1."""
    if torch.compiler.is_compiling():
        x_BTHK = x_BTE.view(*x_BTE.shape[:2], heads, -1)
        y_BTE = F.rms_norm(x_BTHK, x_BTHK.shape[-1:], eps=epsilon).flatten(2)
        return y_BTE if gain_H is None else y_BTE * _per_coordinate(gain_H.to(x_BTE.dtype), x_BTE)
    normed_BTE: Tensor = _NormHeads.apply(x_BTE, heads, epsilon, gain_H)  # type: ignore[no-untyped-call]
    return normed_BTE


class _NormHeads(torch.autograd.Function):
    """Head by head, with r = 1 / rms(x) and s = dy.x:  dx = g r (dy - x r^2 s / K),  dg = r s, summed over tokens."""

    @staticmethod
    def forward(ctx: Any, x_BTE: Tensor, heads: int, epsilon: float, gain_H: Tensor | None) -> Tensor:
        x_BTHK = x_BTE.view(*x_BTE.shape[:2], heads, -1)
        exact = torch.promote_types(x_BTE.dtype, torch.float32)  # squares of bf16 are added up in float32
        length_BTH1 = torch.linalg.vector_norm(x_BTHK, dim=-1, keepdim=True, dtype=exact)
        r_BTH1 = length_BTH1.square_().div_(x_BTHK.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x_BTHK, r_BTH1, gain_H)
        return (x_BTHK * _NormHeads._factor(r_BTH1, gain_H)).flatten(2).to(x_BTE.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_BTE: Tensor) -> tuple[Tensor, None, None, Tensor | None]:
        x_BTHK, r_BTH1, gain_H = ctx.saved_tensors
        d_y_BTHK = d_y_BTE.view_as(x_BTHK)
        s_BTH1 = (d_y_BTHK * x_BTHK).sum(-1, keepdim=True, dtype=r_BTH1.dtype)
        factor_BTH1 = _NormHeads._factor(r_BTH1, gain_H)
        d_x_BTHK = d_y_BTHK * factor_BTH1
        d_x_BTHK.addcmul_(x_BTHK, s_BTH1 * factor_BTH1 * r_BTH1 * r_BTH1, value=-1 / x_BTHK.shape[-1])
        d_gain_H = None if gain_H is None else (s_BTH1 * r_BTH1).sum((0, 1)).squeeze(-1).to(gain_H.dtype)
        return d_x_BTHK.flatten(2).to(x_BTHK.dtype), None, None, d_gain_H

    @staticmethod
    def _factor(r_BTH1: Tensor, gain_H: Tensor | None) -> Tensor:
        return r_BTH1 if gain_H is None else r_BTH1 * gain_H.to(r_BTH1.dtype)[:, None]


def _per_coordinate(value_H: Tensor, like_BTD: Tensor) -> Tensor:
    """Each head's value for each of its K coordinates: (D)."""
    return value_H.repeat_interleave(like_BTD.shape[-1] // len(value_H))
