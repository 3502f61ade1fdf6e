"""What a plan can say of a fine-tuning before its data and its model are fetched."""

from functools import lru_cache
from pathlib import Path
from typing import assert_never

from oelm.config.labelled import Columns, HubTask, LabelledData, LabelledFile, LabelledSource, LocalTables
from oelm.config.pretrained import HuggingFaceModel
from oelm.config.record import WeightCounts
from oelm.config.run import RunConfig
from oelm.data.labelled import label_names, read_table
from oelm.data.labelled_hub import LABELLED_SETS, known_set
from oelm.method.cost import weight_counts

_STAND_IN = ("0", "1")


def planned_counts(config: RunConfig) -> WeightCounts | None:
    """The counts that the run's record will have; None of a model that is neither here nor known by name."""
    if not isinstance(config.model, HuggingFaceModel) or not isinstance(config.data, LabelledData):
        return None
    from oelm.surgery.outline import outlined_table

    table = outlined_table(config.model, len(config.data.labels), config.method)
    return None if table is None else weight_counts(config.method.plan, table, config.train.steps)


def training_set(source: LabelledSource) -> tuple[tuple[str, ...], int | None]:
    """Classes and number of training examples: as published, or as read from a local file.

    Of a file that is not here the number is None, and the classes are those of the set whose name it bears, else two.
    """
    match source:
        case HubTask():
            known = known_set(source)
            return known.labels, known.train_examples
        case LocalTables(train=train) if Path(train.path).is_file():
            return _read(train, source.columns)
        case LocalTables(name=name):
            return LABELLED_SETS[name].labels if name in LABELLED_SETS else _STAND_IN, None
        case _:
            assert_never(source)


@lru_cache(maxsize=4)
def _read(train: LabelledFile, columns: Columns) -> tuple[tuple[str, ...], int]:
    examples = read_table(train, columns)
    return label_names([examples]), len(examples)
