"""The feed-forward layer of each style: a sum over hidden units, so two side by side are one larger one."""

# B batch  T time  D model width  F hidden units

import torch.nn.functional as F
from torch import Tensor, nn

from oelm.config.model import GPTConfig, Style
from oelm.model.projecting import project


class FeedForward(nn.Module):
    """x -> W_down gelu(W_up x + b_up) + b_down."""

    def __init__(self, width: int, units: int, *, output_bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(width, units)
        self.down = nn.Linear(units, width, bias=output_bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The sum over this module's hidden units."""
        return self.down(F.gelu(self.up(x_BTD)))  # type: ignore[no-any-return]


class SwiGLU(nn.Module):
    """x -> W_down (silu(W_gate x) * W_up x): a hidden unit is a row of gate, a row of up and a column of down."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, units, bias=False)
        self.up = nn.Linear(width, units, bias=False)
        self.down = nn.Linear(units, width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The sum over this module's hidden units; gate and up in one matmul."""
        gate_BTF, up_BTF = project(x_BTD, self.gate.weight, self.up.weight)
        return self.down(F.silu(gate_BTF) * up_BTF)  # type: ignore[no-any-return]


def feed_forward(config: GPTConfig, units: int, *, output_bias: bool) -> FeedForward | SwiGLU:
    """`units` hidden units in the config's style; `output_bias` says which of several modules has it, if any does."""
    if config.style is Style.LLAMA:
        return SwiGLU(config.width, units)
    return FeedForward(config.width, units, output_bias=output_bias)
