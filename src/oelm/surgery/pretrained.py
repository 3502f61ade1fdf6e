"""Pre-trained classifiers and their tokenizers, from a model folder."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from oelm.base.errors import ConfigError, DataError
from oelm.base.streams import stream_seed
from oelm.config.method import Method
from oelm.config.model import HuggingFaceModel
from oelm.surgery.architectures import Attention, architecture_named, architecture_of
from oelm.surgery.convert import apply
from oelm.surgery.model_folder import has_tokenizer, unchanged_folder

Ids = npt.NDArray[np.int64]


def check_classifier(folder: Path, max_length: int) -> None:
    """Refuse a folder that cannot become a classifier of texts of this length, before anything is loaded."""
    config = read_config(folder)
    if type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise DataError(
            f"{folder} holds a {config.model_type} model, and transformers has no sequence-classification head for it",
            "take a model that has one, such as a BERT, RoBERTa, GPT-2, Llama, T5 or BART",
        )
    refuse_longer(max_length, config, folder)
    pad_token(load_tokenizer(folder), folder)


def refuse_longer(length: int, config: PreTrainedConfig, folder: Path) -> None:
    """Refuse texts or windows of more tokens than the model has positions for."""
    longest = longest_input(config)
    if longest is not None and length > longest:
        raise ConfigError(
            f"texts of {length} tokens are more than {folder} can read ({longest})",
            f"lower --max-length to {longest} or less",
        )


def longest_input(config: PreTrainedConfig) -> int | None:
    """How many tokens the model has positions for; None if it has no such limit (T5)."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is not None and architecture_named(config.model_type).positions_after_padding:
        return positions - int(config.pad_token_id) - 1  # its positions are counted from behind the padding's id
    return positions


def converted_classifier(
    pretrained: HuggingFaceModel, labels: tuple[str, ...], method: Method, seed: int
) -> tuple[PreTrainedModel, Path]:
    """The model of a run as it is before the first step, and its folder; refused if that has changed since."""
    folder = unchanged_folder(pretrained)
    model = load_classifier(folder, labels, seed)
    apply(model, method, seed=seed, attention=pretrained.attention, train_biases=pretrained.train_biases)
    return model, folder


def load_classifier(folder: Path, labels: tuple[str, ...], seed: int) -> PreTrainedModel:
    """The model with a head for these classes, or for a number where there are none.

    A head that the folder lacks is drawn from the seed, alike for all arms.
    """
    config = read_config(folder, **_head_settings(labels))
    with torch.random.fork_rng(devices=[]), quiet_loading(), readable_weights(folder):
        torch.manual_seed(stream_seed(seed, "init", "classification head"))
        model: PreTrainedModel
        model, loading = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
        )
    _refuse_gaps(folder, model, loading)
    decoder_only = Attention.ENCODER not in architecture_of(model).places
    if decoder_only or model.config.pad_token_id is None:
        # The head of a decoder looks for a text's last token by what is not padding.
        model.config.pad_token_id = pad_token(load_tokenizer(folder), folder)
    return model


def _head_settings(labels: tuple[str, ...]) -> dict[str, Any]:
    """What transformers calls a head with a score for every class, or, without classes, with one number."""
    if not labels:
        return {"num_labels": 1, "problem_type": "regression"}
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def read_config(folder: Path, **changes: Any) -> PreTrainedConfig:
    """The config.json of a model folder."""
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, **changes)
    except Exception as error:
        raise DataError(
            f"transformers cannot read {folder / 'config.json'}: {first_line(error)}",
            "give the folder of a model that this version of transformers knows",
        ) from error
    return config


def _refuse_gaps(folder: Path, model: PreTrainedModel, loading: dict[str, Any]) -> None:
    """A new head (and BERT's pooler, which belongs to it) is meant; a layer or embedding left at random is not."""
    lacking = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
    inside = f"{model.base_model_prefix}."
    if gaps := sorted(name for name in lacking if name.startswith(inside) and ".pooler." not in name):
        raise DataError(
            f"the weights in {folder} are not those of its config.json: {gaps[0]} is missing or of another shape "
            f"({len(gaps)} such tensors)",
            "restore the folder as it was saved",
        )


@contextlib.contextmanager
def readable_weights(folder: Path) -> Iterator[None]:
    """Turn what transformers, safetensors or pickle say of weights that they cannot read into one line."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"the weights in {folder} cannot be read: {first_line(error)}",
            "give a folder as save_pretrained writes it, with model.safetensors",
        ) from error


def first_line(error: Exception) -> str:
    """What an error says, shortly."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Without the report that the head is new: that is meant."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder."""
    fix = "save it there: AutoTokenizer.from_pretrained(...).save_pretrained(folder)"
    if not has_tokenizer(folder):  # transformers would make an empty one
        raise DataError(f"{folder} has no tokenizer", fix)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise DataError(f"the tokenizer in {folder} cannot be read: {first_line(error)}", fix) from error
    return tokenizer


def pad_token(tokenizer: PreTrainedTokenizerBase, folder: Path) -> int:
    """The id to pad with: the tokenizer's own, or its end-of-text."""
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if not isinstance(padding, int):
        raise DataError(
            f"the tokenizer in {folder} has neither a padding token nor an end-of-text token",
            "set its pad_token or eos_token and save it again",
        )
    return padding


class PretrainedReader:
    """The model's own tokenizer."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = load_tokenizer(folder)
        self.padding = pad_token(self._tokenizer, folder)

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> tuple[tuple[Ids, ...], tuple[Ids, ...] | None]:
        """Token ids and, where the model tells first and second text apart, segments; cut to `max_length`."""
        second = None if pairs is None else list(pairs)
        encoded = self._tokenizer(list(texts), second, truncation=True, max_length=max_length, padding=False)

        def arrays(name: str) -> tuple[Ids, ...]:
            return tuple(np.array(row, np.int64) for row in encoded[name])

        return arrays("input_ids"), arrays("token_type_ids") if "token_type_ids" in encoded else None

    def decode(self, ids_BT: Tensor) -> list[str]:
        """Ids as texts; special tokens and what is below 0 are left out."""
        rows = [[token for token in row if token >= 0] for row in ids_BT.tolist()]
        texts: list[str] = self._tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts
