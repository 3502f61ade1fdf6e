"""The embedding, which is also the output matrix: one gradient for both of its uses."""

# B batch  T time  D model width  V vocabulary

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def look_up(weight_VD: Tensor, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens' rows (B, T, D), and the whole matrix for the output head.

    Taking both from here lets the few rows' gradient be added into the head's, which is as large as the matrix:
    looked up apart, the rows' gradient would be a second matrix of that size, almost all zeros.
    """
    if torch.compiler.is_compiling():  # the compiler cannot follow a gradient that is added to in place
        return F.embedding(tokens_BT, weight_VD), weight_VD
    rows_BTD, same_VD = _LookUp.apply(weight_VD, tokens_BT)  # type: ignore[no-untyped-call]
    return rows_BTD, same_VD


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(tokens_BT)
        ctx.vocabulary = len(weight_VD)
        return F.embedding(tokens_BT, weight_VD), weight_VD.view_as(weight_VD)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows_BTD: Tensor | None, d_weight_VD: Tensor | None) -> tuple[Tensor | None, None]:
        if d_rows_BTD is None:
            return d_weight_VD, None
        (tokens_BT,) = ctx.saved_tensors
        if d_weight_VD is None:
            d_weight_VD = d_rows_BTD.new_zeros(ctx.vocabulary, d_rows_BTD.shape[-1])
        d_weight_VD.index_add_(0, tokens_BT.flatten(), d_rows_BTD.flatten(0, 1).to(d_weight_VD.dtype))
        return d_weight_VD, None
