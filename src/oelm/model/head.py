"""The output head: next-token losses without ever holding all logits.

    loss_n = log sum_v exp(x_n . E_v) - x_n . E_{y_n}

N rows of x against V rows of the embedding E make N x V logits: 800 MB for 4,096 tokens and GPT-2's vocabulary, written
and read several times. Here a few hundred rows at a time pass through one buffer, and where gradients are wanted they
are computed from it at once, while it is in the cache:

    dx_n = sum_v p_nv E_v - E_{y_n}            dE_v = sum_n p_nv x_n - sum_{n: y_n = v} x_n
"""

# N tokens  R rows of them  D model width  V vocabulary

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 512
"""Tokens at a time: enough for matmuls at full speed; 512 rows of 50,257 logits are 100 MB."""

_LOG2_E = 1 / math.log(2)


def token_losses(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """The loss of every token (N), without gradients."""
    x_ND, weight_VD = _in_autocast_type(x_ND), _in_autocast_type(weight_VD)
    buffer_RV = _buffer(x_ND, weight_VD)
    parts = [slice(start, start + ROWS) for start in range(0, len(x_ND), ROWS)]
    return torch.cat([_exponentials(x_ND[rows], weight_VD, targets_N[rows], buffer_RV)[0] for rows in parts])


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a compiled graph would unroll the loop and hold what it should not
def summed_loss(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """The sum of all tokens' losses, with gradients for x and for the embedding where they are wanted."""
    if torch.is_grad_enabled() and (x_ND.requires_grad or weight_VD.requires_grad):
        loss: Tensor = _SummedLoss.apply(x_ND, weight_VD, targets_N)  # type: ignore[no-untyped-call]
        return loss
    return token_losses(x_ND, weight_VD, targets_N).sum()


class _SummedLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass; the backward pass only returns them, once."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
        """Loss and gradients, a few hundred rows at a time."""
        low_x_ND, low_weight_VD = _in_autocast_type(x_ND), _in_autocast_type(weight_VD)
        buffer_RV = _buffer(low_x_ND, low_weight_VD)
        d_x_ND = torch.empty_like(x_ND)
        d_weight_VD = torch.empty_like(weight_VD) if ctx.needs_input_grad[1] else None
        losses = []
        with torch.autocast(x_ND.device.type, enabled=False):
            for start in range(0, len(x_ND), ROWS):
                rows = slice(start, start + ROWS)
                x_RD, targets_R = low_x_ND[rows], targets_N[rows]
                losses_R, d_logits_RV, sums_R1 = _exponentials(x_RD, low_weight_VD, targets_R, buffer_RV)
                # The gradient of the logits is p - [v = y] with p = exponentials / sums. The division is left to
                # the two thin matrices that it is multiplied with.
                d_logits_RV.scatter_add_(1, targets_R[:, None], -sums_R1)
                d_logits_RV = d_logits_RV.to(x_RD.dtype)
                _product(d_logits_RV, low_weight_VD, into=d_x_ND[rows], add=False)
                d_x_ND[rows].div_(sums_R1)
                if d_weight_VD is not None:
                    _product(d_logits_RV.T, (x_RD / sums_R1).to(x_RD.dtype), into=d_weight_VD, add=start > 0)
                losses.append(losses_R)
        ctx.gradients = d_x_ND, d_weight_VD
        return torch.cat(losses).sum().to(x_ND.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """Scale the gradients; on a CPU the factor is checked first, because it is usually 1."""
        (d_x_ND, d_weight_VD), ctx.gradients = ctx.gradients, None
        if d_loss.device.type == "cpu" and d_loss.item() == 1:
            return d_x_ND, d_weight_VD, None
        return d_x_ND * d_loss, None if d_weight_VD is None else d_weight_VD * d_loss, None


def _exponentials(
    x_RD: Tensor, weight_VD: Tensor, targets_R: Tensor, buffer_RV: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (R), exp(logits - largest) (R, V) in the buffer, and their sums (R, 1).

    The logits are computed in units of ln 2, because 2^x takes half the time of e^x on a CPU.
    """
    with torch.autocast(x_RD.device.type, enabled=False):
        logits_RV = torch.mm(x_RD * _LOG2_E, weight_VD.T, out=buffer_RV[: len(x_RD)])
        if logits_RV.dtype in (torch.bfloat16, torch.float16):
            logits_RV = logits_RV.float()
        target_R1 = logits_RV.gather(1, targets_R[:, None])
        largest_R1 = logits_RV.amax(1, keepdim=True)
        exponentials_RV = logits_RV.sub_(largest_R1).exp2_()
        sums_R1 = exponentials_RV.sum(1, keepdim=True)
        losses_R1 = (sums_R1.log2() + largest_R1 - target_R1) / _LOG2_E
        return losses_R1[:, 0], exponentials_RV, sums_R1


def _product(left: Tensor, right: Tensor, *, into: Tensor, add: bool) -> None:
    """into = left right, or into += left right, without a matrix between where the types allow it."""
    if into.dtype is not left.dtype:
        product = torch.mm(left, right)
        into.add_(product) if add else into.copy_(product)
    elif add:
        torch.addmm(into, left, right, out=into)
    else:
        torch.mm(left, right, out=into)


def _buffer(x_ND: Tensor, weight_VD: Tensor) -> Tensor:
    """Room for R x V logits whose rows begin at multiples of 64 bytes: a third faster to write for V = 50,257."""
    vocabulary = len(weight_VD)
    return x_ND.new_empty(min(ROWS, len(x_ND)), math.ceil(vocabulary / 16) * 16)[:, :vocabulary]


def _in_autocast_type(tensor: Tensor) -> Tensor:
    """As autocast would convert the inputs of a matmul."""
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor
