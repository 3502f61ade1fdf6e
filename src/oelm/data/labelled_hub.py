"""Classification sets of the Hub by name: one row each."""

from dataclasses import dataclass

from oelm.base.errors import ConfigError, DataError
from oelm.config.labelled import Columns, HubTask
from oelm.data.hub import require_hub
from oelm.data.labelled import Examples


@dataclass(frozen=True)
class LabelledSet:
    """Where a set lives and which of its splits are evaluated (with labels: GLUE's test has none)."""

    repository: str
    config: str | None
    columns: Columns
    evaluate: dict[str, str]
    """Name of the evaluation set -> split on the Hub."""
    has_variants: bool = False


_PAIR = Columns(text="premise", pair="hypothesis")
LABELLED_SETS: dict[str, LabelledSet] = {
    "sst2": LabelledSet("nyu-mll/glue", "sst2", Columns(text="sentence"), {"dev": "validation"}),
    "mnli": LabelledSet(
        "nyu-mll/glue", "mnli", _PAIR, {"matched": "validation_matched", "mismatched": "validation_mismatched"}
    ),
    "xnli": LabelledSet("facebook/xnli", "en", _PAIR, {"test": "test"}, has_variants=True),
    "ag-news": LabelledSet("fancyzhx/ag_news", None, Columns(text="text"), {"test": "test"}),
    "imdb": LabelledSet("stanfordnlp/imdb", "plain_text", Columns(text="text"), {"test": "test"}),
}


def fetch_labelled(task: HubTask) -> tuple[Examples, dict[str, Examples], str]:
    """Training examples, evaluation examples by name, and the commit they come from."""
    if task.name not in LABELLED_SETS:
        raise ConfigError(
            f"unknown task {task.name!r}",
            f"choose one of {', '.join(LABELLED_SETS)}, or give files: --train FILE --evaluate FILE",
        )
    row = LABELLED_SETS[task.name]
    if task.variant and not row.has_variants:
        raise ConfigError(f"{task.name} has no languages to choose from", "leave --language out")
    commit = require_hub(row.repository, task.revision or "main", task.name)
    config = task.variant or row.config
    train = _split(row, config, "train", commit)
    return train, {name: _split(row, config, split, commit) for name, split in row.evaluate.items()}, commit


def _split(row: LabelledSet, config: str | None, split: str, commit: str) -> Examples:
    import datasets

    try:
        table = datasets.load_dataset(row.repository, config, split=split, revision=commit)
    except Exception as error:
        raise DataError(
            f"the download of {row.repository} ({split}) failed: {type(error).__name__}: {error}",
            "run the same command again, or give local files: --train FILE --evaluate FILE",
        ) from error
    names = table.features["label"].names
    columns = row.columns
    return Examples(
        texts=tuple(table[columns.text]),
        pairs=tuple(table[columns.pair]) if columns.pair else None,
        labels=tuple(names[label] for label in table["label"]),
    )
