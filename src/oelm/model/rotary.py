"""Rotary positions: each pair of a head's coordinates is turned by an angle that grows with the position.

    (x_i, x_{i+K/2})  <-  rotation by t theta^(-2i/K) of (x_i, x_{i+K/2}),    i < K/2,  theta = 10,000

(R_t q)^T (R_u k) = q^T R_{u-t} k: logits see how far apart two tokens are. The two of a pair are half a head apart, as
in transformers' Llama, and not neighbours. R comes last, on q and k as their product reads them: after low rank, bias,
shift and core. (Shifting keys that were turned already would mix keys of two angles, and a core between R_t and R_u
would see absolute positions.) Gain and norm may stand on either side: a rotation changes no length.
"""

# B batch  H heads  T time  C context  K head width of Q and K

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from oelm.config.model import ROTARY_THETA


class Rotary(nn.Module):
    """Cosines and sines of all angles of a context, computed once and no part of a checkpoint."""

    cos_CK: Tensor
    sin_CK: Tensor

    def __init__(self, context: int, head_width: int) -> None:
        super().__init__()
        speed_K = ROTARY_THETA ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width).repeat(2)
        angle_CK = torch.outer(torch.arange(context, dtype=torch.float64), speed_K)
        # In float64 until the model is cast: a model in float64 then has exact angles.
        self.register_buffer("cos_CK", angle_CK.cos(), persistent=False)
        self.register_buffer("sin_CK", angle_CK.sin(), persistent=False)

    def forward(self, x_BHTK: Tensor, start: int = 0) -> Tensor:
        """Queries or keys of the positions from `start` on, turned."""
        end = start + x_BHTK.shape[2]
        return turn(x_BHTK, self.cos_CK[start:end].to(x_BHTK.dtype), self.sin_CK[start:end].to(x_BHTK.dtype))


def turn(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    """x_i cos - x_{i+K/2} sin, and x_{i+K/2} cos + x_i sin."""
    if torch.compiler.is_compiling():  # the compiler fuses the formula by itself
        first, second = x_BHTK.chunk(2, dim=-1)
        return x_BHTK * cos_TK + torch.cat([-second, first], dim=-1) * sin_TK
    turned_BHTK: Tensor = _Turn.apply(x_BHTK, cos_TK, sin_TK)  # type: ignore[no-untyped-call]
    return turned_BHTK


class _Turn(torch.autograd.Function):
    """The gradient is turned back; nothing but the angles is kept for it."""

    @staticmethod
    def forward(ctx: Any, x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
        ctx.save_for_backward(cos_TK, sin_TK)
        return _turned(x_BHTK, cos_TK, sin_TK, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_turned_BHTK: Tensor) -> tuple[Tensor, None, None]:
        cos_TK, sin_TK = ctx.saved_tensors
        return _turned(d_turned_BHTK, cos_TK, sin_TK, -1), None, None


def _turned(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor, sign: int) -> Tensor:
    """By the angles, or with sign -1 back by them."""
    half = x_BHTK.shape[-1] // 2
    turned_BHTK = x_BHTK * cos_TK
    turned_BHTK[..., :half].addcmul_(x_BHTK[..., half:], sin_TK[:, half:], value=-sign)
    turned_BHTK[..., half:].addcmul_(x_BHTK[..., :half], sin_TK[:, :half], value=sign)
    return turned_BHTK
