"""What a speed measurement leaves behind: one JSON file, all that its tables and plots read."""

from enum import StrEnum
from typing import Literal

from oelm.bench.spec import BenchRequest, BenchSpec
from oelm.config.record import Environment
from oelm.config.settings import Settings


class Decision(StrEnum):
    """What the interval of a ratio says."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_DECIDED = "not decided"
    """The interval includes 1, or there were too few rounds for one: the spread exceeds the effect."""


class Ratio(Settings):
    """The median over rounds of time / reference's time in the same round, with its sign interval."""

    median: float
    low: float | None
    high: float | None
    """Order statistics of the rounds' ratios; None below six rounds, where no interval covers 95 %."""
    coverage: float | None
    """The probability that such an interval covers the true median, at least 0.95."""

    @property
    def decision(self) -> Decision:
        """Faster or slower than the reference, or not decided."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return Decision.NOT_DECIDED
        return Decision.FASTER if self.high < 1 else Decision.SLOWER


class Peak(Settings):
    """What shares are shares of."""

    flops_per_second: float
    source: str
    """`measured` and the product that was timed, or the data sheet's row."""


class Row(Settings):
    """One contestant."""

    name: str
    seconds: tuple[float, ...]
    """Mean seconds per step of every timed round."""
    median_seconds: float
    best_seconds: float
    """The best single step."""
    first_seconds: float
    """The very first step, compilation included."""
    tokens_per_second: float
    """At the median round."""
    share: float
    """Useful FLOPs / best step / peak: the share of the machine's own matmul, or of the data sheet's peak."""
    ratio: Ratio | None
    """Over the reference; None for the reference itself."""
    flop_bound: float | None
    """Matmul FLOPs that the method needs over the reference's; None where they are not counted.

    The bound on what is saved in matrix products: what AdamW and clipping save on frozen weights comes on top.
    """
    peak_bytes: int | None
    """Peak memory of a process of its own above what it held before the model was built."""


class StepBench(Settings):
    """Contestants that were timed in turns in one process."""

    kind: Literal["step"] = "step"
    spec: BenchSpec
    peak: Peak
    useful_flops: float
    """FLOPs of one step, the same for all contestants."""
    formula: str
    memory: str
    """How peak memory was measured."""
    rows: tuple[Row, ...]


class ScalingPoint(Settings):
    """One size of the grid: what it costs, and what the fit says."""

    layers: int
    width: int
    context: int
    batch_size: int
    seconds: float
    """Median over rounds."""
    matmul_flops: float
    attention_flops: float
    trained_weights: int
    fitted_seconds: float

    @property
    def residual(self) -> float:
        """(fitted - measured) / measured."""
        return self.fitted_seconds / self.seconds - 1


class ScalingFit(Settings):
    """seconds = fixed + matmul * F_matmul + attention * F_attention + weights * W, no coefficient below 0.

    Least squares of relative residuals, so that small sizes count as much as large ones.
    """

    method: str
    fixed: float
    matmul: float
    attention: float
    weights: float
    points: tuple[ScalingPoint, ...]

    @property
    def rms_residual(self) -> float:
        """Root mean square of the relative residuals."""
        return float((sum(point.residual**2 for point in self.points) / len(self.points)) ** 0.5)


class Scaling(Settings):
    """How a training step's time grows."""

    kind: Literal["scaling"] = "scaling"
    spec: BenchSpec
    fits: tuple[ScalingFit, ...]


class ParallelRow(Settings):
    """One method: a process alone, two side by side without talking, and two that train one model."""

    method: str
    alone_seconds: float
    side_by_side_seconds: float
    together_seconds: float
    """Medians over rounds."""
    together: Ratio
    """Time together / time alone at the same batch per process; its inverse is the efficiency."""
    communication: Ratio
    """Time together / time side by side: what the averaging of gradients costs."""
    trained_bytes: int
    """What is averaged in each step."""

    @property
    def efficiency(self) -> float:
        """1 if two processes do twice the work in the same time."""
        return 1 / self.together.median


class Parallel(Settings):
    """Data-parallel training of two processes with one thread each."""

    kind: Literal["parallel"] = "parallel"
    spec: BenchSpec
    processes: int
    backend: str
    rows: tuple[ParallelRow, ...]


class ProfileRow(Settings):
    """Where one method's training step spends its time."""

    method: str
    step_seconds: float
    """Mean over the profiled steps, the profiler's own cost included."""
    shares: dict[str, float]
    """Of the step, by kinds of operation; `rest` is what is in no other."""


class Profile(Settings):
    """Training steps of every method under torch's profiler."""

    kind: Literal["profile"] = "profile"
    spec: BenchSpec
    rows: tuple[ProfileRow, ...]


class PreparingRow(Settings):
    """One way to make tokens of a text."""

    name: str
    round_seconds: tuple[float, ...]
    bytes_per_second: float
    """Of text, at the median round."""
    ratio: Ratio | None
    """Over the library's time; None for the library itself."""


class Preparing(Settings):
    """`oelm prepare` and the tokenizer library in turns on the same text."""

    kind: Literal["preparing"] = "preparing"
    spec: BenchSpec
    text_bytes: int
    documents: int
    rows: tuple[PreparingRow, ...]


class PaperRow(Settings):
    """What a method costs in memory and communication, by arithmetic alone: float32 gradients and moments."""

    size: str
    method: str
    trained: int
    weight_bytes: int
    """All stored weights, in float32."""
    gradient_bytes: int
    optimiser_bytes: int
    """AdamW's two moments."""
    all_reduce_bytes: dict[int, float]
    """Bytes that each GPU sends per step, by the number of GPUs: a ring sends 2 (n-1)/n of the gradients."""


class BenchRecord(Settings):
    """One call of `oelm bench`."""

    kind: Literal["bench"] = "bench"
    request: BenchRequest
    environment: Environment
    processor: str
    """Model of the CPU."""
    cores: int
    matmul_gflops: float | None
    """The best product of two 2048 x 2048 float32 matrices (on a GPU: see each bench's peak) in GFLOP/s."""
    steps: tuple[StepBench, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    parallel: tuple[Parallel, ...] = ()
    profiles: tuple[Profile, ...] = ()
    preparing: tuple[Preparing, ...] = ()
    paper: tuple[PaperRow, ...] = ()
