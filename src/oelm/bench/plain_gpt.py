"""A GPT as a PyTorch user would write it, after nanoGPT: what our model has to be as fast as.

It computes the same function as our baseline (a test holds them against each other in float64): pre-norm blocks,
learned positions, GELU, no biases in attention, an embedding that is also the output matrix. Q, K and V are one
fused matrix.
"""

# B batch  T time  D model width  H heads  K head width  V vocabulary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.config.model import GPTConfig


class PlainAttention(nn.Module):
    """Causal self-attention with one matrix for Q, K and V."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=False)
        self.c_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Every position attends to itself and those before it."""
        B, T, D = x_BTD.shape
        parts = self.c_attn(x_BTD).split(D, dim=2)
        q_BHTK, k_BHTK, v_BHTK = (part.view(B, T, self.heads, D // self.heads).transpose(1, 2) for part in parts)
        y_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
        return self.c_proj(y_BHTK.transpose(1, 2).contiguous().view(B, T, D))  # type: ignore[no-any-return]


class PlainBlock(nn.Module):
    """One layer."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width)
        self.attn = PlainAttention(config)
        self.ln_2 = nn.LayerNorm(config.width)
        self.c_fc = nn.Linear(config.width, config.ffn_width)
        self.c_proj = nn.Linear(config.ffn_width, config.width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Attention, then the feed-forward network, each added to its input."""
        x_BTD = x_BTD + self.attn(self.ln_1(x_BTD))
        return x_BTD + self.c_proj(F.gelu(self.c_fc(self.ln_2(x_BTD))))  # type: ignore[no-any-return]


class PlainGPT(nn.Module):
    """The model."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.h = nn.ModuleList(PlainBlock(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(_draw)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        positions_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x_BTD = self.wte(tokens_BT) + self.wpe(positions_T)
        for block in self.h:
            x_BTD = block(x_BTD)
        return self.lm_head(self.ln_f(x_BTD))  # type: ignore[no-any-return]


@torch.no_grad()
def continue_plainly(model: PlainGPT, tokens_BT: Tensor, new: int) -> Tensor:
    """Append the likeliest token `new` times; everything is computed anew for each, as nanoGPT does."""
    model.eval()
    for _ in range(new):
        logits_BTV = model(tokens_BT[:, -model.config.context :])
        tokens_BT = torch.cat([tokens_BT, logits_BTV[:, -1:].argmax(-1)], dim=1)
    return tokens_BT


def _draw(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
