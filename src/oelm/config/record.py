"""What a run leaves behind: its events, its state while it runs, and `record.json`, all that a report reads."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from oelm.config.run import RunConfig
from oelm.config.settings import Settings

TIME_FIELDS = frozenset({"seconds", "step_seconds", "tokens_per_second"})
"""Fields of events that differ between two otherwise equal runs."""


class StepEvent(Settings):
    """Training as seen after `step` updates; `loss` is the mean over the steps since the last such event."""

    event: Literal["step"] = "step"
    step: int
    tokens: int
    loss: float
    lr: float
    gradient_norm: float
    seconds: float
    step_seconds: float
    tokens_per_second: float


class ValidationEvent(Settings):
    """The task's measures on the fixed validation set after `step` updates; `loss` is always among them."""

    event: Literal["validation"] = "validation"
    step: int
    tokens: int
    loss: float
    measures: dict[str, float]
    seconds: float


class FreezeEvent(Settings):
    """The frozen set changed before update `step` + 1."""

    event: Literal["freeze"] = "freeze"
    step: int
    frozen: int
    frozen_weights: int
    thawed: tuple[str, ...]
    newly_frozen: tuple[str, ...]


Event = Annotated[StepEvent | ValidationEvent | FreezeEvent, Field(discriminator="event")]


class RunState(StrEnum):
    """Where a run stands. A folder with a config and no state file is waiting to be started."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIVERGED = "diverged"
    """The loss was no longer a number: a result, if a sad one. Starting it again gives the same."""
    FINISHED = "finished"


class StateFile(Settings):
    """`state.json`: rewritten every few seconds while the run lives. A stale heartbeat means that it died."""

    state: RunState
    step: int
    steps: int
    pid: int
    device: str
    started_at: float
    heartbeat_at: float
    """Seconds since 1970."""
    sessions: int
    """How often the run was started or resumed."""
    loss: float | None = None
    perplexity: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    reason: str | None = None
    """Why it failed or was interrupted."""


class RoleCount(Settings):
    """Weights of one role by kind, at the start of the run."""

    role: str
    trained: int
    frozen: int
    absent: int


class WeightCounts(Settings):
    """All weights by kind. `later` of the frozen ones are trained at some step under a plan that changes."""

    trained: int
    frozen: int
    absent: int
    later: int
    roles: tuple[RoleCount, ...]

    @property
    def stored(self) -> int:
        """Weights that exist in memory and in a checkpoint."""
        return self.trained + self.frozen


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
    """Synchronised step times with warm-up steps and validation left out."""

    measured_steps: int
    mean_step_seconds: float
    median_step_seconds: float
    tokens_per_second: float
    training_seconds: float
    validation_seconds: float
    wall_seconds: float
    """All sessions of the run together, start-up included."""
    peak_bytes: int
    """Of device memory on a GPU, of the process on a CPU."""


class FreezeAudit(Settings):
    """Evidence that frozen meant frozen: digests of the frozen tensors before the first and after the last step."""

    always_frozen: tuple[str, ...]
    later_trained: tuple[str, ...]
    trained: tuple[str, ...]
    digest_before: str
    digest_after: str
    unchanged: bool
    """Every tensor that was frozen throughout is byte-equal to what it was before the first step."""
    moved: bool
    """Every tensor that was trained differs from what it was before the first step."""


class CurvePoint(Settings):
    """One validation."""

    step: int
    tokens: int
    seconds: float
    loss: float
    train_loss: float | None


class Result(Settings):
    """The result of a run is its last step; the best checkpoint is kept for use and shown as such."""

    loss: float
    measures: dict[str, float]
    best_step: int
    best_loss: float


class Evaluation(Settings):
    """An evaluation set, read once after the last step, with the last or the best checkpoint."""

    name: str
    checkpoint: Literal["last", "best"]
    step: int
    measures: dict[str, float]
    predictions: str
    """The class predicted for each example, in the order of the set, with spaces between: one line of the record."""
    labels: str


class Environment(Settings):
    """What the run was computed with; nothing that names a person or a machine."""

    oelm: str
    python: str
    torch: str
    device: str
    threads: int
    git_commit: str | None
    git_dirty: bool | None


class Record(Settings):
    """`record.json`: written last and atomically, so that its existence means that the run is done."""

    format: Literal[1] = 1
    task: str
    fingerprint: str
    config: RunConfig
    result: Result
    curve: tuple[CurvePoint, ...]
    counts: WeightCounts
    flops: FlopCounts
    geometry: tuple[LayerGeometry, ...]
    timing: Timing
    audit: FreezeAudit
    evaluations: tuple[Evaluation, ...] = ()
    bytes_per_token: float | None
    environment: Environment
    sessions: int

    @property
    def method(self) -> str:
        """The name of the method: the arm."""
        return self.config.method.name
