"""Labelled text: where it comes from and which columns mean what."""

from typing import Annotated, Literal

from pydantic import Field

from oelm.config.settings import Settings


class Columns(Settings):
    """The columns of a table of examples."""

    text: str
    pair: str | None = None
    label: str = "label"


class LabelledFile(Settings):
    """One local table: TSV, CSV or JSONL, plain or compressed. `header` names the columns of a file without them."""

    path: str
    header: tuple[str, ...] | None = None


class LocalTables(Settings):
    """Local files for training and for evaluation; evaluation sets have names."""

    kind: Literal["files"] = "files"
    name: str
    train: LabelledFile
    evaluate: Annotated[dict[str, LabelledFile], Field(min_length=1)]
    columns: Columns


class HubTask(Settings):
    """A classification set of the Hub by its name here; `variant` is XNLI's language."""

    kind: Literal["hub"] = "hub"
    name: str
    variant: str | None = None
    revision: str | None = None


LabelledSource = Annotated[LocalTables | HubTask, Field(discriminator="kind")]


class LabelledData(Settings):
    """The data of a classification run, read from its files or the Hub.

    A share of train is held out: learning rates and the best checkpoint are chosen on it. The evaluation sets are
    read once, after the last step.
    """

    kind: Literal["labelled"] = "labelled"
    source: LabelledSource
    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    """The names of the classes, in the order of their indices."""
    train_examples: Annotated[int, Field(ge=1)]
    """So many of the training examples, chosen at random with `seed`: the same for all arms."""
    holdout_examples: Annotated[int, Field(ge=1)]
    max_length: Annotated[int, Field(ge=4)]
    seed: Annotated[int, Field(ge=0)] = 0
    tokenizer: str | None = None
    """A tokenizer.json for our GPT from scratch; the other models bring their own."""
    tokenizer_digest: str | None = None
    digest: str
    """Of the examples as read: a changed file is noticed."""

    @property
    def name(self) -> str:
        """What reports call the data."""
        return self.source.name
