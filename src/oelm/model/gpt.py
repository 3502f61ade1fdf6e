"""The GPT: pre-norm blocks, learned positions, GELU, an embedding that is also the output matrix.

x = E[tokens] + P            h = x + attention(norm(x))            x' = h + ffn(norm(h))
logits = norm(x_L) E^T
"""

# B batch  T time  D model width  V vocabulary

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.errors import ConfigError
from oelm.config.method import FreezingPlan, Method
from oelm.config.model import GPTConfig
from oelm.method.freezing import chosen_layers
from oelm.model.attention import Attention, LayerCache


@dataclass
class Cache:
    """Generation's memory: one entry per layer, and how many tokens it holds."""

    layers: list[LayerCache]
    length: int


class FeedForward(nn.Module):
    """x -> W_down gelu(W_up x + b_up) + b_down: a sum over hidden units."""

    def __init__(self, width: int, units: int, *, output_bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(width, units)
        self.down = nn.Linear(units, width, bias=output_bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The sum over this module's hidden units."""
        return self.down(F.gelu(self.up(x_BTD)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer. Where the plan freezes a share of the FFN, its hidden units live in a module of their own:

    an FFN is a sum over hidden units, so two side by side are one, and the frozen part needs no gradient.
    """

    def __init__(self, config: GPTConfig, method: Method, layer: int) -> None:
        super().__init__()
        shared = shared_units(config, method.plan, layer)
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config, method)
        self.ffn_norm = nn.LayerNorm(config.width)
        self.ffn = FeedForward(config.width, config.ffn_width - shared, output_bias=True)
        self.ffn_share = FeedForward(config.width, shared, output_bias=False) if shared else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, cache: LayerCache | None) -> tuple[Tensor, LayerCache]:
        """One layer of the residual stream."""
        attended_BTD, cache = self.attention(self.attention_norm(x_BTD), cache)
        x_BTD = x_BTD + self.dropout(attended_BTD)
        h_BTD = self.ffn_norm(x_BTD)
        out_BTD = self.ffn(h_BTD) if self.ffn_share is None else self.ffn(h_BTD) + self.ffn_share(h_BTD)
        return x_BTD + self.dropout(out_BTD), cache


class GPT(nn.Module):
    """The model. Weights are memory as it came until `initialise` has drawn them: one place for all of them."""

    def __init__(self, config: GPTConfig, method: Method) -> None:
        super().__init__()
        if method.pretrained is not None:
            raise ConfigError(f"{method.name} needs a pre-trained model", "for a GPT from scratch take oelm")
        self.config = config
        self.method = method
        self.token_embedding = nn.Embedding(config.vocabulary, config.width)
        self.position_embedding = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, method, layer) for layer in range(config.layers))
        self.final_norm = nn.LayerNorm(config.width)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V) of the next token at every position."""
        return self.continue_from(tokens_BT, None)[0]

    def continue_from(self, tokens_BT: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Logits for tokens that follow those in the cache, and the cache with them in it."""
        x_BTD, cache = self.encode(tokens_BT, cache)
        return F.linear(x_BTD, self.token_embedding.weight), cache

    def encode(self, tokens_BT: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """The last layer's normed output (B, T, D): what the logits, or another head, are made of."""
        start = cache.length if cache else 0
        positions_T = torch.arange(start, start + tokens_BT.shape[1], device=tokens_BT.device)
        x_BTD = self.dropout(self.token_embedding(tokens_BT) + self.position_embedding(positions_T))
        layers: list[LayerCache] = []
        for index, block in enumerate(self.layers):
            x_BTD, layer_cache = block(x_BTD, cache.layers[index] if cache else None)
            layers.append(layer_cache)
        return self.final_norm(x_BTD), Cache(layers, start + tokens_BT.shape[1])


def shared_units(config: GPTConfig, plan: FreezingPlan | None, layer: int) -> int:
    """How many hidden units of this layer the plan's share covers as a separate module; 0 if none or all."""
    if plan is None or layer not in chosen_layers(plan.layers, config.layers):
        return 0
    units = round(plan.ffn_share * config.ffn_width)
    return 0 if units == config.ffn_width else units
