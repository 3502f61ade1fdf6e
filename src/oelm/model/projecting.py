"""From x to queries and keys, with the backward passes written out.

Matrices that read the same x, as one matmul; low-rank updates; keys mixed with the key before them; normed heads.
"""

# B batch  T time  N = B T  D model width  E = H K  R rank  H heads  K head width of Q and K

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


def shift_keys(k_BHTK: Tensor, m_H: Tensor, previous_BH1K: Tensor | None = None) -> Tensor:
    """k_t <- (1-m_h) k_t + m_h k_{t-1}; the first key is its own predecessor unless `previous` is given."""
    m_H11 = m_H.to(k_BHTK.dtype)[:, None, None]
    if previous_BH1K is None and not torch.compiler.is_compiling():
        shifted_BHTK: Tensor = _ShiftKeys.apply(k_BHTK, m_H11)  # type: ignore[no-untyped-call]
        return shifted_BHTK
    first_BH1K = k_BHTK[:, :, :1] if previous_BH1K is None else previous_BH1K
    return torch.lerp(k_BHTK, torch.cat([first_BH1K, k_BHTK[:, :, :-1]], dim=2), m_H11)


class _ShiftKeys(torch.autograd.Function):
    """From rows (B, T, H K) in memory to head by head (B, H, T, K), as attention reads keys; and its gradient back."""

    @staticmethod
    def forward(ctx: Any, k_BHTK: Tensor, m_H11: Tensor) -> Tensor:
        ctx.save_for_backward(k_BHTK, m_H11)
        shifted_BHTK = k_BHTK.new_empty(k_BHTK.shape)
        torch.lerp(k_BHTK[:, :, 1:], k_BHTK[:, :, :-1], m_H11, out=shifted_BHTK[:, :, 1:])
        shifted_BHTK[:, :, :1] = k_BHTK[:, :, :1]
        return shifted_BHTK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_shifted_BHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Key t was read at t and t+1, the last one once, the first one whole at its own place."""
        k_BHTK, m_H11 = ctx.saved_tensors
        batch, heads, time, width = k_BHTK.shape
        d_k_BHTK = k_BHTK.new_empty(batch, time, heads, width).transpose(1, 2)
        d_later = d_shifted_BHTK[:, :, 1:]
        torch.lerp(d_shifted_BHTK[:, :, :-1], d_later, m_H11, out=d_k_BHTK[:, :, :-1])
        torch.mul(d_shifted_BHTK[:, :, -1:], 1 - m_H11, out=d_k_BHTK[:, :, -1:])
        d_k_BHTK[:, :, :1].addcmul_(d_shifted_BHTK[:, :, :1], m_H11)
        back = torch.sub(k_BHTK[:, :, :-1], k_BHTK[:, :, 1:])
        return d_k_BHTK, back.mul_(d_later).sum((0, 2, 3)).view_as(m_H11)


def norm_heads(x_BHTK: Tensor, epsilon: float) -> Tensor:
    """x_h <- x_h / rms(x_h), rms^2 = mean of x_h^2 + epsilon."""
    if torch.compiler.is_compiling():
        return F.rms_norm(x_BHTK, x_BHTK.shape[-1:], eps=epsilon)
    normed_BHTK: Tensor = _NormHeads.apply(x_BHTK, epsilon)  # type: ignore[no-untyped-call]
    return normed_BHTK


class _NormHeads(torch.autograd.Function):
    """With r = 1 / rms(x) and s = dy.x:  dx = r (dy - x r^2 s / K)."""

    @staticmethod
    def forward(ctx: Any, x_BHTK: Tensor, epsilon: float) -> Tensor:
        exact = torch.promote_types(x_BHTK.dtype, torch.float32)  # squares of bf16 are added up in float32
        length_BHT1 = torch.linalg.vector_norm(x_BHTK, dim=-1, keepdim=True, dtype=exact)
        r_BHT1 = length_BHT1.square_().div_(x_BHTK.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x_BHTK, r_BHT1)
        normed_BHTK: Tensor = (x_BHTK * r_BHT1).to(x_BHTK.dtype)
        return normed_BHTK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y_BHTK: Tensor) -> tuple[Tensor, None]:
        x_BHTK, r_BHT1 = ctx.saved_tensors
        s_BHT1 = (d_y_BHTK * x_BHTK).sum(-1, keepdim=True, dtype=r_BHT1.dtype)
        d_x_BHTK = d_y_BHTK * r_BHT1
        d_x_BHTK.addcmul_(x_BHTK, s_BHT1 * r_BHT1**3, value=-1 / x_BHTK.shape[-1])
        return d_x_BHTK.to(x_BHTK.dtype), None
