"""What a person asks for, by flags or in a study: few settings with defaults, made into a complete `RunConfig`."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from oelm.base.errors import ConfigError
from oelm.config.labelled_data import GeneratedTask, HubTask, LabelledData, LocalTables
from oelm.config.manifest import DataManifest
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import Count, GPTConfig, Layers, Style, Width, default_ffn_width, named_size
from oelm.config.probe import Probe
from oelm.config.run import (
    BadSteps,
    DataConfig,
    Decay,
    MachineConfig,
    ModelConfig,
    OptimConfig,
    Precision,
    RunConfig,
    Schedule,
    TrainConfig,
)
from oelm.config.settings import Settings, parse

_MOST_HELD_OUT = 2000
_HELD_OUT_WINDOWS = 64


class RunRequest(Settings):
    """What both kinds of training share. None stands for a default that depends on the other settings."""

    style: Style = Style.GPT
    size: str = "small"
    dropout: float = 0.0
    clip: float = 1.0
    beta1: float = 0.9
    schedule: Schedule = Schedule.COSINE
    decay: Decay = Decay.MATRICES
    accumulate: Count = 1
    processes: Count = 1
    precision: Precision = Precision.FLOAT32
    bad_steps: BadSteps = BadSteps.STOP
    validate_every: Count | None = None
    save_every: Count | None = None
    log_every: Count = 10
    device: str = "auto"
    compile: bool = False
    checkpoint_activations: bool = False
    tensorboard: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    def changed(self, **changes: Any) -> Self:
        """The same request with other settings, which are validated."""
        return type(self).model_validate({**dict(self), **changes})

    @classmethod
    def default(cls, setting: str) -> Any:
        """The default of a setting, for the help of a command line."""
        return cls.model_fields[setting].default


class TrainRequest(RunRequest):
    """A GPT from scratch on token files; see `resolve_on` for what None stands for."""

    method: str = "oelm"
    layers: Layers | None = None
    width: Width | None = None
    heads: Width | None = None
    ffn_width: Count | None = None
    vocabulary: Count | None = None
    seq_len: Count = 256
    lr: float = 1e-3
    min_lr: Annotated[float, Field(ge=0)] = 0.0
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    weight_decay: float = 0.1
    beta2: float = 0.95
    steps: Count = 1000
    batch_size: Count = 8
    validation_sequences: Count = 256
    validation_half: Literal["first", "second"] | None = None


class ProbeRequest(TrainRequest):
    """A small GPT from scratch on a probe, with rotary positions: what it has to learn is a relative place."""

    style: Style = Style.LLAMA
    layers: Layers = 3
    width: Width = 64
    heads: Width = 2
    lr: float = 3e-3
    steps: Count = 3000
    batch_size: Count = 32
    tensorboard: bool = False


class TokenText(Settings):
    """Token files that `oelm prepare` made with the model's own tokenizer: the next token is predicted."""

    kind: Literal["tokens"] = "tokens"
    folder: str


class FinetuneRequest(RunRequest):
    """A model on labelled text, or a language model on token files; `finetune_on` says what None stands for."""

    model: str
    """Folder or Hub name of a transformers model, folder of an `oelm train` run, or `gpt` for one from scratch.

    A transformers model that writes texts may be given as its config.json alone: its weights are drawn from the seed.
    `{method}` and `{seed}` stand for those of the run.
    """
    revision: str | None = None
    source: Annotated[LocalTables | HubTask | GeneratedTask | TokenText, Field(discriminator="kind")]
    method: str | None = None
    attention: tuple[str, ...] | None = None
    train_biases: bool = False
    head_only: bool = False
    """A linear probe: only the new head is trained."""
    checkpoint: Literal["last", "best"] = "last"
    tokenizer: str | None = None
    train_examples: Count | None = None
    """So many examples; of token text, so many windows of `max_length` tokens make an epoch."""
    holdout_examples: Count | None = None
    validate_on: str | None = None
    """An evaluation set of labelled text that chooses the best checkpoint, instead of examples that are held out."""
    max_length: Annotated[int, Field(ge=4)] = 128
    max_target_length: Annotated[int, Field(ge=2)] = 64
    """Of answers that are texts."""
    data_seed: Annotated[int, Field(ge=0)] = 0
    epochs: Annotated[float, Field(gt=0)] = 3.0
    batch_size: Count = 16
    lr: Annotated[float, Field(gt=0)] = 2e-5
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    weight_decay: float = 0.01
    beta2: float = 0.999

    @property
    def own_model(self) -> str:
        """The model with `{method}` and `{seed}` filled in: every arm and seed may go on from a run of its own."""
        return self.model.replace("{method}", self.method or "").replace("{seed}", str(self.seed))

    @property
    def examples_per_step(self) -> int:
        """The global batch."""
        return self.batch_size * self.accumulate * self.processes

    def split_sizes(self, count: int) -> tuple[int, int]:
        """How many of `count` training examples are trained on and held out: a tenth, at most 2,000, is held out.

        None is where `validate_on` takes the place of the hold-out.
        """
        if self.validate_on is not None:
            return self.train_examples or count, 0
        held_out = self.holdout_examples or min(_MOST_HELD_OUT, max(1, (self.train_examples or count) // 10))
        return self.train_examples or count - held_out, held_out

    def window_counts(self, tokens: int | None) -> tuple[int, int]:
        """How many windows of token text make an epoch, and how many are held out; of unknown text, one step's."""
        windows = self.examples_per_step if tokens is None else max(1, tokens // self.max_length)
        return self.train_examples or windows, self.holdout_examples or _HELD_OUT_WINDOWS


def model_config(request: TrainRequest, vocabulary: int) -> GPTConfig:
    """The named size with whatever is given by number; the FFN has the width that is usual in its style."""
    layers, width, heads = named_size(request.size)
    width = request.width or width
    values: dict[str, Any] = {
        "layers": request.layers or layers,
        "width": width,
        "heads": request.heads or heads,
        "ffn_width": request.ffn_width or default_ffn_width(request.style, width),
        "context": request.seq_len,
        "vocabulary": request.vocabulary or vocabulary,
        "dropout": request.dropout,
        "style": request.style,
    }
    if values["vocabulary"] < vocabulary:
        raise ConfigError(
            f"the vocabulary of {values['vocabulary']} is smaller than the tokenizer's {vocabulary}",
            "leave --vocab-size out to take the tokenizer's",
        )
    return parse(GPTConfig, values, "model")


def resolve(request: TrainRequest, manifest: DataManifest, data_folder: str) -> RunConfig:
    """The complete config of a run on prepared data."""
    data = DataConfig(folder=data_folder, name=manifest.name, digest=manifest.digest)
    return resolve_on(request, manifest.tokenizer.vocabulary, data)


def resolve_probe(request: TrainRequest, probe: Probe) -> RunConfig:
    """The complete config of a run on a probe, whose sequences decide the context."""
    return resolve_on(request.changed(seq_len=probe.context), probe.vocabulary, probe)


def resolve_on(request: TrainRequest, vocabulary: int, data: DataConfig | Probe) -> RunConfig:
    """The complete config on data with this vocabulary, which need not be there yet.

    Warm-up: a twentieth of the steps, at most 2,000. Validation: ten times a run, at least every 1,000 steps.
    Checkpoints: with every validation.
    """
    steps, warmup = request.steps, request.warmup_steps
    if request.min_lr > request.lr > 0:
        raise ConfigError(
            f"min_lr {request.min_lr:g} is above lr {request.lr:g}, and the schedule falls from lr to min_lr",
            "lower min_lr, or raise lr",
        )
    return _run_config(
        request,
        model=model_config(request, vocabulary),
        method=parse_method(request.method),
        data=data,
        optim={
            "min_lr_ratio": request.min_lr / request.lr if request.lr > 0 else 0.0,
            "warmup_steps": min(2000, steps // 20) if warmup is None else warmup,
        },
        train={"validate_every": request.validate_every or min(1000, max(1, steps // 10))},
    )


def finetune_on(
    request: FinetuneRequest,
    model: ModelConfig,
    method: Method,
    data: LabelledData | DataConfig,
    size: int | None = None,
) -> RunConfig:
    """The complete config on this data. If it is there, `size` says how much: tokens of token text, or examples of the
    evaluation set to validate on.

    Validation: four times an epoch, on the hold-out or on that set. Checkpoints: with every validation.
    """
    if isinstance(data, LabelledData):
        examples, held_out = data.train_examples, data.holdout_examples or size or 1
    else:
        examples, held_out = request.window_counts(size)
    per_step = request.examples_per_step
    steps = max(1, round(request.epochs * examples / per_step))
    return _run_config(
        request,
        model=model,
        method=method,
        data=data,
        optim={"warmup_steps": int(request.warmup_share * steps)},
        train={
            "steps": steps,
            "validate_every": request.validate_every or max(1, min(steps, round(examples / per_step / 4))),
            "validation_sequences": held_out,
        },
    )


def _run_config(
    request: RunRequest,
    *,
    model: ModelConfig,
    method: Method,
    data: DataConfig | LabelledData | Probe,
    optim: dict[str, Any],
    train: dict[str, Any],
) -> RunConfig:
    """The parts of a config take from the request what has the same name, but for what is computed."""

    def part(kind: type[Settings], computed: dict[str, Any]) -> dict[str, Any]:
        common = kind.model_fields.keys() & type(request).model_fields.keys()
        return {name: getattr(request, name) for name in common} | computed

    values = {
        "model": model,
        "method": method,
        "data": data,
        "optim": part(OptimConfig, optim),
        "train": part(TrainConfig, train),
        "machine": part(MachineConfig, {"save_every": request.save_every or train["validate_every"]}),
        "seed": request.seed,
    }
    return parse(RunConfig, values, "settings")
