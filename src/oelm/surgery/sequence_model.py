"""Encoder-decoders that write texts (T5, BART): loaded whole, or drawn from a config alone, and converted."""

# B batch  T time

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoModelForSeq2SeqLM, PreTrainedModel

from oelm.base.errors import DataError
from oelm.base.streams import stream_seed
from oelm.config.method import Method
from oelm.config.model import HuggingFaceModel
from oelm.surgery.convert import apply
from oelm.surgery.model_folder import is_config_alone, unchanged_folder
from oelm.surgery.pretrained import load_tokenizer, pad_token, quiet_loading, read_config, refuse_longer


def check_sequence_model(folder: Path, max_length: int) -> None:
    """Refuse a folder that holds no encoder-decoder for texts of this length, before anything is loaded."""
    config = read_config(folder)
    if type(config) not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        raise DataError(
            f"{folder} holds a {config.model_type} model, which is no encoder-decoder that writes texts",
            "take a T5 or BART",
        )
    refuse_longer(max_length, config, folder)
    pad_token(load_tokenizer(folder), folder)


def converted_sequence_model(pretrained: HuggingFaceModel, method: Method, seed: int) -> tuple[PreTrainedModel, Path]:
    """The model of a run as it is before the first step, and its folder."""
    folder = unchanged_folder(pretrained)
    model = _drawn(folder, seed) if is_config_alone(pretrained.source) else _loaded(folder)
    apply(model, method, seed=seed, attention=pretrained.attention, train_biases=pretrained.train_biases)
    return model, folder


def writing(longest: int) -> Callable[[nn.Module, dict[str, Tensor]], Tensor]:
    """Greedy generation of at most so many tokens."""

    def write(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        assert isinstance(model, PreTrainedModel)
        generator: Any = model
        ids_BT: Tensor = generator.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=longest,
            do_sample=False,
            num_beams=1,
        )
        return ids_BT

    return write


def _loaded(folder: Path) -> PreTrainedModel:
    with quiet_loading():
        loaded: Any = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    model: PreTrainedModel
    model, loading = loaded
    if gaps := sorted(loading["missing_keys"]):
        raise DataError(f"the weights in {folder} lack {gaps[0]} ({len(gaps)} such tensors)", "give a whole model")
    return model


def _drawn(folder: Path, seed: int) -> PreTrainedModel:
    """Weights as transformers draws them, from the seed: alike for all arms."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "init", "config alone"))
        model: PreTrainedModel = AutoModelForSeq2SeqLM.from_config(read_config(folder))  # type: ignore[no-untyped-call]
    return model
