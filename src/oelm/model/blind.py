"""Attention without queries and keys: every token reads the mean of what came before.

    y_t = W_O 1/(t+1) sum_{u <= t} W_V x_u

This is what attention does when all logits are equal. It is the negative control: a model that learns nothing of where
to look must do worse than one that does, or the test-bed cannot tell methods apart.
"""

# B batch  T time  D model width

import torch
from torch import Tensor, nn

from oelm.config.model import GPTConfig


class BlindCache:
    """What one layer remembers during generation: how many values there were, and their sum."""

    def __init__(self) -> None:
        self.length = 0
        self.sum_B1D: Tensor | None = None


class BlindAttention(nn.Module):
    """A running mean of the values: one cumulative sum, no scores, no matmul over time.

    Dropout of attention weights has no place here: there are none. That of the residual stream stays.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.v = nn.Linear(config.width, config.width, bias=False)
        self.o = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BTD: Tensor, cache: BlindCache | None = None) -> Tensor:
        """The mean over each token and those before it; `cache` knows the tokens before x, and then x too."""
        v_BTD: Tensor = self.v(x_BTD)
        # Sums grow with the context: in 32 bits even where values have 16.
        sum_BTD = v_BTD.cumsum(1, dtype=torch.promote_types(v_BTD.dtype, torch.float32))
        past = cache.length if cache is not None else 0
        if cache is not None:
            if cache.sum_B1D is not None:
                sum_BTD = sum_BTD + cache.sum_B1D
            cache.length, cache.sum_B1D = past + x_BTD.shape[1], sum_BTD[:, -1:]
        counts_T1 = torch.arange(past + 1, past + x_BTD.shape[1] + 1, device=x_BTD.device)[:, None]
        y_BTD: Tensor = self.o((sum_BTD / counts_T1).to(v_BTD.dtype))
        return y_BTD

    def new_cache(self, batch: int, context: int, like: Tensor) -> BlindCache:  # noqa: ARG002 (it makes no room)
        """An empty cache: it takes the same room for any context."""
        return BlindCache()
