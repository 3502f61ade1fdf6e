"""Labelled sets of the Hub by name: one row each."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oelm.base.errors import ConfigError, DataError
from oelm.config.labelled_data import Answers, Columns, HubTask
from oelm.data.hub import cached_splits, datasets_cache, is_commit, require_hub
from oelm.data.labelled import Examples

_TRAIN = "train"
_FIX = "fetch it on a machine with internet and copy the cache, or give local files: --train FILE --evaluate FILE"


@dataclass(frozen=True)
class LabelledSet:
    """Where a set lives and which of its splits are evaluated (with labels: GLUE's test has none)."""

    repository: str
    config: str | None
    columns: Columns
    evaluate: dict[str, str]
    """Name of the evaluation set -> split on the Hub."""
    labels: tuple[str, ...]
    train_examples: int
    """As published: a plan needs them before anything is fetched. A run counts what it reads."""
    has_variants: bool = False
    answers: Answers = Answers.CLASSES

    @property
    def splits(self) -> tuple[str, ...]:
        """All splits that are read."""
        return (_TRAIN, *self.evaluate.values())


_PAIR = Columns(text="premise", pair="hypothesis")
_INFERENCE = ("contradiction", "entailment", "neutral")
LABELLED_SETS: dict[str, LabelledSet] = {
    "sst2": LabelledSet(
        "nyu-mll/glue", "sst2", Columns(text="sentence"), {"dev": "validation"}, ("negative", "positive"), 67_349
    ),
    "mnli": LabelledSet(
        "nyu-mll/glue",
        "mnli",
        _PAIR,
        {"matched": "validation_matched", "mismatched": "validation_mismatched"},
        _INFERENCE,
        392_702,
    ),
    "xnli": LabelledSet(
        "facebook/xnli",
        "en",
        _PAIR,
        {"test": "test", "validation": "validation"},  # the original was judged on the latter
        _INFERENCE,
        392_702,
        has_variants=True,
    ),
    "ag-news": LabelledSet(
        "fancyzhx/ag_news",
        None,
        Columns(text="text"),
        {"test": "test"},
        ("Business", "Sci/Tech", "Sports", "World"),
        120_000,
    ),
    "imdb": LabelledSet(
        "stanfordnlp/imdb", "plain_text", Columns(text="text"), {"test": "test"}, ("neg", "pos"), 25_000
    ),
    "stsb": LabelledSet(
        "nyu-mll/glue",
        "stsb",
        Columns(text="sentence1", pair="sentence2"),
        {"dev": "validation"},
        (),
        5_749,
        answers=Answers.NUMBERS,
    ),
    "xsum": LabelledSet(
        "EdinburghNLP/xsum",
        None,
        Columns(text="document", label="summary"),
        {"validation": "validation", "test": "test"},
        (),
        204_045,
        answers=Answers.TEXTS,
    ),
}


def known_set(task: HubTask) -> LabelledSet:
    """What is known of a set of the Hub without asking it."""
    if task.name not in LABELLED_SETS:
        raise ConfigError(
            f"unknown task {task.name!r}",
            f"choose one of {', '.join(LABELLED_SETS)}, or give files: --train FILE --evaluate FILE",
        )
    row = LABELLED_SETS[task.name]
    if task.variant and not row.has_variants:
        raise ConfigError(f"{task.name} has no languages to choose from", "leave --language out")
    return row


def at_commit(task: HubTask) -> HubTask:
    """The task at the commit that its revision means now: later readings cannot move, and need no network if cached.

    Without a revision, and where the Hub cannot be reached, it is the commit that was cached last.
    """
    row = known_set(task)
    if is_commit(task.revision):
        return task
    try:
        commit = require_hub(row.repository, task.revision or "main", task.name, fix=_FIX)
    except DataError:
        cached = _newest_cached(row, _config(task)) if task.revision is None else None
        if cached is None:
            raise
        commit = cached
    return task.model_copy(update={"revision": commit})


def is_cached(task: HubTask) -> bool:
    """Whether every split is here, at its commit or, without one, at any."""
    row, config = known_set(task), _config(task)
    if task.revision is None:
        return _newest_cached(row, config) is not None
    return _cached(row, config, task.revision) is not None


def fetch_labelled(task: HubTask) -> tuple[Examples, dict[str, Examples]]:
    """Training examples and evaluation examples by name, from the local cache or else from the Hub."""
    task, row = at_commit(task), known_set(task)
    assert task.revision is not None
    cached = _cached(row, _config(task), task.revision)
    if cached is None:
        require_hub(row.repository, task.revision, task.name, fix=_FIX)
        tables = {split: _download(row, _config(task), split, task.revision) for split in row.splits}
    else:
        tables = {split: _read(files) for split, files in cached.items()}
    evaluate = {name: _examples(tables[split], row.columns) for name, split in row.evaluate.items()}
    return _examples(tables[_TRAIN], row.columns), evaluate


def _config(task: HubTask) -> str | None:
    return task.variant or known_set(task).config


def _cached(row: LabelledSet, config: str | None, commit: str) -> dict[str, tuple[Path, ...]] | None:
    """The Arrow files of every split, or None if one is not there."""
    found = cached_splits(_cache_folder(row), config, commit, row.splits)
    return found if all(found.values()) else None


def _newest_cached(row: LabelledSet, config: str | None) -> str | None:
    """The commit that was cached last, of those with every split."""
    folders = [path for path in _cache_folder(row).glob(f"{config or '*'}/*/*") if is_commit(path.name)]
    newest_first = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
    return next((path.name for path in newest_first if _cached(row, config, path.name) is not None), None)


def _cache_folder(row: LabelledSet) -> Path:
    return datasets_cache() / row.repository.replace("/", "___")


def _read(files: Iterable[Path]) -> Any:
    import datasets

    return datasets.concatenate_datasets([datasets.Dataset.from_file(str(file)) for file in files])


def _download(row: LabelledSet, config: str | None, split: str, commit: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(
            row.repository, config, split=split, revision=commit, cache_dir=str(datasets_cache())
        )
    except Exception as error:
        raise DataError(
            f"the download of {row.repository} ({split}) failed: {type(error).__name__}: {error}",
            "run the same command again, or give local files: --train FILE --evaluate FILE",
        ) from error


def _examples(table: Any, columns: Columns) -> Examples:
    names = getattr(table.features[columns.label], "names", None)  # only classes have them
    return Examples(
        texts=tuple(table[columns.text]),
        pairs=tuple(table[columns.pair]) if columns.pair else None,
        labels=tuple(names[label] if names else str(label) for label in table[columns.label]),
    )
