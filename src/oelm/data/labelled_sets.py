"""Labelled text for a run: read from files or the Hub, split, and encoded with the model's tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from oelm.base.errors import ConfigError, DataError
from oelm.config.labelled_data import Answers, GeneratedTask, HubTask, LabelledData, LabelledSource, LocalTables
from oelm.config.settings import fingerprint
from oelm.data.generated_examples import TEST_SET, generate_examples
from oelm.data.labelled import Examples, label_indices, label_numbers, read_table, split_training
from oelm.data.labelled_hub import at_commit, fetch_labelled, known_set
from oelm.data.tokenizer import end_of_text_id
from oelm.data.tokens import file_sha256

Ids = npt.NDArray[np.int64]


class Reader(Protocol):
    """A tokenizer as a task needs it."""

    @property
    def padding(self) -> int:
        """The id to pad with."""
        ...

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> tuple[tuple[Ids, ...], tuple[Ids, ...] | None]:
        """Ids of each example and, where the model tells the texts of a pair apart, segments."""
        ...


class TextTokenizer:
    """Our GPT's tokenizer: texts of a pair are joined by end-of-text, which also ends the example."""

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._end = end_of_text_id(tokenizer)

    @property
    def padding(self) -> int:
        """End-of-text; behind the last token a causal model does not look."""
        return self._end

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> tuple[tuple[Ids, ...], tuple[Ids, ...] | None]:
        """Ids of each example, cut to what fits, with end-of-text always last."""
        if max_length > self._context:
            raise ConfigError(
                f"texts of {max_length} tokens are more than this GPT can read ({self._context})",
                f"lower --max-length to {self._context} or less",
            )
        first = self._ids(texts)
        if pairs is None:
            rows = [ids[: max_length - 1] for ids in first]
        else:
            rows = [self._joined(a, b, max_length - 2) for a, b in zip(first, self._ids(pairs), strict=True)]
        return tuple(np.array([*ids, self._end], np.int64) for ids in rows), None

    def _joined(self, first: list[int], second: list[int], room: int) -> list[int]:
        """Both texts within `room` tokens, the longer one cut first: neither is lost."""
        of_first = min(len(first), max(room - len(second), room - room // 2))
        return [*first[:of_first], self._end, *second[: room - of_first]]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [row.ids for row in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]


@dataclass(frozen=True)
class Encoded:
    """Token ids of each example, the segment of each token (where the model tells first and second text), its label."""

    ids: tuple[Ids, ...]
    labels: Ids | npt.NDArray[np.float32] | tuple[Ids, ...]
    """A class, a number, or the tokens of a text."""
    segments: tuple[Ids, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Labelled:
    """Training and evaluation examples as they were read."""

    train: Examples
    evaluate: dict[str, Examples]

    def digest(self, *parts: str) -> str:
        """Of all examples, and of whatever else decides the data."""
        return fingerprint([self.train.digest, {name: part.digest for name, part in self.evaluate.items()}, *parts])


@dataclass(frozen=True)
class EncodedSets:
    """What a run trains on, selects on and is evaluated on."""

    training: Encoded
    validation: Encoded
    """Held out of train, or an evaluation set."""
    evaluation: dict[str, Encoded]


def fixed_source(source: LabelledSource) -> LabelledSource:
    """The same source pinned: a Hub task at a commit."""
    return at_commit(source) if isinstance(source, HubTask) else source


def read_labelled(source: LabelledSource) -> Labelled:
    """All examples of a source."""
    match source:
        case LocalTables():
            evaluate = {name: read_table(file, source.columns) for name, file in source.evaluate.items()}
            return Labelled(read_table(source.train, source.columns), evaluate)
        case HubTask():
            return Labelled(*fetch_labelled(source))
        case GeneratedTask():
            return Labelled(*generate_examples(source))
        case _:
            assert_never(source)


def evaluation_names(source: LabelledSource) -> tuple[str, ...]:
    """The evaluation sets of a source, which need not be there yet."""
    match source:
        case LocalTables():
            return tuple(source.evaluate)
        case HubTask():
            return tuple(known_set(source).evaluate)
        case GeneratedTask():
            return (TEST_SET,)
        case _:
            assert_never(source)


def answers_of(source: LabelledSource) -> Answers:
    """What the labels of a source are."""
    match source:
        case LocalTables(answers=answers):
            return answers
        case HubTask():
            return known_set(source).answers
        case GeneratedTask(name=name):
            return Answers.CLASSES if name == "plots" else Answers.TEXTS
        case _:
            assert_never(source)


def encode_sets(data: LabelledData, labelled: Labelled, reader: Reader) -> EncodedSets:
    """Split train, encode everything; refused if the examples are not those that the config was resolved with."""
    if labelled.digest(*tokenizer_part(data.tokenizer)) != data.digest:
        raise DataError(
            f"the data of {data.name}{' or its tokenizer' if data.tokenizer else ''} has changed since this run "
            "was configured",
            "start a new run with another --out-dir",
        )
    chosen, held = split_training(
        len(labelled.train),
        train_examples=data.train_examples,
        holdout_examples=data.holdout_examples,
        seed=data.seed,
    )

    def labels_of(examples: Examples, where: str) -> Ids | npt.NDArray[np.float32] | tuple[Ids, ...]:
        match data.answers:
            case Answers.CLASSES:
                return label_indices(examples, data.labels, where)
            case Answers.NUMBERS:
                return label_numbers(examples, where)
            case Answers.TEXTS:
                assert data.max_target_length is not None, "LabelledData sees to it"
                return reader.encode(examples.labels, None, data.max_target_length)[0]

    def encoded(examples: Examples, where: str) -> Encoded:
        ids, segments = reader.encode(examples.texts, examples.pairs, data.max_length)
        return Encoded(ids, labels_of(examples, where), segments)

    training = encoded(labelled.train.chosen(chosen), "train")
    evaluation = {name: encoded(part, name) for name, part in labelled.evaluate.items()}
    return EncodedSets(
        training=training,
        validation=evaluation[data.validate_on] if data.validate_on else encoded(labelled.train.chosen(held), "train"),
        evaluation=evaluation,
    )


def tokenizer_part(path: str | None) -> tuple[str, ...]:
    """The digest of a tokenizer file as it is now; nothing for models that bring their own."""
    if path is None:
        return ()
    if not Path(path).is_file():
        raise DataError(f"there is no tokenizer {path}", "put it back, or give another with --tokenizer")
    return (file_sha256(Path(path)),)
