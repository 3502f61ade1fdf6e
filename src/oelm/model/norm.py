"""The norm of each style.

LayerNorm:  w (x - mean(x)) / sqrt(var(x) + epsilon) + b          RMSNorm:  w x / sqrt(mean(x^2) + epsilon)
"""

from torch import nn

from oelm.config.model import BLOCK_NORM_EPSILON, GPTConfig, Style


def norm(config: GPTConfig) -> nn.LayerNorm | nn.RMSNorm:
    """A norm of the residual stream."""
    if config.style is Style.LLAMA:
        return nn.RMSNorm(config.width, eps=BLOCK_NORM_EPSILON)
    return nn.LayerNorm(config.width, eps=BLOCK_NORM_EPSILON)
