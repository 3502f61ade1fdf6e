"""The models that a run may train: our GPT by its size, a Hugging Face model, or our GPT from a finished run."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from oelm.base.errors import ConfigError
from oelm.config.method import Method
from oelm.config.settings import Settings

Count = Annotated[int, Field(ge=1)]
GPT2_VOCABULARY = 50257


class GPTConfig(Settings):
    """Pre-norm decoder with learned positions and a tied embedding; see `model/gpt.py`."""

    kind: Literal["gpt"] = "gpt"
    layers: Count
    width: Count
    heads: Count
    ffn_width: Count
    context: Count
    vocabulary: Count
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            near = [heads for heads in range(1, self.width + 1) if self.width % heads == 0]
            fitting = min(near, key=lambda heads: abs(heads - self.heads))
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads; {fitting} heads would do")
        return self

    @property
    def head_width(self) -> int:
        """K, the width of one head."""
        return self.width // self.heads


def query_key_width(config: GPTConfig, method: Method) -> int:
    """The width of one head's Q and K: that of V, unless the method's are thin."""
    if method.thin is None:
        return config.head_width
    if method.thin >= config.head_width:
        raise ConfigError(
            f"{method.name}: Q and K of width {method.thin} are not thinner than heads of width {config.head_width}",
            f"choose +thin=1 to +thin={config.head_width - 1}" if config.head_width > 1 else "take fewer heads",
        )
    return method.thin


SIZES: dict[str, tuple[int, int, int]] = {
    "tiny": (2, 128, 2),
    "small": (4, 256, 4),
    "medium-512": (6, 512, 8),
    "large": (8, 768, 12),
}
"""Layers, width and heads of the sizes with a name; heads are 64 wide and the FFN is four times the width."""


def named_size(name: str) -> tuple[int, int, int]:
    """Layers, width and heads of a named size."""
    if name.lower() not in SIZES:
        raise ConfigError(
            f"unknown size {name!r}",
            f"choose one of {', '.join(SIZES)}, or give --layers, --width and --heads",
        )
    return SIZES[name.lower()]


class HuggingFaceModel(Settings):
    """A transformers model by its folder or its name on the Hub; `digest` is of config, weights and tokenizer."""

    kind: Literal["hugging-face"] = "hugging-face"
    source: str
    revision: str | None = None
    digest: str
    attention: tuple[str, ...] | None = None
    """Which kinds of attention the method is applied to: encoder, decoder, cross; None for all that there are."""
    train_biases: bool = False
    """Train the biases of Q and K instead of freezing them with their matrices."""


class GPTFromRun(Settings):
    """Our GPT as a run left it: with the run's size and method; `digest` is of settings, weights and tokenizer."""

    kind: Literal["gpt-run"] = "gpt-run"
    folder: str
    checkpoint: Literal["last", "best"] = "last"
    digest: str
