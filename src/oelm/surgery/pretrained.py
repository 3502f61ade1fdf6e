"""Pre-trained classifiers and their tokenizers, from a local folder or the Hub."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from oelm.base.errors import DataError
from oelm.base.streams import stream_seed

Ids = npt.NDArray[np.int64]
REACH_SECONDS = 4.0
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_WEIGHT_FILES = ("*.safetensors", "*.bin")


def model_folder(source: str, revision: str | None) -> Path:
    """The folder of a model: `source` itself, or the local cache of the Hub, filled first if need be."""
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, local_files_only=True, allow_patterns=_WANTED))
    except (LocalEntryNotFoundError, ValueError):
        pass
    try:
        # One quick question first: the download itself retries for half a minute before it gives up.
        HfApi().model_info(source, revision=revision, timeout=REACH_SECONDS)
        return Path(snapshot_download(source, revision=revision, allow_patterns=_WANTED))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"there is no folder {source}, and the Hub cannot give that model: {reason}",
            "give the folder of a saved model, or fetch it on a machine with internet and copy the folder",
        ) from error


def weights_digest(folder: Path) -> str:
    """Of the weight files of a model folder."""
    files = next((found for pattern in _WEIGHT_FILES if (found := sorted(folder.glob(pattern)))), [])
    if not files or not (folder / "config.json").is_file():
        raise DataError(
            f"{folder} is not a model folder: it has no {'config.json' if files else 'weights'}",
            "give the folder of a saved transformers model, or a name on the Hub",
        )
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:16]


def load_classifier(folder: Path, labels: tuple[str, ...], seed: int) -> PreTrainedModel:
    """The model with a classification head; a head that the folder lacks is drawn from the seed, alike for all arms."""
    config = AutoConfig.from_pretrained(
        folder, num_labels=len(labels), id2label=dict(enumerate(labels)), label2id={n: i for i, n in enumerate(labels)}
    )
    with torch.random.fork_rng(devices=[]), _quiet_loading():
        torch.manual_seed(stream_seed(seed, "init", "classification head"))
        model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
            folder, config=config, ignore_mismatched_sizes=True, dtype=torch.float32
        )
    if model.config.pad_token_id is None:  # decoder-only models find a text's last token by what is not padding
        model.config.pad_token_id = pad_token(folder)
    return model


@contextlib.contextmanager
def _quiet_loading() -> Iterator[None]:
    """Without the report that the head is new: that is meant."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def pad_token(folder: Path) -> int:
    """The id to pad with: the tokenizer's own, or its end-of-text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return int(padding)


class PretrainedReader:
    """The model's own tokenizer."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.padding = pad_token(folder)

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> tuple[tuple[Ids, ...], tuple[Ids, ...] | None]:
        """Token ids and, where the model tells first and second text apart, segments; cut to `max_length`."""
        second = None if pairs is None else list(pairs)
        encoded = self._tokenizer(list(texts), second, truncation=True, max_length=max_length, padding=False)

        def arrays(name: str) -> tuple[Ids, ...]:
            return tuple(np.array(row, np.int64) for row in encoded[name])

        return arrays("input_ids"), arrays("token_type_ids") if "token_type_ids" in encoded else None
