"""Hugging Face models of a given shape with random weights: built from a config, nothing is downloaded."""

# mypy: disable-error-code="no-untyped-call, call-arg"
# (transformers leaves its constructors untyped, and its configs take more than they declare)

from typing import TypeVar

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from oelm.config.model import BLOCK_NORM_EPSILON, ROTARY_THETA, GPTConfig, Style

LanguageModel = GPT2LMHeadModel | LlamaForCausalLM
C = TypeVar("C", bound=LlamaConfig)


def random_language_model(shape: GPTConfig) -> LanguageModel:
    """GPT-2 or Llama, as the style is."""
    return random_gpt2(shape) if shape.style is Style.GPT else random_llama(shape)


def random_gpt2(shape: GPTConfig) -> GPT2LMHeadModel:
    """GPT-2 with fused attention (SDPA), no dropout and a tied embedding."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=shape.vocabulary,
            n_positions=shape.context,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_inner=shape.ffn_width,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=True,
            attn_implementation="sdpa",
            bos_token_id=0,
            eos_token_id=None,
            pad_token_id=0,
        )
    )


def random_llama(shape: GPTConfig) -> LlamaForCausalLM:
    """Llama with fused attention (SDPA), no dropout and a tied embedding."""
    config = llama_config(LlamaConfig, shape.model_copy(update={"dropout": 0.0}), None)
    config.bos_token_id = config.pad_token_id = 0
    return LlamaForCausalLM(config)


def llama_config(kind: type[C], config: GPTConfig, end_of_text: int | None, *, biases: bool = False) -> C:
    """Transformers' Llama has dropout of attention weights only: that of the residual stream is left behind."""
    return kind(
        vocab_size=config.vocabulary,
        hidden_size=config.width,
        intermediate_size=config.ffn_width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        max_position_embeddings=config.context,
        hidden_act="silu",
        rms_norm_eps=BLOCK_NORM_EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": ROTARY_THETA},
        attention_bias=biases,
        attention_dropout=config.dropout,
        bos_token_id=end_of_text,
        eos_token_id=end_of_text,
        pad_token_id=end_of_text,  # behind the mask it is never read
        tie_word_embeddings=True,  # transformers 5 ties only if the config says so
    )


def random_bert(shape: GPTConfig, classes: int) -> BertForSequenceClassification:
    """BERT with a classification head, fused attention and no dropout; `shape.context` is the length of its texts."""
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=shape.vocabulary,
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.ffn_width,
            max_position_embeddings=max(512, shape.context),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=classes,
            use_cache=False,
            attn_implementation="sdpa",
        )
    )


def logits_of(model: LanguageModel, tokens_BT: Tensor) -> Tensor:
    """Logits (B, T, V) of a training pass: nothing is cached."""
    logits_BTV: Tensor = model(input_ids=tokens_BT, use_cache=False).logits
    return logits_BTV


@torch.no_grad()
def continue_greedily(model: LanguageModel, prompt_BT: Tensor, new: int) -> Tensor:
    """`model.generate` with its cache: the likeliest token `new` times."""
    model.eval()
    continued: Tensor = model.generate(  # type: ignore[misc, assignment]
        input_ids=prompt_BT,
        attention_mask=torch.ones_like(prompt_BT),
        max_new_tokens=new,
        min_new_tokens=new,
        do_sample=False,
        use_cache=True,
    )
    return continued


def set_checkpointing(model: BertForSequenceClassification, on: bool) -> None:
    """Recompute each layer in the backward pass instead of keeping its activations."""
    if on and not model.is_gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    elif not on and model.is_gradient_checkpointing:
        model.gradient_checkpointing_disable()
