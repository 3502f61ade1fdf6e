"""The GPT: pre-norm blocks and an embedding that is also the output matrix.

x = E[tokens] + P            h = x + attention(norm(x))            x' = h + ffn(norm(h))
logits = norm(x_L) E^T

In the style of GPT-2, P are learned positions; in that of Llama there is no P, and attention turns its queries and
keys (`rotary.py`). Which norm and which FFN belong to a style, `norm.py` and `feed_forward.py` say.
"""

# B batch  T time  D model width  V vocabulary

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from oelm.base.errors import ConfigError
from oelm.config.method import FreezingPlan, Method
from oelm.config.model import GPTConfig, Style
from oelm.method.freezing import chosen_layers
from oelm.model.attention import Attention, LayerCache
from oelm.model.blind import BlindAttention, BlindCache
from oelm.model.embedding import look_up
from oelm.model.feed_forward import feed_forward
from oelm.model.head import summed_loss, token_losses
from oelm.model.norm import norm

Cache = list[LayerCache | BlindCache]
"""The key/value cache of generation, one entry per layer."""


class Block(nn.Module):
    """One layer. Where the plan freezes a share of the FFN, its hidden units live in a module of their own:

    an FFN is a sum over hidden units, so two side by side are one, and the frozen part needs no gradient.
    """

    def __init__(self, config: GPTConfig, method: Method, layer: int) -> None:
        super().__init__()
        shared = shared_units(config, method.plan, layer)
        self.attention_norm = norm(config)
        self.attention = BlindAttention(config) if method.blind else Attention(config, method, layer)
        self.ffn_norm = norm(config)
        self.ffn = feed_forward(config, config.ffn_width - shared, output_bias=True)
        self.ffn_share = feed_forward(config, shared, output_bias=False) if shared else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, cache: LayerCache | BlindCache | None = None) -> Tensor:
        """One layer of the residual stream."""
        x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), cache))
        h_BTD = self.ffn_norm(x_BTD)
        out_BTD = self.ffn(h_BTD) if self.ffn_share is None else self.ffn(h_BTD) + self.ffn_share(h_BTD)
        return x_BTD + self.dropout(out_BTD)  # type: ignore[no-any-return]


class GPT(nn.Module):
    """The model. Its weights are uninitialised memory until `initialise` draws all of them in one pass."""

    def __init__(self, config: GPTConfig, method: Method) -> None:
        super().__init__()
        if method.pretrained is not None:
            raise ConfigError(f"{method.name} needs a pre-trained model", "for a GPT from scratch take oelm")
        self.config = config
        self.method = method
        self.token_embedding = nn.Embedding(config.vocabulary, config.width)
        learned = config.style is Style.GPT
        self.position_embedding = nn.Embedding(config.context, config.width) if learned else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, method, layer) for layer in range(config.layers))
        self.final_norm = norm(config)
        self._checkpointing = False

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of the next token at every position; with targets, the sum of their losses instead."""
        rows_BTD, embedding_VD = look_up(self.token_embedding.weight, tokens_BT)
        x_BTD = self._transform(rows_BTD, None)
        if targets_BT is None:
            return F.linear(x_BTD, embedding_VD)
        loss: Tensor = summed_loss(x_BTD.flatten(0, 1), embedding_VD, targets_BT.flatten())
        return loss

    def token_losses(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """The loss of every target (B x T in one row), without gradients."""
        x_ND = self.encode(tokens_BT).flatten(0, 1)
        return token_losses(x_ND, self.token_embedding.weight, targets_BT.flatten())

    def encode(self, tokens_BT: Tensor, cache: Cache | None = None) -> Tensor:
        """The last layer's normed output (B, T, D): what the logits, or another head, are made of.

        With a cache the tokens follow those in it, and are in it afterwards.
        """
        return self._transform(self.token_embedding(tokens_BT), cache)

    def logits(self, x_BTD: Tensor) -> Tensor:
        """The logits (B, T, V) of encoded tokens."""
        return F.linear(x_BTD, self.token_embedding.weight)

    def new_cache(self, batch: int) -> Cache:
        """An empty cache for a full context of `batch` texts."""
        context, like = self.config.context, self.token_embedding.weight
        return [block.attention.new_cache(batch, context, like) for block in self.blocks]

    @property
    def blocks(self) -> list[Block]:
        """The layers, bottom first."""
        return list(self.layers)  # type: ignore[arg-type]

    def gradient_checkpointing_enable(self) -> None:
        """Keep only each layer's input for the backward pass and compute the rest again: less memory, a third slower.

        Under the name that transformers gives it.
        """
        self._checkpointing = True

    def _transform(self, rows_BTD: Tensor, cache: Cache | None) -> Tensor:
        if self.position_embedding is not None:
            start, time = cache[0].length if cache else 0, rows_BTD.shape[1]
            rows_BTD = rows_BTD + self.position_embedding.weight[start : start + time]
        x_BTD: Tensor = self.dropout(rows_BTD)
        for index, block in enumerate(self.layers):
            if self._checkpointing and self.training:
                x_BTD = checkpoint(block, x_BTD, use_reentrant=False)
            else:
                x_BTD = block(x_BTD, cache[index] if cache else None)
        return self.final_norm(x_BTD)  # type: ignore[no-any-return]


def shared_units(config: GPTConfig, plan: FreezingPlan | None, layer: int) -> int:
    """How many hidden units of this layer the plan's share covers as a separate module; 0 if none or all."""
    if plan is None or layer not in chosen_layers(plan.layers, config.layers):
        return 0
    units = round(plan.ffn_share * config.ffn_width)
    return 0 if units == config.ffn_width else units
