"""What a person asks for: few settings with sensible defaults, resolved into the complete `RunConfig`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from oelm.base.errors import ConfigError
from oelm.config.manifest import DataManifest
from oelm.config.methods import parse_method
from oelm.config.model import Count, GPTConfig, Style, default_ffn_width, named_size
from oelm.config.run import DataConfig, Precision, RunConfig
from oelm.config.settings import Settings, parse


class TrainRequest(Settings):
    """One training run as asked for. None stands for the default that `resolve` documents."""

    method: str = "oelm"
    style: Style = Style.GPT
    size: str = "small"
    layers: Count | None = None
    width: Count | None = None
    heads: Count | None = None
    ffn_width: Count | None = None
    vocabulary: Count | None = None
    seq_len: Count = 256
    dropout: float = 0.0
    lr: float = 1e-3
    min_lr: float = 0.0
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    weight_decay: float = 0.1
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    steps: Count = 1000
    batch_size: Count = 8
    accumulate: Count = 1
    processes: Count = 1
    precision: Precision = Precision.FLOAT32
    validate_every: Count | None = None
    validation_sequences: Count = 256
    validation_half: Literal["first", "second"] | None = None
    save_every: Count | None = None
    log_every: Count = 10
    device: str = "auto"
    compile: bool = False
    checkpoint_activations: bool = False
    tensorboard: bool = True
    seed: Annotated[int, Field(ge=0)] = 0


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


def resolve_on(request: TrainRequest, vocabulary: int, data: DataConfig) -> RunConfig:
    """The complete config on data with this vocabulary, which need not be there yet.

    Warm-up: a twentieth of the steps, at most 2,000. Validation: ten times a run, at least every 1,000 steps.
    Checkpoints: with every validation.
    """
    steps = request.steps
    validate_every = request.validate_every or min(1000, max(1, steps // 10))
    warmup = request.warmup_steps if request.warmup_steps is not None else min(2000, steps // 20)
    values = {
        "model": model_config(request, vocabulary),
        "method": parse_method(request.method),
        "data": data,
        "optim": {
            **{name: getattr(request, name) for name in ("lr", "weight_decay", "clip", "beta1", "beta2")},
            "min_lr_ratio": request.min_lr / request.lr if request.lr > 0 else 0.0,
            "warmup_steps": warmup,
        },
        "train": {
            **{
                name: getattr(request, name) for name in ("steps", "batch_size", "accumulate", "processes", "precision")
            },
            "validate_every": validate_every,
            "validation_sequences": request.validation_sequences,
            "validation_half": request.validation_half,
        },
        "machine": {
            **{
                name: getattr(request, name)
                for name in ("device", "log_every", "compile", "checkpoint_activations", "tensorboard")
            },
            "save_every": request.save_every or validate_every,
        },
        "seed": request.seed,
    }
    return parse(RunConfig, values, "settings")
