"""GPT-2 and Llama with a learned key shift, for transformers: k_t <- (1-m_h) k_t + m_h k_{t-1}, m_h = sigmoid(shift_h).

This file needs only torch and transformers. It is copied beside every model that is exported with it, so that
`AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)` works where oelm is not installed.

The cache holds keys before their shift, and all of them are shifted (and in a Llama then turned by their positions) in
each step: beam search may reorder it, and generation needs nothing beyond what transformers caches.
"""

# mypy: disable-error-code=no-untyped-call
# (transformers leaves its constructors untyped)

# B batch  T query time  S key time  D model width  H heads  K head width

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.cache_utils import Cache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, eager_attention_forward
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding, rotate_half
from transformers.models.llama.modeling_llama import eager_attention_forward as eager_llama_attention_forward


class OelmGPTConfig(GPT2Config):
    """GPT-2's config under a name of its own."""

    model_type = "oelm-gpt"


class ShiftedAttention(GPT2Attention):
    """GPT-2's self-attention; each key is mixed with the one before it."""

    def __init__(self, config: OelmGPTConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.shift_H = nn.Parameter(torch.zeros(config.num_attention_heads))

    def forward(  # type: ignore[override]  # no cross-attention here
        self,
        hidden_states: Tensor,
        past_key_values: Cache | None = None,
        attention_mask: Tensor | None = None,
        start_B: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Order: projection, cache, shift, logits."""
        shape = (*hidden_states.shape[:-1], self.num_heads, self.head_dim)
        fused = self.c_attn(hidden_states).split(self.split_size, dim=2)
        q_BHTK, k_BHSK, v_BHSK = (part.view(shape).transpose(1, 2) for part in fused)
        if past_key_values is not None:
            k_BHSK, v_BHSK = past_key_values.update(k_BHSK, v_BHSK, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        y_BTHK, weights = attend(
            self,
            q_BHTK,
            shift_keys(k_BHSK, self.shift_H, start_B),
            v_BHSK,
            attention_mask,
            dropout=self.attn_dropout.p if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        y_BTD = y_BTHK.reshape(*y_BTHK.shape[:2], -1).contiguous()
        return self.resid_dropout(self.c_proj(y_BTD)), weights


class OelmLlamaConfig(LlamaConfig):
    """Llama's config under a name of its own."""

    model_type = "oelm-llama"


class ShiftedLlamaAttention(LlamaAttention):
    """Llama's self-attention; each key is mixed with the one before it, and turned by its position after that."""

    def __init__(self, config: OelmLlamaConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.shift_H = nn.Parameter(torch.zeros(config.num_attention_heads))
        self.rotary_emb = LlamaRotaryEmbedding(config)

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        position_embeddings: Any = None,  # noqa: ARG002 (of the new tokens only; a token's position is its place)
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        start_B: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Order: projection, cache, shift, rotary, logits. (Padding moves all places alike: logits see distances.)"""
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        projected = (project(hidden_states) for project in (self.q_proj, self.k_proj, self.v_proj))
        q_BHTK, k_BHSK, v_BHSK = (part.view(shape).transpose(1, 2) for part in projected)
        time, start = q_BHTK.shape[2], 0
        if past_key_values is not None:
            start = int(past_key_values.get_seq_length(self.layer_idx))  # a static cache gives its whole memory back
            k_BHSK, v_BHSK = past_key_values.update(k_BHSK, v_BHSK, self.layer_idx)
        keys = k_BHSK.shape[2]
        cos_1SK, sin_1SK = self.rotary_emb(k_BHSK, torch.arange(keys, device=k_BHSK.device)[None])
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_llama_attention_forward)
        y_BTHK, weights = attend(
            self,
            turn(q_BHTK, cos_1SK[:, start : start + time], sin_1SK[:, start : start + time]),
            turn(shift_keys(k_BHSK, self.shift_H, start_B), cos_1SK, sin_1SK),
            v_BHSK,
            attention_mask,
            dropout=self.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        return self.o_proj(y_BTHK.reshape(*y_BTHK.shape[:2], -1).contiguous()), weights


def turn(x_BHTK: Tensor, cos_1TK: Tensor, sin_1TK: Tensor) -> Tensor:
    """Rotary positions, as transformers' Llama has them."""
    turned_BHTK: Tensor = x_BHTK * cos_1TK + rotate_half(x_BHTK) * sin_1TK
    return turned_BHTK


def shift_keys(k_BHSK: Tensor, shift_H: Tensor, start_B: Tensor | None = None) -> Tensor:
    """k_t <- (1-m_h) k_t + m_h k_{t-1}; the first key is its own predecessor.

    `start_B` is the place of each text's first token where there is padding before it: that key is the first then.
    """
    previous_BHSK = torch.cat([k_BHSK[:, :, :1], k_BHSK[:, :, :-1]], dim=2)
    if start_B is not None:
        is_first_BS = torch.arange(k_BHSK.shape[2], device=k_BHSK.device) == start_B[:, None]
        previous_BHSK = torch.where(is_first_BS[:, None, :, None], k_BHSK, previous_BHSK)
    m_H11 = shift_H.sigmoid().to(k_BHSK.dtype).view(-1, 1, 1)
    return torch.lerp(k_BHSK, previous_BHSK, m_H11.expand_as(k_BHSK))


class OelmGPTForCausalLM(GPT2LMHeadModel):
    """GPT-2 whose attention shifts its keys."""

    config_class = OelmGPTConfig

    def __init__(self, config: OelmGPTConfig) -> None:
        super().__init__(config)
        for layer, block in enumerate(self.transformer.h):
            block.attn = ShiftedAttention(config, layer)
        self.transformer.register_forward_pre_hook(_find_starts, with_kwargs=True)
        self.post_init()


class OelmLlamaForCausalLM(LlamaForCausalLM):
    """Llama whose attention shifts its keys."""

    config_class = OelmLlamaConfig

    def __init__(self, config: OelmLlamaConfig) -> None:
        super().__init__(config)
        for layer, block in enumerate(self.model.layers):
            block.self_attn = ShiftedLlamaAttention(config, layer)
        self.model.register_forward_pre_hook(_find_starts, with_kwargs=True)
        self.post_init()


def _find_starts(model: nn.Module, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Tell every layer where texts begin, by the mask: of (past and present) tokens, the first that is not padding."""
    given = named
    if arguments[1:]:  # the mask may be given by its place
        given = inspect.signature(model.forward).bind_partial(*arguments, **named).arguments
    mask = given.get("attention_mask")
    mask = mask.get("full_attention") if isinstance(mask, dict) else mask
    if mask is not None and mask.ndim == 4:  # what `generate` gives with a static cache: which keys the last query sees
        seen_BS = mask[:, 0, -1]
        mask = seen_BS if seen_BS.dtype is torch.bool else seen_BS >= 0
    if mask is not None:
        named = {**named, "start_B": mask.to(torch.int8).argmax(dim=1)}
    return arguments, named


def register() -> None:
    """Let AutoConfig and AutoModelForCausalLM know these models, also where they are saved."""
    for model in (OelmGPTForCausalLM, OelmLlamaForCausalLM):
        config = model.config_class
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModelForCausalLM.register(config, model, exist_ok=True)
        config.register_for_auto_class()
        model.register_for_auto_class("AutoModelForCausalLM")
