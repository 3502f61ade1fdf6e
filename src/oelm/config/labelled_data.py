"""Labelled text: where it comes from, which columns mean what, and what its labels are."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oelm.config.settings import GrownSettings, Settings


class Answers(StrEnum):
    """What the labels are: it decides the task."""

    CLASSES = "classes"
    NUMBERS = "numbers"
    TEXTS = "texts"

    @property
    def task(self) -> str:
        """The name of the task that predicts them (see `tasks/`)."""
        return {"classes": "classification", "numbers": "regression", "texts": "seq2seq"}[self]


class Columns(Settings):
    """The columns of a table of examples."""

    text: str
    pair: str | None = None
    label: str = "label"


class LabelledFile(Settings):
    """One local table: TSV, CSV or JSONL, plain or compressed. `header` names the columns of a file without them."""

    path: str
    header: tuple[str, ...] | None = None


class LocalTables(GrownSettings):
    """Local files for training and for evaluation; evaluation sets have names."""

    later: ClassVar[frozenset[str]] = frozenset({"answers"})

    kind: Literal["files"] = "files"
    name: str
    train: LabelledFile
    evaluate: Annotated[dict[str, LabelledFile], Field(min_length=1)]
    columns: Columns
    answers: Answers = Answers.CLASSES
    """What the labels are: `classes`, `numbers` or `texts`."""


class GeneratedTask(Settings):
    """Generated, the same everywhere: copy, reverse or sort a text of letters; or what will happen in a story."""

    kind: Literal["generated"] = "generated"
    name: Literal["copy", "reverse", "sort", "plots"]


class HubTask(Settings):
    """A labelled set of the Hub by its name here; `variant` is XNLI's language."""

    kind: Literal["hub"] = "hub"
    name: str
    variant: str | None = None
    revision: str | None = None


LabelledSource = Annotated[LocalTables | HubTask | GeneratedTask, Field(discriminator="kind")]


class LabelledData(GrownSettings):
    """The data of a run on labelled text, read from its files or the Hub.

    A share of train is held out: learning rates and the best checkpoint are chosen on it. The evaluation sets are
    read once, after the last step; but for `validate_on`, if there is one.
    """

    later: ClassVar[frozenset[str]] = frozenset({"answers", "max_target_length", "validate_on"})

    kind: Literal["labelled"] = "labelled"
    source: LabelledSource
    answers: Answers = Answers.CLASSES
    labels: tuple[str, ...] = ()
    """The names of the classes, in the order of their indices; numbers and texts have none."""
    max_target_length: Annotated[int, Field(ge=2)] | None = None
    """Tokens of a text that is an answer."""
    train_examples: Annotated[int, Field(ge=1)]
    """So many of the training examples, chosen at random with `seed`: the same for all arms."""
    holdout_examples: Annotated[int, Field(ge=0)]
    validate_on: str | None = None
    """The evaluation set that the run is validated on instead of examples that are held out. As in many papers, the
    best checkpoint is then the one with the best value of the first measure there, and this value a little too good."""
    max_length: Annotated[int, Field(ge=4)]
    seed: Annotated[int, Field(ge=0)] = 0
    tokenizer: str | None = None
    """A tokenizer.json for our GPT from scratch; the other models bring their own."""
    tokenizer_digest: str | None = None
    digest: str
    """Of the examples as read: a changed file is noticed."""

    @model_validator(mode="after")
    def _answers_fit(self) -> Self:
        if (self.answers is Answers.CLASSES) != (len(self.labels) > 1):
            raise ValueError("classes have at least two names, and other answers none")
        if (self.answers is Answers.TEXTS) == (self.max_target_length is None):
            raise ValueError("answers that are texts, and only those, have a max_target_length")
        if (self.holdout_examples == 0) != (self.validate_on is not None):
            raise ValueError("examples are held out, one at least, unless validate_on names an evaluation set")
        return self

    @property
    def outputs(self) -> int:
        """The width of the head: a score for every class, or one number."""
        return len(self.labels) or 1

    @property
    def name(self) -> str:
        """What reports call the data."""
        return self.source.name
