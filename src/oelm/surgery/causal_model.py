"""Pre-trained language models: loaded whole, converted, and scored by the next token."""

# B batch  T time  V vocabulary

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from oelm.base.errors import DataError
from oelm.config.method import Method
from oelm.config.model import HuggingFaceModel
from oelm.surgery.convert import apply
from oelm.surgery.model_folder import unchanged_folder
from oelm.surgery.pretrained import load_tokenizer, quiet_loading, read_config, readable_weights, refuse_longer

_TOKENIZER = "tokenizer.json"


def check_window(folder: Path, window: int) -> None:
    """Refuse a folder that holds no language model, or one that cannot read so many tokens."""
    refuse_longer(window, causal_config(folder), folder)


def check_own_tokens(folder: Path, data_tokenizer: Path) -> None:
    """Refuse text in other tokens than those of the model in the folder."""
    own = folder / _TOKENIZER
    if not own.is_file() or _vocabulary(own) != _vocabulary(data_tokenizer):
        raise DataError(
            f"the tokens in {data_tokenizer.parent} were not made with the tokenizer of {folder}",
            f"prepare the text with it: oelm prepare TEXT --tokenizer-file {own} --out FOLDER",
        )


def causal_config(folder: Path) -> PreTrainedConfig:
    """The config of a folder that holds a language model; another one is refused."""
    config = read_config(folder)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise DataError(
            f"{folder} holds a {config.model_type} model, and transformers has no causal language model of it",
            "take a GPT-2, Llama or another decoder",
        )
    return config


def converted_causal(pretrained: HuggingFaceModel, method: Method, seed: int) -> tuple[PreTrainedModel, Path]:
    """The language model of a run as it is before the first step, and its folder."""
    folder = unchanged_folder(pretrained)
    model = load_causal(folder, torch.float32)
    apply(model, method, seed=seed, attention=pretrained.attention, train_biases=pretrained.train_biases)
    return model, folder


def load_causal(folder: Path, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """The language model of a folder, whole, in `dtype` or its own."""
    causal_config(folder)
    with quiet_loading(), readable_weights(folder):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype or "auto", output_loading_info=True, trust_remote_code=False
        )
    model: PreTrainedModel
    model, loading = loaded
    if gaps := sorted(loading["missing_keys"]):
        raise DataError(f"the weights in {folder} lack {gaps[0]} ({len(gaps)} such tensors)", "give a whole model")
    return model


def causal_tokenizer(folder: Path) -> tuple[Tokenizer, int, int]:
    """The tokenizer of a language model, for text without special tokens, and the ids that begin and end a text."""
    loaded = load_tokenizer(folder)
    inner = getattr(loaded, "backend_tokenizer", None)
    end = loaded.bos_token_id if loaded.eos_token_id is None else loaded.eos_token_id
    begin = end if loaded.bos_token_id is None else loaded.bos_token_id
    if not isinstance(inner, Tokenizer) or not isinstance(begin, int) or not isinstance(end, int):
        raise DataError(
            f"the tokenizer in {folder} has no tokenizer.json, or neither a begin- nor an end-of-text token",
            "save a fast tokenizer there that has one of them",
        )
    inner.no_truncation()
    inner.no_padding()
    inner.encode_special_tokens = True  # text never becomes a special token
    return inner, begin, end


def next_token_loss(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """-sum log p(target), in float32 at least."""
    return F.cross_entropy(_logits(model, tokens_BT).flatten(0, 1), targets_BT.flatten(), reduction="sum")


def next_token_losses(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """The same sum, to the bit, and the loss of every target (B x T in one row)."""
    log_p_NV, targets_N = F.log_softmax(_logits(model, tokens_BT).flatten(0, 1), -1), targets_BT.flatten()
    return F.nll_loss(log_p_NV, targets_N, reduction="sum"), -log_p_NV.gather(1, targets_N[:, None])[:, 0]


def _logits(model: nn.Module, tokens_BT: Tensor) -> Tensor:
    logits_BTV: Tensor = model(input_ids=tokens_BT, use_cache=False).logits
    return logits_BTV.float() if logits_BTV.dtype in (torch.bfloat16, torch.float16) else logits_BTV


def _vocabulary(path: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab()
    return vocabulary
