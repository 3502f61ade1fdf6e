"""GPT-2 with a learned key shift, for transformers: k_t <- (1-m_h) k_t + m_h k_{t-1}, m_h = sigmoid(shift_h).

This file needs only torch and transformers. It is copied beside every model that is exported with it, so that
`AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)` works where oelm is not installed.

The cache holds keys before their shift, and all of them are shifted in each step: beam search may reorder it, and
generation needs nothing beyond what GPT-2 caches.
"""

# mypy: disable-error-code=no-untyped-call
# (transformers leaves its constructors untyped)

# B batch  T query time  S key time  D model width  H heads  K head width

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from transformers.cache_utils import Cache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, eager_attention_forward


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


def _find_starts(_model: nn.Module, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Tell every layer where texts begin, by the mask: of (past and present) tokens, the first that is not padding."""
    mask_BS = named.get("attention_mask")
    if mask_BS is not None and mask_BS.ndim == 2:
        named = {**named, "start_B": mask_BS.to(torch.int8).argmax(dim=1)}
    return arguments, named


def register() -> None:
    """Let AutoConfig and AutoModelForCausalLM know these classes, also where they are saved."""
    AutoConfig.register(OelmGPTConfig.model_type, OelmGPTConfig, exist_ok=True)
    AutoModelForCausalLM.register(OelmGPTConfig, OelmGPTForCausalLM, exist_ok=True)
    OelmGPTConfig.register_for_auto_class()
    OelmGPTForCausalLM.register_for_auto_class("AutoModelForCausalLM")
