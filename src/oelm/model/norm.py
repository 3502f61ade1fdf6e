"""The norm of each style.

LayerNorm:  w (x - mean(x)) / sqrt(var(x) + epsilon) + b          RMSNorm:  w x / sqrt(mean(x^2) + epsilon)
"""

from torch import nn

from oelm.config.model import GPTConfig, Style

EPSILON = 1e-5
"""Torch's for LayerNorm, and that of Llama 2 and 3 (transformers' `LlamaConfig` has 1e-6 unless told)."""


def norm(config: GPTConfig) -> nn.LayerNorm | nn.RMSNorm:
    """A norm of the residual stream."""
    kind = {Style.GPT: nn.LayerNorm, Style.LLAMA: nn.RMSNorm}[config.style]
    return kind(config.width, eps=EPSILON)
