"""`eval.json`: what was asked of a trained model and what came out, by suite and by set."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from oelm.base.errors import CheckpointError
from oelm.config.measure import Measure
from oelm.config.model import Count
from oelm.config.record import Environment, Evaluation, Record
from oelm.config.settings import Settings, unplaced

EVALUATION_FILE = "eval.json"


class Suite(StrEnum):
    """A kind of question."""

    LIKELIHOOD = "likelihood"
    """Perplexity and bits per byte on text, with a sliding window."""
    CHOICES = "choices"
    """Minimal pairs, choices and last words, by the likelihood of their endings."""
    PROBES = "probes"
    """Retrieval, recall, copying and induction in sequences of random tokens."""
    GENERATION = "generation"
    """Stories that begin like the built-in ones: variety, repetition, and if they keep their character."""
    ATTENTION = "attention"
    """Where every head looks: entropy, previous token, same token, and the token behind it."""
    HARNESS = "harness"
    """Tasks of lm-evaluation-harness."""


class EvaluationRequest(Settings):
    """What is asked, of every model alike."""

    suites: Annotated[tuple[Suite, ...], Field(min_length=1)] = (Suite.LIKELIHOOD,)
    texts: tuple[str, ...] = ()
    """Files of text or folders of token files for `likelihood`; none: what the run itself was validated on."""
    half: Literal["first", "second"] | None = None
    """Of the validation documents of a folder of token files; None: all, or what the run itself was validated on."""
    checkpoint: Literal["last", "best"] = "last"
    """Of a run: after the last step, or of the best validation."""
    items: tuple[str, ...] = ()
    """Files of JSON lines for `choices`; see `oelm.evaluate.items` for their forms."""
    window: Count | None = None
    """Tokens that the model reads at once; None: its whole context."""
    stride: Count | None = None
    """By how many tokens the window moves; None: half a window."""
    tasks: tuple[str, ...] = ()
    """Of lm-evaluation-harness, for `harness`."""
    task_folder: str | None = None
    """Where task files of one's own lie; the harness's own are not read then."""
    sequences: Count = 64
    """Of each probe, and texts to generate."""
    judge: str | None = None
    """A run or model under which the perplexity of generated texts is measured."""
    tokens: Count = 100
    """Of each generated text, at most."""
    temperature: Annotated[float, Field(ge=0)] = 0.8
    top_k: Annotated[int, Field(ge=0)] = 50
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0
    """Of what is drawn."""
    batch_size: Count = 8
    most_tokens: Count | None = None
    """Of each text only so many."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if len(set(self.suites)) != len(self.suites):
            raise ValueError("a suite is named twice")
        if (Suite.CHOICES in self.suites) != bool(self.items):
            raise ValueError("the suite choices and its files belong together: --suite choices --items FILE")
        if (Suite.HARNESS in self.suites) != bool(self.tasks):
            raise ValueError("the suite harness and its tasks belong together: --suite harness --tasks NAME,...")
        return self

    def without_places(self) -> "EvaluationRequest":
        """As it stands in `eval.json`: of absolute paths only the last part."""
        return EvaluationRequest.model_validate(unplaced(self.model_dump()))


class Part(Settings):
    """Figures of a part of a set: a range of positions, a paradigm."""

    by: str
    """What the set is divided by."""
    name: str
    count: int
    measures: dict[str, float]


class Sample(Settings):
    """A generated text."""

    prompt: str
    text: str


_FOUND = frozenset({"cut", "ties", "mean_tokens"})


class SuiteResult(Settings):
    """One suite on one set. `evaluation` is what records and reports take up; the rest is for the reader."""

    suite: Suite
    measures: tuple[Measure, ...]
    evaluation: Evaluation
    count: int
    """Of what the figures are means of: tokens, items."""
    intervals: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """95 %, over the set alone: what another sample of such text or items might have given this same model."""
    settings: dict[str, int | float | str] = Field(default_factory=dict)
    """How it was asked, and with some suites (`_FOUND`) what was noticed on the way."""
    parts: tuple[Part, ...] = ()
    samples: tuple[Sample, ...] = ()
    environment: Environment | None = None
    """In which it was asked; None where that was not kept."""

    @property
    def question(self) -> str:
        """How it was asked: models that were asked otherwise have other figures, whatever they are."""
        asked = {name: value for name, value in self.settings.items() if name not in _FOUND}
        return ", ".join(f"{name} {value}" for name, value in {**asked, "count": self.count}.items())

    def is_of_step(self, last: int) -> bool:
        """Whether it was asked of a checkpoint of a finished run: of the best one, or of that after the last step."""
        return self.evaluation.checkpoint != "last" or self.evaluation.step == last


class PairedDifference(Settings):
    """This model's figure minus another's on the same tokens or items, with 95 % over them."""

    suite: Suite
    on: str
    against: str
    measure: str
    difference: float
    lower: float | None
    upper: float | None


class EvaluationFile(Settings):
    """The file of one model."""

    format: Literal[1] = 1
    model: str
    digest: str
    """Of the last weights, settings and tokenizer."""
    fingerprint: str | None = None
    """Of the run that it comes from; None for a model of other origin."""
    requests: tuple[EvaluationRequest, ...] = ()
    """What was asked, the newest last."""
    results: tuple[SuiteResult, ...]
    paired: tuple[PairedDifference, ...] = ()

    def taking_up(self, earlier: "EvaluationFile | None") -> "EvaluationFile":
        """With what an earlier file of the same model holds and this one does not; of another model, nothing."""
        if earlier is None or earlier.digest != self.digest:
            return self
        new = {_place(result) for result in self.results}
        kept = tuple(result for result in earlier.results if _place(result) not in new)
        pairs = {(pair.suite, pair.on, pair.against, pair.measure): pair for pair in (*earlier.paired, *self.paired)}
        asked = tuple(request for request in earlier.requests if request not in self.requests)
        changes = {"results": (*kept, *self.results), "paired": tuple(pairs.values())}
        return self.model_copy(update={**changes, "requests": (*asked, *self.requests)})

    def in_record(self, record: Record) -> Record:
        """The record of the same run with these answers beside its own figures.

        What a run was asked before it had ended is not taken up.
        """
        if self.fingerprint != record.fingerprint:
            raise CheckpointError(
                f"the {EVALUATION_FILE} beside the record of {record.method} is of another run",
                "evaluate the run again, or take the file away",
            )
        results = [result for result in self.results if result.is_of_step(record.config.train.steps)]
        measures = dict.fromkeys((*record.declared, *(each for result in results for each in result.measures)))
        answers = (result.evaluation.model_copy(update={"question": result.question}) for result in results)
        rows = (*record.evaluations, *answers)
        return record.model_copy(update={"measures": tuple(measures), "evaluations": rows})


def _place(result: SuiteResult) -> tuple[str, str, str]:
    return result.suite, result.evaluation.name, result.evaluation.checkpoint
