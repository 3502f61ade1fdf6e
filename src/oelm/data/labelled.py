"""Labelled examples from local tables (TSV, CSV, JSONL) and from the Hub, checked row by row."""

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oelm.base.errors import DataError, UnreadableError
from oelm.base.files import parsed_json
from oelm.base.streams import stream_seed
from oelm.config.labelled_data import Columns, LabelledFile
from oelm.data.textfiles import file_lines

Row = dict[str, str]


@dataclass(frozen=True)
class Examples:
    """Texts, second texts (for pairs) and labels as they were written."""

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, indices: npt.NDArray[np.int64]) -> "Examples":
        """The examples with these indices, in this order."""
        return Examples(
            texts=tuple(self.texts[index] for index in indices),
            pairs=tuple(self.pairs[index] for index in indices) if self.pairs is not None else None,
            labels=tuple(self.labels[index] for index in indices),
        )

    @property
    def digest(self) -> str:
        """Of everything that a model could see."""
        content = json.dumps([self.texts, self.pairs, self.labels], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_table(file: LabelledFile, columns: Columns) -> Examples:
    """All examples of a local table; the first bad row is named."""
    path = Path(file.path)
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    wanted = [columns.text, *([columns.pair] if columns.pair else []), columns.label]
    rows = [_picked(row, wanted, f"{path}, line {number}") for number, row in _rows(path, file.header)]
    if not rows:
        raise DataError(f"{path} holds no examples", "give a table with a header line and rows")
    return examples_of(rows, columns)


def examples_of(rows: Sequence[Row], columns: Columns) -> Examples:
    """Rows as columns."""
    return Examples(
        texts=tuple(row[columns.text] for row in rows),
        pairs=tuple(row[columns.pair] for row in rows) if columns.pair else None,
        labels=tuple(row[columns.label] for row in rows),
    )


def label_names(examples: Iterable[Examples]) -> tuple[str, ...]:
    """The classes that occur: numbers in their order, names in the alphabet's."""
    found = {label for part in examples for label in part.labels}
    if len(found) < 2:
        raise DataError(f"only one class occurs ({', '.join(found)})", "name the right label column")
    if all(label.lstrip("-").isdigit() for label in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))


def label_indices(examples: Examples, names: tuple[str, ...], where: str) -> npt.NDArray[np.int64]:
    """Labels as class indices."""
    index = {name: number for number, name in enumerate(names)}
    if unknown := sorted(set(examples.labels) - index.keys()):
        raise DataError(
            f"{where} has the label {unknown[0]!r}, which training does not ({', '.join(names)})",
            "use files with the same classes (a GLUE test file has no labels: use its dev file)",
        )
    return np.array([index[label] for label in examples.labels], np.int64)


def label_numbers(examples: Examples, where: str) -> npt.NDArray[np.float32]:
    """Labels as numbers."""
    numbers = []
    for place, label in enumerate(examples.labels, start=1):
        try:
            numbers.append(float(label))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise DataError(
                f"{where}, example {place}: the label {label!r} is not a number",
                "correct it, or name the right column with --label-column",
            )
    return np.array(numbers, np.float32)


def split_training(
    count: int, *, train_examples: int | None, holdout_examples: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Indices to train on and indices held out: disjoint, a function of the seed, the same for all arms."""
    order = np.random.Generator(np.random.PCG64(stream_seed(seed, "labelled"))).permutation(count)
    wanted = count - holdout_examples if train_examples is None else train_examples
    if wanted < 1 or wanted + holdout_examples > count:
        raise DataError(
            f"{count} examples are too few for {max(wanted, 1)} to train on and {holdout_examples} to hold out",
            "lower --train-examples or --holdout-examples",
        )
    return order[holdout_examples : holdout_examples + wanted], order[:holdout_examples]


def _rows(path: Path, header: tuple[str, ...] | None) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if {".jsonl", ".ndjson"} & set(suffixes):
        yield from _json_rows(path)
    elif ".csv" in suffixes:
        yield from _delimited_rows(path, _csv_cells(path), header)
    else:
        # TSV as GLUE writes it: a tab is the only separator and quotes are letters.
        yield from _delimited_rows(path, _tsv_cells(path), header)


def _csv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row and the line that it begins in; a quoted cell may go over several."""
    reader, number = csv.reader(file_lines(path, keep_ends=True)), 1
    try:
        for cells in reader:
            yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {number} is not CSV: {error}", "correct the line or remove it") from error


def _tsv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(file_lines(path), start=1):
        yield number, line.split("\t") if line else []


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    for number, line in enumerate(file_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = parsed_json(line, f"{path}, line {number}")
        except UnreadableError as error:
            raise DataError(error.problem, "correct the line or remove it") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is not a JSON object", 'write {"text": ..., "label": ...}')
        yield number, {name: None if value is None else str(value) for name, value in row.items()}


def _delimited_rows(
    path: Path, lines: Iterable[tuple[int, list[str]]], header: tuple[str, ...] | None
) -> Iterator[tuple[int, Row]]:
    names = list(header) if header else None
    for number, cells in lines:
        if not cells:
            continue
        if names is None:
            names = cells
        else:
            if len(cells) != len(names):
                raise DataError(
                    f"{path}, line {number} has {len(cells)} columns and the header {len(names)}",
                    "correct the line, or name the columns with --columns if the file has no header",
                )
            yield number, dict(zip(names, cells, strict=True))


def _picked(row: Mapping[str, str | None], wanted: list[str], where: str) -> Row:
    if missing := [name for name in wanted if name not in row]:
        raise DataError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(map(repr, row))}",
            "name the columns with --text-column, --pair-column and --label-column (and --columns without a header)",
        )
    picked = {name: value for name in wanted if (value := row[name]) is not None}
    if empty := [name for name in wanted if name not in picked]:
        raise DataError(f"{where}: {empty[0]!r} is null", "give it a value or remove the line")
    return picked
