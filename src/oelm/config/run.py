"""One run: everything that affects its results, and a few settings that do not."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oelm.config.labelled_data import Answers, LabelledData
from oelm.config.measure import BY_TASK, LOSS, Measure
from oelm.config.method import EveryNth, Method
from oelm.config.model import Count, GPTConfig, GPTFromRun, HuggingFaceModel
from oelm.config.probe import Probe
from oelm.config.settings import GrownSettings, Settings, fingerprint, unplaced
from oelm.config.study_role import StudyRole


class Precision(StrEnum):
    """The arithmetic of the forward pass; weights are kept in float32 (float64 for `float64`)."""

    FLOAT32 = "float32"
    BF16 = "bf16"
    FLOAT16 = "float16"
    """With a loss scale: a step whose gradients overflow is skipped and counted (`train/loss_scale.py`)."""
    FLOAT64 = "float64"


class Schedule(StrEnum):
    """How the learning rate falls after the warm-up."""

    COSINE = "cosine"
    LINEAR = "linear"


class Decay(StrEnum):
    """Which trained weights AdamW decays."""

    MATRICES = "matrices"
    """Not biases, norms, shifts and gains."""
    ALL = "all"


class DataConfig(GrownSettings):
    """A folder of token files; `digest` is of its manifest, so that a changed corpus is noticed."""

    later: ClassVar[frozenset[str]] = frozenset({"window"})

    kind: Literal["tokens"] = "tokens"
    folder: str
    name: str
    digest: str
    window: Count | None = None
    """How many tokens a pre-trained model reads at once; our GPT reads its context."""


class OptimConfig(GrownSettings):
    """AdamW with linear warm-up; by default the rate falls by a cosine and only matrices decay."""

    later: ClassVar[frozenset[str]] = frozenset({"schedule", "decay"})

    lr: Annotated[float, Field(gt=0)]
    min_lr_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    warmup_steps: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    clip: Annotated[float, Field(gt=0)] = 1.0
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    schedule: Schedule = Schedule.COSINE
    decay: Decay = Decay.MATRICES


_MOST_SEQUENCES = 10**15
"""Of a whole run: with their tokens they can still be counted in 63 bits."""


class BadSteps(StrEnum):
    """What happens at a step whose loss or gradient is not a number; unless it is `stop`, also where the loss leaps."""

    STOP = "stop"
    """The run ends as diverged. Leaps are left alone."""
    SKIP = "skip"
    """Its batch changes nothing, and is counted."""
    ROLL_BACK = "roll-back"
    """Weights and moments go back to the last checkpoint, and the batches since are passed over."""


class TrainConfig(GrownSettings):
    """Length, batch size and validation."""

    later: ClassVar[frozenset[str]] = frozenset({"bad_steps"})

    steps: Count
    batch_size: Count
    """Sequences per micro-batch and process."""
    accumulate: Count = 1
    """Micro-batches per step and process."""
    processes: Count = 1
    """Data-parallel processes (torchrun's world size)."""
    precision: Precision = Precision.FLOAT32
    validate_every: Count
    validation_sequences: Count
    """Size of the fixed validation set; fewer if the validation file is shorter."""
    validation_half: Literal["first", "second"] | None = None
    """Which half of the validation documents is validated on; None for all of them."""
    bad_steps: BadSteps = BadSteps.STOP

    @property
    def sequences_per_step(self) -> int:
        """The global batch: what one update averages over."""
        return self.batch_size * self.accumulate * self.processes

    @model_validator(mode="after")
    def _can_be_counted(self) -> Self:
        if self.sequences_per_step * self.steps > _MOST_SEQUENCES:
            raise ValueError(f"{self.sequences_per_step:,} sequences per step for {self.steps:,} steps are too many")
        return self


class MachineConfig(Settings):
    """Settings that do not affect the results: where it runs and what is kept. (`compile` may change the last bits.)"""

    device: str = "auto"
    save_every: Count
    log_every: Count = 10
    compile: bool = False
    checkpoint_activations: bool = False
    """Keep only each layer's input for the backward pass and compute the rest again."""
    tensorboard: bool = True


ModelConfig = Annotated[GPTConfig | HuggingFaceModel | GPTFromRun, Field(discriminator="kind")]
TrainingData = Annotated[DataConfig | LabelledData | Probe, Field(discriminator="kind")]


class RunConfig(Settings):
    """A resolved run, as written to `config.yaml`: language modelling on tokens, labelled text, or a probe."""

    model: ModelConfig
    method: Method
    data: TrainingData
    optim: OptimConfig
    train: TrainConfig
    machine: MachineConfig
    seed: Annotated[int, Field(ge=0)]
    study: StudyRole | None = None
    """None for a run that is not part of a study."""

    @property
    def best_by(self) -> Measure:
        """What the best checkpoint is best by: the loss, or on an evaluation set the task's first measure."""
        if isinstance(self.data, LabelledData) and self.data.validate_on is not None:
            return BY_TASK[self.data.answers.task][0]
        return LOSS

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if isinstance(self.data, DataConfig) and (self.data.window is None) != isinstance(self.model, GPTConfig):
            raise ValueError(
                "a pre-trained model needs data.window, and our GPT, which has its context, must not have one"
            )
        if isinstance(self.data, DataConfig) and isinstance(self.model, GPTFromRun):
            raise ValueError("a run is fine-tuned on labelled text only")
        if isinstance(self.data, LabelledData) and isinstance(self.model, GPTConfig) and self.data.tokenizer is None:
            raise ValueError("a GPT from scratch needs data.tokenizer, the path of a tokenizer.json")
        writes = isinstance(self.data, LabelledData) and self.data.answers is Answers.TEXTS
        if (writes or isinstance(self.data, DataConfig)) and getattr(self.model, "head_only", False):
            raise ValueError("only a model of classes or numbers has a new head to train alone")
        if writes and not isinstance(self.model, HuggingFaceModel):
            raise ValueError("answers that are texts need an encoder-decoder of transformers, such as T5 or BART")
        if isinstance(self.model, GPTConfig) and self.method.pretrained is not None:
            raise ValueError(f"{self.method.name} needs a pre-trained model; for a GPT from scratch take oelm")
        if not isinstance(self.data, DataConfig) and self.train.validation_half is not None:
            raise ValueError("labelled text is validated as a whole and a probe on its sequences; no halves there")
        if isinstance(self.data, Probe) and not (
            isinstance(self.model, GPTConfig)
            and self.model.context >= self.data.context
            and self.model.vocabulary >= self.data.vocabulary
        ):
            raise ValueError(
                f"this probe needs our GPT with {self.data.context} positions and {self.data.vocabulary} symbols"
            )
        return self

    @model_validator(mode="after")
    def _compiles_once(self) -> Self:
        plan = self.method.plan
        if self.machine.compile and plan is not None and isinstance(plan.when, EveryNth):
            raise ValueError("+every with --compile would compile anew at every change; leave one of them out")
        return self

    @model_validator(mode="after")
    def _warmup_fits(self) -> Self:
        if self.optim.warmup_steps >= self.train.steps and self.train.steps > 1:
            raise ValueError(
                f"warm-up of {self.optim.warmup_steps} steps does not fit into {self.train.steps} steps; "
                "lower --warmup-steps"
            )
        return self

    @property
    def task(self) -> str:
        """The name of the task (see `tasks/`)."""
        match self.data:
            case LabelledData(answers=answers):
                return answers.task
            case Probe():
                return "probing"
            case DataConfig():
                return "language-modelling"

    def numbers(self) -> dict[str, Any]:
        """Everything that affects the results: no folder, label, machine or study; batches by their total size."""
        exclude: Any = {
            "machine": True,
            "study": True,
            "method": {"name"},
            "data": {"folder", "name", "source", "tokenizer"},
            "model": {"folder", "source", "revision"},
        }
        values = self.model_dump(mode="json", exclude=exclude)
        train = values["train"]
        for part in ("batch_size", "accumulate", "processes"):
            del train[part]
        train["sequences_per_step"] = self.train.sequences_per_step
        if self.train.validation_half is None:  # runs from before there were halves have the same fingerprint
            del train["validation_half"]
        return values

    def without_places(self) -> "RunConfig":
        """As it stands in a record: of absolute paths only the last part."""
        values = self.model_dump()
        return RunConfig.model_validate(
            {**values, "data": unplaced(values["data"]), "model": unplaced(values["model"])}
        )

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints promise equal results, on one machine and build (with dropout: and one split)."""
        return fingerprint(self.numbers())
