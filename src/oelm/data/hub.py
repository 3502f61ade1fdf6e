"""What comes from the Hugging Face Hub, each at a pinned commit: three corpora and GPT-2's tokenizer.

A split that is in the local cache is used without asking the network. Otherwise one quick question finds out
whether the Hub can be reached at all, because the libraries themselves retry for half a minute before giving up.
Then the whole corpus is downloaded, or, where only its beginning is wanted, file by file as far as it is read.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oelm.base.console import Console
from oelm.base.errors import DataError
from oelm.data.textfiles import parquet_texts

if TYPE_CHECKING:
    from datasets import DatasetBuilder

REACH_SECONDS = 4.0
GPT2_REPOSITORY = "openai-community/gpt2"
GPT2_REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"

_CORPUS_FIX = "prepare it on a machine with internet and copy the folder, or give local files: oelm prepare FILE..."
_TOKENIZER_FIX = "prepare it on a machine with internet and copy the folder, or give its local files"

HubSplit = Literal["train", "validation"]


class HubCorpus(StrEnum):
    """The corpora known by name."""

    TINYSTORIES = "tinystories"
    OPENWEBTEXT = "openwebtext"
    WIKITEXT103 = "wikitext-103"


@dataclass(frozen=True)
class HubDataset:
    """Where a corpus lives on the Hub and in the local cache of `datasets`."""

    repository: str
    config: str | None
    revision: str
    cache_folder: str
    validation_bytes: int = 0
    """About how much text its validation split has, as published: a plan needs it before anything is fetched."""
    rows_are_lines: bool = False
    of_original: str = "--tokenizer gpt2"
    """The options of `oelm prepare` that give the data of the original study."""

    @property
    def has_validation(self) -> bool:
        """Whether it has a validation split."""
        return self.validation_bytes > 0


HUB_DATASETS: dict[HubCorpus, HubDataset] = {
    HubCorpus.TINYSTORIES: HubDataset(
        "roneneldan/TinyStories",
        config=None,
        revision="f54c09fd23315a6f9c86f9dc80f725de7d8f9c64",
        cache_folder="roneneldan___tiny_stories",
        validation_bytes=19_300_000,
    ),
    HubCorpus.OPENWEBTEXT: HubDataset(
        "Skylion007/openwebtext",
        config=None,
        revision="b4325f019c648b1641a1784748667e8b74e5e064",
        cache_folder="Skylion007___openwebtext",
        of_original="--tokenizer gpt2 --max-bytes 430MB --valid-bytes 4.5MB",
    ),
    HubCorpus.WIKITEXT103: HubDataset(
        "Salesforce/wikitext",
        config="wikitext-103-raw-v1",
        revision="b08601e04326c79dfdd32d625aee71d232d685c3",
        cache_folder="Salesforce___wikitext",
        validation_bytes=1_150_000,
        rows_are_lines=True,
    ),
}


@dataclass(frozen=True)
class CachedSplit:
    """One split as Arrow files in the local cache, and the commit that they were made from."""

    dataset: HubDataset
    commit: str
    files: tuple[Path, ...]

    def rows(self) -> Iterator[str]:
        """The text of each row, read through memory maps; a missing text counts as empty."""
        import pyarrow as pa

        for path in self.files:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield from (row or "" for row in batch.column("text").to_pylist())


@dataclass(frozen=True)
class FilesOfSplit:
    """One split as the parquet files of a commit, each of which is fetched when its first row is read.

    Their rows in this order are those of the whole split: it is the order in which `datasets` reads them.
    """

    dataset: HubDataset
    commit: str
    names: tuple[str, ...]

    def rows(self) -> Iterator[str]:
        """The text of each row; a file is asked for only when all rows before it have been taken."""
        for name in self.names:
            yield from parquet_texts(self._fetched(name), "text")

    def _fetched(self, name: str) -> Path:
        """From the cache of `huggingface_hub`, where each file stays as soon as it is complete."""
        from huggingface_hub import hf_hub_download

        repository = self.dataset.repository
        try:
            return Path(hf_hub_download(repository, name, repo_type="dataset", revision=self.commit))
        except Exception as error:
            raise _failed(f"{name} of {repository} at {self.commit}", error) from error


SplitRows = CachedSplit | FilesOfSplit


def fetch(corpus: HubCorpus, split: HubSplit, revision: str | None, *, whole: bool) -> SplitRows:
    """A split: from the local cache if all of it is there. `revision` None means the pinned commit.

    Otherwise the corpus is downloaded, all of it if the `whole` is wanted.
    """
    dataset = HUB_DATASETS[corpus]
    asked = revision or dataset.revision
    commit = asked if is_commit(asked) else require_hub(dataset.repository, asked, corpus.value)
    if files := _cached_files(dataset, commit, split):
        return CachedSplit(dataset, commit, files)
    if commit == asked:
        require_hub(dataset.repository, commit, corpus.value)
    builder = _builder(dataset, commit)
    if not whole and (names := _parquet_files(builder, dataset, commit, split)):
        return FilesOfSplit(dataset, commit, names)
    _download(builder, dataset, commit)
    files = _cached_files(dataset, commit, split)
    if not files:
        raise DataError(
            f"{dataset.repository} at {commit} has no {split} split in the cache after its download",
            "give another --revision, or local files: oelm prepare FILE...",
        )
    return CachedSplit(dataset, commit, files)


def is_cached(corpus: HubCorpus, revision: str | None) -> bool:
    """Whether all that a preparation reads of a corpus is here. `revision` None means the pinned commit."""
    dataset = HUB_DATASETS[corpus]
    splits: tuple[HubSplit, ...] = ("train", "validation") if dataset.has_validation else ("train",)
    return all(_cached_files(dataset, revision or dataset.revision, split) for split in splits)


def gpt2_tokenizer_file() -> Path:
    """GPT-2's `tokenizer.json` from the local cache, downloaded first if need be."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(GPT2_REPOSITORY, "tokenizer.json", revision=GPT2_REVISION, local_files_only=True))
    except LocalEntryNotFoundError:
        require_hub(GPT2_REPOSITORY, GPT2_REVISION, "the gpt2 tokenizer", kind="model", fix=_TOKENIZER_FIX)
        return Path(hf_hub_download(GPT2_REPOSITORY, "tokenizer.json", revision=GPT2_REVISION))


def require_hub(
    repository: str,
    revision: str,
    what: str,
    kind: Literal["dataset", "model"] = "dataset",
    fix: str = _CORPUS_FIX,
) -> str:
    """The commit behind a revision; the question that also shows whether the Hub can be reached, or else the fix."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        info = HfApi().repo_info(repository, revision=revision, repo_type=kind, timeout=REACH_SECONDS)
    except RevisionNotFoundError as error:
        raise DataError(
            f"{repository} has no revision {revision!r}",
            "give an existing one with --revision, or leave it out",
        ) from error
    except Exception as error:
        raise DataError(
            f"cannot fetch {what} ({repository}): {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            fix,
        ) from error
    return str(info.sha)


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit hash, which can never point elsewhere."""
    return revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None


def _cached_files(dataset: HubDataset, commit: str, split: HubSplit) -> tuple[Path, ...]:
    return cached_splits(datasets_cache() / dataset.cache_folder, dataset.config, commit, (split,))[split]


_CUSTOM_CONFIG = re.compile(r".+-([0-9a-f]{16}|[^=]+=.*)")
"""The folder of a configuration that was loaded with data_files, data_dir or features: `datasets` adds what was given,
or a hash of it, to the name. It holds other text than the configuration itself."""


def cached_splits(folder: Path, config: str | None, commit: str, splits: Iterable[str]) -> dict[str, tuple[Path, ...]]:
    """The Arrow files of each split of a commit, which lie in configuration/version/commit of a dataset's cache folder.

    Without a `config` it is the only one that there is. `datasets` renames a commit's folder into place when it is
    complete, but one that was copied may lack files.
    """
    commits = [
        path
        for path in sorted(folder.glob(f"{config or '*'}/*/{commit}"))
        if config is not None or not _CUSTOM_CONFIG.fullmatch(path.parent.parent.name)
    ]
    if len(commits) > 1:
        raise DataError(
            f"the cache holds {' and '.join(map(str, commits))}, and nothing says which is meant",
            "move away all but the one to read",
        )
    return {split: tuple(file for path in commits for file in _split_files(path, split)) for split in splits}


def _split_files(folder: Path, split: str) -> list[Path]:
    """`x-train.arrow`, or all of `x-train-00000-of-00002.arrow` and those after it."""
    pattern = re.compile(rf"(.+-{re.escape(split)})(?:-[0-9]{{5}}-of-([0-9]{{5}}))?\.arrow")
    found = {path.name: name.groups() for path in folder.iterdir() if (name := pattern.fullmatch(path.name))}
    if len(set(found.values())) > 1:
        raise DataError(
            f"{folder} holds its {split} split more than once: {', '.join(sorted(found))}",
            "move away what does not belong there",
        )
    wanted = [name for stem, count in set(found.values()) for name in _shard_names(stem, count)]
    if missing := [name for name in wanted if name not in found]:
        raise DataError(
            f"the copy of the cache in {folder} is incomplete: there is no {missing[0]}",
            "copy the folder again, or remove it and it is fetched anew",
        )
    return [folder / name for name in wanted]


def _shard_names(stem: str, count: str | None) -> list[str]:
    if count is None:
        return [f"{stem}.arrow"]
    return [f"{stem}-{number:05}-of-{count}.arrow" for number in range(int(count))]


def datasets_cache() -> Path:
    """The local cache of `datasets`."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(HF_HOME) / "datasets")


def _builder(dataset: HubDataset, commit: str) -> "DatasetBuilder":
    """What `datasets` knows of a commit before its files are fetched."""
    import datasets

    try:
        return datasets.load_dataset_builder(
            dataset.repository, dataset.config, revision=commit, cache_dir=str(datasets_cache())
        )
    except Exception as error:
        raise _failed(f"{dataset.repository} at {commit}", error) from error


def _parquet_files(
    builder: "DatasetBuilder", dataset: HubDataset, commit: str, split: HubSplit
) -> tuple[str, ...] | None:
    """The files of a split in their order, or None where not all are parquet: such a revision is fetched whole."""
    place = f"hf://datasets/{dataset.repository}@{commit}/"
    files = [str(file) for file in (builder.config.data_files or {}).get(split, ())]
    if not files or not all(file.startswith(place) and file.endswith(".parquet") for file in files):
        return None
    return tuple(file.removeprefix(place) for file in files)


def _download(builder: "DatasetBuilder", dataset: HubDataset, commit: str) -> None:
    _check_room(builder, dataset)
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise _failed(f"{dataset.repository} at {commit}", error) from error


def _check_room(builder: "DatasetBuilder", dataset: HubDataset) -> None:
    """Say how much comes, if the Hub tells it, and refuse what cannot fit.

    Of the download itself some may be there already; its rows as Arrow files are always written anew.
    """
    download, rows = builder.info.download_size, builder.info.dataset_size
    if not download or not rows:
        return
    sizes = f"{download / 1e9:.1f} GB, and {rows / 1e9:.1f} GB more when it is unpacked"
    cache = datasets_cache()
    free = shutil.disk_usage(next(place for place in (cache, *cache.parents) if place.exists())).free
    if rows > free:
        raise DataError(
            f"{dataset.repository} is a download of {sizes}; {cache} has {free / 1e9:.1f} GB free",
            "take its beginning with --max-bytes, free some space, or set HF_HOME to a folder on a larger disk",
        )
    Console(stderr=True).print(
        f"fetching all of {dataset.repository}: {sizes} (with --max-bytes only what is needed)",
        highlight=False,
        soft_wrap=True,
    )


def _failed(what: str, error: Exception) -> DataError:
    return DataError(
        f"the download of {what} failed: {type(error).__name__}: {error}",
        "run the same command again: it continues (for a gated repository, log in first: hf auth login), "
        "or give local files: oelm prepare FILE...",
    )
