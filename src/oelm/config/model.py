"""The models that a run may train: our GPT by size and style, a Hugging Face model, or our GPT from a run."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oelm.base.errors import ConfigError
from oelm.config.method import Method
from oelm.config.settings import GrownSettings

Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Width = Annotated[int, Field(ge=1, le=2**20)]
Layers = Annotated[int, Field(ge=1, le=1000)]
"""What no machine could hold is refused here, before it is counted, built or waited for."""
GPT2_VOCABULARY = 50257


class Style(StrEnum):
    """What the blocks are made of. Both are pre-norm decoders with a tied embedding; Q and K are the method's."""

    GPT = "gpt"
    """As GPT-2: learned positions, LayerNorm, GELU, biases in norms and FFN."""
    LLAMA = "llama"
    """As Llama: rotary positions, RMSNorm, SwiGLU, no biases."""


BLOCK_NORM_EPSILON = 1e-5
"""Torch's for LayerNorm, and that of Llama 2 and 3 (transformers' `LlamaConfig` has 1e-6 unless told)."""
ROTARY_THETA = 10_000.0

_SWIGLU_MULTIPLE = 32
"""Matrix products like widths that are multiples of it, and 8/3 D is hardly moved: by 3 % at width 128, 1 % at 512."""


def default_ffn_width(style: Style, width: int) -> int:
    """4 D; for SwiGLU's three matrices 8/3 D to the nearest multiple of 32, about the same 8 D^2 weights."""
    if style is Style.GPT:
        return 4 * width
    return max(1, round(8 / 3 * width / _SWIGLU_MULTIPLE)) * _SWIGLU_MULTIPLE


class GPTConfig(GrownSettings):
    """Pre-norm decoder with a tied embedding; see `model/gpt.py`."""

    later: ClassVar[frozenset[str]] = frozenset({"style"})

    kind: Literal["gpt"] = "gpt"
    layers: Layers
    width: Width
    heads: Width
    ffn_width: Annotated[int, Field(ge=1, le=2**23)]
    context: Count
    vocabulary: Count
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    style: Style = Style.GPT

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            near = [heads for heads in range(1, self.width + 1) if self.width % heads == 0]
            fitting = min(near, key=lambda heads: abs(heads - self.heads))
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads; {fitting} heads would do")
        return self

    @model_validator(mode="after")
    def _heads_can_be_rotated(self) -> Self:
        if self.style is Style.LLAMA and self.head_width % 2:
            raise ValueError(
                f"{self.heads} heads of width {self.head_width}: rotary positions turn pairs of coordinates, "
                "so a head's width is even; change width or heads"
            )
        return self

    @property
    def head_width(self) -> int:
        """K, the width of one head."""
        return self.width // self.heads

    @property
    def ffn_matrices(self) -> int:
        """How many matrices of D F weights an FFN has: up and down, and in SwiGLU the gate."""
        return {Style.GPT: 2, Style.LLAMA: 3}[self.style]


def query_key_width(config: GPTConfig, method: Method) -> int:
    """The width of one head's Q and K: that of V, unless the method's are thin."""
    if method.thin is None:
        return config.head_width
    if method.thin >= config.head_width:
        raise ConfigError(
            f"{method.name}: Q and K of width {method.thin} are not thinner than heads of width {config.head_width}",
            f"choose +thin=1 to +thin={config.head_width - 1}" if config.head_width > 1 else "take fewer heads",
        )
    if config.style is Style.LLAMA and method.thin % 2:
        raise ConfigError(
            f"{method.name}: rotary positions turn pairs of coordinates, and {method.thin} is odd",
            f"choose an even width, such as +thin={method.thin + 1 if method.thin + 1 < config.head_width else 2}",
        )
    return method.thin


SIZES: dict[str, tuple[int, int, int]] = {
    "tiny": (2, 128, 2),
    "small": (4, 256, 4),
    "medium-512": (6, 512, 8),
    "large": (8, 768, 12),
}
"""Layers, width and heads of the sizes with a name; heads are 64 wide; for the FFN see `default_ffn_width`."""


def named_size(name: str) -> tuple[int, int, int]:
    """Layers, width and heads of a named size."""
    if name.lower() not in SIZES:
        raise ConfigError(
            f"unknown size {name!r}",
            f"choose one of {', '.join(SIZES)}, or give --layers, --width and --heads",
        )
    return SIZES[name.lower()]


class HuggingFaceModel(GrownSettings):
    """A transformers model by its folder or its name on the Hub; `digest` is of config, weights and tokenizer."""

    later: ClassVar[frozenset[str]] = frozenset({"head_only"})

    kind: Literal["hugging-face"] = "hugging-face"
    source: str
    revision: str | None = None
    digest: str
    attention: tuple[str, ...] | None = None
    """Which kinds of attention the method is applied to: encoder, decoder, cross; None for all that there are."""
    train_biases: bool = False
    """Train the biases of Q and K instead of freezing them with their matrices."""
    head_only: bool = False
    """A linear probe: everything but the new head is frozen, whatever the method says."""


class GPTFromRun(GrownSettings):
    """Our GPT as a run left it: with the run's size and method; `digest` is of settings, weights and tokenizer."""

    later: ClassVar[frozenset[str]] = frozenset({"head_only"})

    kind: Literal["gpt-run"] = "gpt-run"
    folder: str
    checkpoint: Literal["last", "best"] = "last"
    digest: str
    head_only: bool = False
    """A linear probe: everything but the new head is frozen, whatever the method says."""
