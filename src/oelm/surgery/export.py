"""Our GPT as a Hugging Face folder that `AutoModelForCausalLM` and `AutoTokenizer` load.

Without a key shift it is plain GPT-2 (V and output biases zero, GELU by erf), which loads everywhere; with one it is
`shifted_gpt.OelmGPTForCausalLM`, which loads after `import oelm`, and elsewhere with `trust_remote_code=True`. The
model is read by the names of its weights, the same that checkpoints hold.
"""

# mypy: disable-error-code=no-untyped-call
# (transformers leaves its constructors untyped)

# D model width  E = D + 1

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from oelm.base.errors import ConfigError, DataError
from oelm.base.files import writing_folder
from oelm.config.method import Method
from oelm.config.model import GPTConfig
from oelm.surgery.folding import folded_queries_and_keys, refuse_unfoldable
from oelm.surgery.shifted_gpt import OelmGPTConfig, OelmGPTForCausalLM, register

END_OF_TEXT = "<|endoftext|>"


class OurGPT(Protocol):
    """What is read of `oelm.model.gpt.GPT`: rooms of one level do not import each other."""

    config: GPTConfig
    method: Method

    def state_dict(self) -> dict[str, Tensor]:
        """The weights by name."""
        ...


def export(model: OurGPT, tokenizer_file: Path | str, folder: Path | str) -> None:
    """Write model, generation config and tokenizer into a new folder, which appears when it is whole."""
    folder = Path(folder)
    refuse_existing(folder)
    tokenizer = _tokenizer(Path(tokenizer_file), model.config.context)
    exported = as_transformers(model, end_of_text=tokenizer.eos_token_id)
    with writing_folder(folder) as partial:
        exported.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def refuse_existing(folder: Path) -> None:
    """Nothing is overwritten; an empty folder may be filled."""
    if folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        raise ConfigError(f"{folder} exists already and is not an empty folder", "choose another folder, or remove it")


def as_transformers(model: OurGPT, end_of_text: int | None = None) -> GPT2LMHeadModel:
    """The same function as a transformers model, in the same dtype."""
    refuse_unfoldable(model.method)
    weights = model.state_dict()
    exported: GPT2LMHeadModel
    if model.method.extras.shift:
        register()
        exported = OelmGPTForCausalLM(_config(OelmGPTConfig, model.config, end_of_text))
    else:
        exported = GPT2LMHeadModel(_config(GPT2Config, model.config, end_of_text))
    nn.Module.to(exported, weights["token_embedding.weight"].dtype)
    exported.load_state_dict(dict(_gpt2_weights(model.config, model.method, weights)))
    exported.train(False)
    return exported


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


def _gpt2_weights(config: GPTConfig, method: Method, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
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


def _tokenizer(path: Path, context: int) -> PreTrainedTokenizerFast:
    if not path.is_file():
        raise DataError(f"there is no tokenizer {path}", "give the tokenizer.json of the run or its data folder")
    return PreTrainedTokenizerFast(
        tokenizer_file=str(path),
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        padding_side="left",  # to generate for several prompts at once
        model_max_length=context,
        split_special_tokens=True,  # as in training: text never becomes a special token
    )
