"""Our GPT's weights as GPT-2's: biases of V and of attention's output are zero, and GELU is that by erf."""

# mypy: disable-error-code=no-untyped-call
# (transformers leaves its constructors untyped)

# D model width  E = D + 1

from collections.abc import Iterator, Mapping
from typing import TypeVar

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from oelm.config.method import Method
from oelm.config.model import GPTConfig
from oelm.exports.folding import folded_queries_and_keys
from oelm.exports.shifted import OelmGPTConfig, OelmGPTForCausalLM, register


def empty_gpt2(config: GPTConfig, method: Method, end_of_text: int | None) -> GPT2LMHeadModel:
    """A GPT-2 of this size; with a key shift, one that has it."""
    if method.extras.shift:
        register()
        return OelmGPTForCausalLM(_config(OelmGPTConfig, config, end_of_text))
    return GPT2LMHeadModel(_config(GPT2Config, config, end_of_text))


C = TypeVar("C", bound=GPT2Config)


def _config(kind: type[C], config: GPTConfig, end_of_text: int | None) -> C:
    return kind(
        vocab_size=config.vocabulary,
        n_positions=config.context,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        n_inner=config.ffn_width,
        activation_function="gelu",
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.dropout,
        bos_token_id=end_of_text,
        eos_token_id=end_of_text,
        pad_token_id=end_of_text,  # behind the mask it is never read
        tie_word_embeddings=True,  # transformers 5 ties only if the config says so
    )


def gpt2_weights(config: GPTConfig, method: Method, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """GPT-2's names and layouts: matrices are stored (in, out), Q, K and V side by side."""
    embedding = weights["token_embedding.weight"]
    yield "transformer.wte.weight", embedding
    yield "lm_head.weight", embedding
    yield "transformer.wpe.weight", weights["position_embedding.weight"]
    yield from _norm("transformer.ln_f", weights, "final_norm")
    for layer in range(config.layers):
        ours, theirs = f"layers.{layer}", f"transformer.h.{layer}"
        yield from _norm(f"{theirs}.ln_1", weights, f"{ours}.attention_norm")
        yield from _norm(f"{theirs}.ln_2", weights, f"{ours}.ffn_norm")
        q_DE, k_DE = folded_queries_and_keys(config, method, weights, layer)
        v_DD = weights[f"{ours}.attention.v.weight"]
        q_DE, k_DE = q_DE.to(v_DD), k_DE.to(v_DD)
        yield f"{theirs}.attn.c_attn.weight", torch.cat([q_DE[:, :-1], k_DE[:, :-1], v_DD]).T
        yield f"{theirs}.attn.c_attn.bias", torch.cat([q_DE[:, -1], k_DE[:, -1], v_DD.new_zeros(config.width)])
        yield f"{theirs}.attn.c_proj.weight", weights[f"{ours}.attention.o.weight"].T
        yield f"{theirs}.attn.c_proj.bias", v_DD.new_zeros(config.width)
        if method.extras.shift:
            yield f"{theirs}.attn.shift_H", weights[f"{ours}.attention.shift_H"]
        yield from _ffn(f"{theirs}.mlp", weights, ours)


def _norm(theirs: str, weights: Mapping[str, Tensor], ours: str) -> Iterator[tuple[str, Tensor]]:
    for part in ("weight", "bias"):
        yield f"{theirs}.{part}", weights[f"{ours}.{part}"]


def _ffn(theirs: str, weights: Mapping[str, Tensor], block: str) -> Iterator[tuple[str, Tensor]]:
    """One FFN: the hidden units that a freezing plan keeps in a module of their own join the others."""
    parts = [f"{block}.{part}" for part in ("ffn", "ffn_share") if f"{block}.{part}.up.weight" in weights]
    yield f"{theirs}.c_fc.weight", torch.cat([weights[f"{part}.up.weight"] for part in parts]).T
    yield f"{theirs}.c_fc.bias", torch.cat([weights[f"{part}.up.bias"] for part in parts])
    yield f"{theirs}.c_proj.weight", torch.cat([weights[f"{part}.down.weight"] for part in parts], dim=1).T
    yield f"{theirs}.c_proj.bias", weights[f"{block}.ffn.down.bias"]
