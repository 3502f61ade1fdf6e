"""What a run leaves behind: its events, its state while it runs, and `record.json`, all that a report reads."""

import hashlib
import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oelm.base.errors import CheckpointError
from oelm.config.measure import BY_TASK, Bilingual, Measure
from oelm.config.run import BadSteps, RunConfig
from oelm.config.settings import GrownSettings, Settings, parse, refuse_unshowable

TIME_FIELDS = frozenset({"seconds", "step_seconds", "tokens_per_second"})
"""Fields of events that differ between two otherwise equal runs."""


class StepEvent(GrownSettings):
    """Training as seen after `step` updates; `loss` is the mean over the steps since the last such event."""

    later: ClassVar[frozenset[str]] = frozenset({"skipped_steps"})

    event: Literal["step"] = "step"
    step: int
    tokens: int
    loss: float
    lr: float
    gradient_norm: float
    """Of the last step that changed the weights."""
    seconds: float
    step_seconds: float
    tokens_per_second: float
    skipped_steps: int = 0
    """So far: steps that changed nothing, because of an overflow in float16 or as bad steps."""


class TextBlocks(Settings):
    """The last validation by blocks of the text, each of whole documents: how many tokens, and their summed loss.

    The tokens are the same for every model that reads this text in windows of one length.
    """

    tokens: tuple[Annotated[int, Field(gt=0)], ...]
    losses: tuple[float, ...]
    """In nats, to eleven digits."""

    @model_validator(mode="after")
    def _are_pairs(self) -> Self:
        if len(self.tokens) != len(self.losses) or len(self.tokens) < 2:
            raise ValueError(f"{len(self.losses)} losses for {len(self.tokens)} blocks of text; there are 2 or more")
        return self

    @property
    def loss(self) -> float:
        """Nats per token of the whole text."""
        return math.fsum(self.losses) / sum(self.tokens)


class ValidationEvent(GrownSettings):
    """The task's measures on the fixed validation set after `step` updates; `loss` is always among them."""

    later: ClassVar[frozenset[str]] = frozenset({"text"})

    event: Literal["validation"] = "validation"
    step: int
    tokens: int
    loss: float
    measures: dict[str, float]
    seconds: float
    text: TextBlocks | None = None
    """Of the last step only, where the validation set is a text of several documents."""


class FreezeEvent(Settings):
    """The frozen set changed before update `step` + 1."""

    event: Literal["freeze"] = "freeze"
    step: int
    frozen: int
    frozen_weights: int
    thawed: tuple[str, ...]
    newly_frozen: tuple[str, ...]


class BadStepEvent(Settings):
    """Update `step` changed no weight: its loss or gradient was not a number, or its loss leapt."""

    event: Literal["bad-step"] = "bad-step"
    step: int
    reason: str
    action: BadSteps
    batch: str
    """SHA-256 of the whole batch of this step, which follows from seed and step."""


Event = Annotated[StepEvent | ValidationEvent | FreezeEvent | BadStepEvent, Field(discriminator="event")]


class RunState(StrEnum):
    """Where a run stands. A folder with a config and no state file is waiting to be started."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIVERGED = "diverged"
    """The loss became NaN or infinite. This is a result: starting the run again gives the same."""
    FINISHED = "finished"


class StateFile(Settings):
    """`state.json`: rewritten every few seconds while the run lives. A stale heartbeat means that it died."""

    state: RunState
    step: int
    steps: int
    host: str | None = None
    """None in files from before it was written."""
    pid: int
    device: str
    started_at: float
    heartbeat_at: float
    """Seconds since 1970."""
    sessions: int
    """How often the run was started or resumed."""
    loss: float | None = None
    measures: dict[str, float] = Field(default_factory=dict)
    """Of the last validation."""
    best: dict[str, float] = Field(default_factory=dict)
    """Of the best validation so far, by `RunConfig.best_by`."""
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    elapsed_seconds: float | None = None
    """In all its sessions."""
    utilisation: float | None = None
    """Of the device, 0 to 1."""
    memory_bytes: int | None = None
    """Taken: of the GPU, or by this process."""
    reason: str | None = None
    """Why it failed or was interrupted."""

    @model_validator(mode="before")
    @classmethod
    def _perplexity_was_a_field(cls, values: Any) -> Any:
        """Files of interrupted runs from before there were measures can be resumed."""
        if not isinstance(values, dict) or "perplexity" not in values:
            return values
        return {name: value for name, value in values.items() if name != "perplexity"}


class RoleCount(Settings):
    """Weights of one role by kind, at the start of the run."""

    role: str
    trained: int
    frozen: int
    absent: int


_QUERY_KEY_MATRICES = frozenset({"query", "key", "query and key"})
QUERY_KEY_ROLES = _QUERY_KEY_MATRICES | {"key shift", "logit gain", "core", "low-rank update", "query and key bias"}
"""The roles on the Q/K side: all that makes attention's logits."""


class WeightCounts(Settings):
    """All weights by kind. `later` of the frozen ones are trained at some step under a plan that changes."""

    trained: int
    frozen: int
    absent: int
    later: int
    later_query_key: int | None = None
    """How many of `later` are on the Q/K side; None in records from before it was counted."""
    roles: tuple[RoleCount, ...]

    @property
    def stored(self) -> int:
        """Weights that exist in memory and in a checkpoint."""
        return self.trained + self.frozen

    @property
    def trained_query_key_share(self) -> float | None:
        """Weights on the Q/K side that some step trains, relative to the baseline's Q and K (2 L D^2 of our GPT).

        None where it cannot be told: an old record of a plan that changes, or a model without Q and K.
        """
        later = 0 if self.later == 0 else self.later_query_key
        matrices = [role for role in self.roles if role.role in _QUERY_KEY_MATRICES]
        baseline = sum(role.trained + role.frozen + role.absent for role in matrices)
        if later is None or baseline == 0:
            return None
        return (sum(role.trained for role in self.roles if role.role in QUERY_KEY_ROLES) + later) / baseline


class FlopCounts(Settings):
    """Matrix-multiplication FLOPs (2 per multiply-add); see `method/cost.py`."""

    forward_per_token: float
    backward_per_token: float
    """Mean over all steps of the plan."""
    baseline_per_token: float
    """Forward and backward of the same size with Q and K trained and no extras."""
    run: float
    """Training FLOPs of the whole run, validation left out."""

    @property
    def saved_share(self) -> float:
        """The share of the baseline's training FLOPs that the method does not need: the bound on any speed-up."""
        return 1 - (self.forward_per_token + self.backward_per_token) / self.baseline_per_token


class LayerGeometry(Settings):
    """What is claimed of one layer's Q and K at init, measured on the built model; see `method/geometry.py`."""

    layer: int
    query_gram_error: float
    key_gram_error: float
    cross_head_overlap: float
    row_norm: float
    logit_std: float


class Timing(Settings):
    """Synchronised step times with warm-up steps and validation left out. A reported run may lack any of them."""

    measured_steps: int | None = None
    mean_step_seconds: float | None = None
    median_step_seconds: float | None = None
    tokens_per_second: float | None = None
    training_seconds: float | None = None
    validation_seconds: float | None = None
    wall_seconds: float | None = None
    """All sessions of the run together, start-up included."""
    peak_bytes: int | None = None
    """Of device memory on a GPU, of the process on a CPU."""


class FreezeAudit(Settings):
    """Evidence that frozen meant frozen: digests of the frozen tensors before the first and after the last step."""

    always_frozen: tuple[str, ...]
    later_trained: tuple[str, ...]
    trained: tuple[str, ...]
    digest_before: str
    digest_after: str
    unchanged: bool | None
    """Every tensor that was frozen throughout is byte-equal to what it was before the first step.

    None where no tensor was: a method whose Q and K are absent leaves nothing to look at. Older records say True there.
    """
    moved: bool
    """Every tensor that was trained differs from what it was before the first step."""


class CurvePoint(Settings):
    """One validation."""

    step: int
    tokens: int
    seconds: float | None
    """None where only the loss was reported."""
    loss: float
    train_loss: float | None


class Result(GrownSettings):
    """The result of a run is its last step; the best checkpoint is kept for use and shown as such.

    Of a reported run, what is None was not reported.
    """

    later: ClassVar[frozenset[str]] = frozenset({"text"})

    loss: float | None
    measures: dict[str, float]
    """By the names of `Record.declared`. A reported perplexity stands here as printed, without the loss beside it."""
    best_step: int | None
    best_loss: float | None
    checkpoint: Literal["last", "best", "unknown"] = "last"
    """Which one the figures are of: always the last of a run of ours."""
    text: TextBlocks | None = None
    """None in records from before it was kept, and where the validation set is no text of several documents."""


class Evaluation(GrownSettings):
    """An evaluation set, read once after the last step, with the last or the best checkpoint."""

    later: ClassVar[frozenset[str]] = frozenset({"question"})

    name: str
    checkpoint: Literal["last", "best"]
    step: int
    measures: dict[str, float]
    predictions: str
    """The class predicted for each example, in the order of the set, with spaces between: one line of the record.
    Empty where only the accuracy was reported; likewise `labels`."""
    labels: str
    question: str = ""
    """How `oelm eval` asked; empty for a run's own evaluation sets."""


class Environment(GrownSettings):
    """What the run was computed with; nothing that names a person or a machine."""

    later: ClassVar[frozenset[str]] = frozenset({"preloaded"})

    oelm: str
    python: str
    torch: str
    device: str
    threads: int
    git_commit: str | None
    git_dirty: bool | None
    preloaded: str = ""
    """Libraries that the system loaded before all others (`LD_PRELOAD`), by file name: they may replace the matrix
    products that torch computes with."""


class TrainingPoint(Settings):
    """Training loss and learning rate at a step, as reported."""

    step: int
    loss: float
    lr: float


class ReportedPerplexity(Settings):
    """A validation of which only the perplexity was printed."""

    step: int
    until: int | None = None
    """Where a range of steps was printed, its end."""
    value: float
    is_about: bool = False
    """Printed with a `~`."""


class Reported(Settings):
    """What marks a record as somebody else's: their name for the run, their figures as printed, our remarks on them."""

    study: Bilingual
    """Whose it is, as the end of "as reported by"."""
    id: str
    model_type: str | None = None
    """Their name for the method; None where they have none."""
    unstated: tuple[str, ...] = ()
    """Settings of the config that the study does not state, by their paths: their values are only usual ones."""
    script: tuple[str, ...] = ()
    """Settings that its reports do not state and its training script does, as defaults."""
    corpus_tokens: int | None = None
    """Of the training set, where it can be told."""
    converged_epochs: float | None = None
    wall_time: str | None = None
    """As printed: `~6.5 h`, `4h31m27s (16,287.72 s)`."""
    perplexities: tuple[ReportedPerplexity, ...] = ()
    training: tuple[TrainingPoint, ...] = ()
    remarks: tuple[Bilingual, ...] = ()


class Record(GrownSettings):
    """`record.json`: written last and atomically, so that its existence means that the run is done.

    A record of ours has every part. One that holds what another study reported says so and may lack flops, audit and
    environment: what is not known is None, never guessed.
    """

    later: ClassVar[frozenset[str]] = frozenset({"skipped_steps"})

    format: Literal[1] = 1
    reported: Reported | None = None
    task: str
    measures: tuple[Measure, ...] = ()
    """What its task measured. Empty in older records: see `declared`."""
    fingerprint: str
    config: RunConfig
    result: Result
    curve: tuple[CurvePoint, ...]
    counts: WeightCounts
    flops: FlopCounts | None
    geometry: tuple[LayerGeometry, ...]
    timing: Timing
    audit: FreezeAudit | None
    evaluations: tuple[Evaluation, ...] = ()
    bytes_per_token: float | None
    answer_entropy: float | None = None
    """Entropy of the validation answers (tokens, or labels) by their frequencies, in nats: the loss of the best
    prediction that looks at nothing. None in records from before it was kept."""
    environment: Environment | None
    sessions: int
    skipped_steps: int = 0
    """Of all steps, those that changed nothing: their gradients overflowed in float16, or they were bad."""
    digest: str | None = None
    """SHA-256 of everything else in the file; None in records from before it was kept."""

    @property
    def method(self) -> str:
        """The name of the method: the arm."""
        return self.config.method.name

    @property
    def source(self) -> Literal["measured", "reported"]:
        """Whether the figures are ours or another study's."""
        return "measured" if self.reported is None else "reported"

    @property
    def declared(self) -> tuple[Measure, ...]:
        """The measures of this record, the most important first; of an older one those of its task."""
        return self.measures or BY_TASK.get(self.task, ())

    @property
    def loss(self) -> float:
        """The validation loss of the last step. Only a reported run can lack it: ask for `result.loss` there."""
        if self.result.loss is None:
            raise CheckpointError(f"no loss was reported for {self.method}", "compare it by what was reported")
        return self.result.loss

    @model_validator(mode="after")
    def _ours_is_complete(self) -> Self:
        if self.reported is None:
            parts = (self.flops, self.audit, self.environment, self.result.loss, self.timing.median_step_seconds)
            if any(part is None for part in parts):
                raise ValueError("a measured run has loss, flops, timing, audit and environment")
            if self.result.checkpoint != "last":
                raise ValueError("the result of a measured run is that of its last step")
        return self


def sealed(record: Record) -> Record:
    """The record with the digest of its own content."""
    return record.model_copy(update={"digest": _content_digest(record.model_dump(mode="json"))})


def opened(values: Any, where: str) -> Record:
    """A record from the values of its file, refused if one of them is not what was written."""
    if isinstance(values, dict) and values.get("digest") not in (None, _content_digest(values)):
        raise CheckpointError(
            f"{where} is damaged: its content does not have the digest that it carries",
            "put it back from a copy; or remove it and resume the run, which writes it anew if its checkpoint is there",
        )
    refuse_unshowable(values, where)
    return parse(Record, values, where)


def _content_digest(values: Mapping[str, Any]) -> str:
    content = {name: value for name, value in values.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
