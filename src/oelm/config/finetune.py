"""Fine-tuning as asked for: few settings with sensible defaults."""

from typing import Annotated, Literal

from pydantic import Field

from oelm.config.labelled import HubTask, LocalTables
from oelm.config.model import Count
from oelm.config.run import Precision
from oelm.config.settings import Settings


class TokenText(Settings):
    """Token files that `oelm prepare` made with the model's own tokenizer: the next token is predicted."""

    kind: Literal["tokens"] = "tokens"
    folder: str


class FinetuneRequest(Settings):
    """One fine-tuning run. None stands for the default that `experiments/finetune.py` documents."""

    model: str
    """Folder or Hub name of a transformers model, folder of an `oelm train` run, or `gpt` for one from scratch."""
    revision: str | None = None
    source: Annotated[LocalTables | HubTask | TokenText, Field(discriminator="kind")]
    method: str | None = None
    attention: tuple[str, ...] | None = None
    train_biases: bool = False
    checkpoint: Literal["last", "best"] = "last"
    size: str = "small"
    tokenizer: str | None = None
    dropout: float = 0.0
    train_examples: Count | None = None
    """So many examples; of token text, so many windows of `max_length` tokens make an epoch."""
    holdout_examples: Count | None = None
    max_length: Annotated[int, Field(ge=4)] = 128
    data_seed: Annotated[int, Field(ge=0)] = 0
    epochs: Annotated[float, Field(gt=0)] = 3.0
    batch_size: Count = 16
    accumulate: Count = 1
    processes: Count = 1
    lr: Annotated[float, Field(gt=0)] = 2e-5
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    precision: Precision = Precision.FLOAT32
    validate_every: Count | None = None
    save_every: Count | None = None
    log_every: Count = 10
    device: str = "auto"
    compile: bool = False
    checkpoint_activations: bool = False
    tensorboard: bool = True
    seed: Annotated[int, Field(ge=0)] = 0
