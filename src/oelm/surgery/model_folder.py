"""The folder of a pre-trained model: found or fetched, identified, and its tokenizer's files."""

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from oelm.base.errors import DataError
from oelm.base.files import read_json
from oelm.config.model import HuggingFaceModel

REACH_SECONDS = 4.0
_CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""In the order in which transformers looks for them; `<name>.index.json` lists the shards of a large one."""
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_TOKENIZER = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "*.model")
_SMALL = ["*.json", "*.txt", "*.model"]


def model_folder(source: str, revision: str | None) -> Path:
    """The folder of a model: `source` itself, or the local cache of the Hub, filled first if need be."""
    if is_config_alone(source) and Path(source).is_file():
        return Path(source).parent
    if Path(source).is_dir():
        return Path(source)
    if cached := cached_model(source, revision):
        return cached
    from huggingface_hub import HfApi, snapshot_download

    try:
        # One quick question first: the download itself retries for half a minute before it gives up.
        info = HfApi().model_info(source, revision=revision, timeout=REACH_SECONDS)
        names = [file.rfilename for file in info.siblings or []]
        weights = "model*.safetensors" if any(name.endswith(".safetensors") for name in names) else "pytorch_model*.bin"
        return Path(snapshot_download(source, revision=info.sha, allow_patterns=[*_SMALL, weights]))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"there is no folder {source}, and the Hub cannot give that model: {reason}",
            "give the folder of a saved model, or fetch it on a machine with internet and copy the folder",
        ) from error


def cached_model(source: str, revision: str | None) -> Path | None:
    """Where the local cache of the Hub holds a whole model with its tokenizer."""
    cached = _cached(source, revision)
    return cached if cached is not None and _lacks(cached) is None and has_tokenizer(cached) else None


def is_config_alone(source: str) -> bool:
    """Whether a model is given as its config.json: of that shape, with weights that are drawn from the run's seed."""
    return Path(source).name == _CONFIG


def local_folder(source: str, revision: str | None) -> Path | None:
    """The folder of a model if it is here, with its config at least; nothing is fetched."""
    path = Path(source).parent if is_config_alone(source) else Path(source)
    folder = path if path.is_dir() else _cached(source, revision)
    return folder if folder is not None and (folder / _CONFIG).is_file() else None


def model_digest(folder: Path, *, config_alone: bool = False) -> str:
    """Of all that makes the model: config, weights (unless they are drawn) and tokenizer."""
    if not config_alone and (lacking := _lacks(folder)):
        raise DataError(
            f"{folder} is not a model folder: it has no {lacking}",
            "give the folder of a saved transformers model, or a name on the Hub",
        )
    digest = hashlib.sha256()
    weights = [] if config_alone else weight_files(folder)
    for file in sorted({folder / _CONFIG, *weights, *_tokenizer_files(folder)}):
        with file.open("rb") as content:
            digest.update(f"{file.name}:{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def unchanged_folder(pretrained: HuggingFaceModel) -> Path:
    """The folder of a run's model; refused if it is not the one that the run was configured with."""
    folder = model_folder(pretrained.source, pretrained.revision)
    if model_digest(folder, config_alone=is_config_alone(pretrained.source)) != pretrained.digest:
        raise DataError(
            f"{pretrained.source} has changed since this run was configured", "start a new run with another --out-dir"
        )
    return folder


def has_tokenizer(folder: Path) -> bool:
    """True if there is a vocabulary of some kind."""
    return any(True for pattern in _VOCABULARIES for _ in folder.glob(pattern))


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the files of a model's tokenizer as they are."""
    for file in _tokenizer_files(source):
        shutil.copy(file, target / file.name)


def _cached(source: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):  # ValueError: no name that the Hub could have
        return None


def _lacks(folder: Path) -> str | None:
    """What is missing of the model itself: an interrupted download, or another one's choice of files, leaves gaps."""
    if not (folder / _CONFIG).is_file():
        return _CONFIG
    wanted = weight_files(folder)
    if not wanted:
        return f"weights ({' or '.join(_WEIGHTS)})"
    return next((file.name for file in wanted if not file.is_file()), None)


def weight_files(folder: Path) -> list[Path]:
    """The files that the weights are in, whether they are all there or not."""
    for name in _WEIGHTS:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            return sorted({folder / name for name in _shards(index)})
    return []


def _shards(index: Path) -> set[str]:
    """The names of the files that an index lists: in its own folder, none elsewhere."""
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        names = set(read_json(index)["weight_map"].values())
        if all(isinstance(name, str) and Path(name).name == name for name in names):
            return names
    raise DataError(f"{index} does not list the files of the weights", "restore the folder as it was saved")


def _tokenizer_files(folder: Path) -> Iterator[Path]:
    return (file for pattern in _TOKENIZER for file in folder.glob(pattern) if file.is_file())
