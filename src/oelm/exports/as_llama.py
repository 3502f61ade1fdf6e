"""Our GPT's weights in Llama style as Llama's. Only a method's own biases of Q and K make it one with biases."""

# mypy: disable-error-code="no-untyped-call, call-arg"
# (transformers leaves its constructors untyped, and its configs take more than they declare)

# D model width  E = D + 1

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from oelm.config.method import Method
from oelm.config.model import GPTConfig
from oelm.exports.folding import folded_queries_and_keys
from oelm.exports.shifted import OelmLlamaConfig, OelmLlamaForCausalLM, register
from oelm.surgery.random_models import llama_config


def empty_llama(config: GPTConfig, method: Method, end_of_text: int | None) -> LlamaForCausalLM:
    """A Llama of this size; with a key shift, one that has it."""
    if method.extras.shift:
        register()
        return OelmLlamaForCausalLM(llama_config(OelmLlamaConfig, config, end_of_text, biases=method.extras.bias))
    return LlamaForCausalLM(llama_config(LlamaConfig, config, end_of_text, biases=method.extras.bias))


def llama_weights(config: GPTConfig, method: Method, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Llama's names; matrices are stored (out, in) as ours."""
    embedding = weights["token_embedding.weight"]
    yield "model.embed_tokens.weight", embedding
    yield "lm_head.weight", embedding
    yield "model.norm.weight", weights["final_norm.weight"]
    for layer in range(config.layers):
        ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
        yield f"{theirs}.input_layernorm.weight", weights[f"{ours}.attention_norm.weight"]
        yield f"{theirs}.post_attention_layernorm.weight", weights[f"{ours}.ffn_norm.weight"]
        q_DE, k_DE = (part.to(embedding) for part in folded_queries_and_keys(config, method, weights, layer))
        zeros_D = embedding.new_zeros(config.width)
        for side, matrix_DD, bias_D in (
            ("q", q_DE[:, :-1], q_DE[:, -1]),
            ("k", k_DE[:, :-1], k_DE[:, -1]),
            ("v", weights[f"{ours}.attention.v.weight"], zeros_D),
            ("o", weights[f"{ours}.attention.o.weight"], zeros_D),
        ):
            yield f"{theirs}.self_attn.{side}_proj.weight", matrix_DD
            if method.extras.bias:
                yield f"{theirs}.self_attn.{side}_proj.bias", bias_D
        if method.extras.shift:
            yield f"{theirs}.self_attn.shift_H", weights[f"{ours}.attention.shift_H"]
        yield from _ffn(f"{theirs}.mlp", weights, ours)


def _ffn(theirs: str, weights: Mapping[str, Tensor], block: str) -> Iterator[tuple[str, Tensor]]:
    """One FFN: the hidden units that a freezing plan keeps in a module of their own join the others."""
    parts = [f"{block}.{part}" for part in ("ffn", "ffn_share") if f"{block}.{part}.up.weight" in weights]
    for matrix, dim in (("gate", 0), ("up", 0), ("down", 1)):
        joined = torch.cat([weights[f"{part}.{matrix}.weight"] for part in parts], dim)
        yield f"{theirs}.{matrix}_proj.weight", joined
