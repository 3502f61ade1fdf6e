"""The table of a model's weights: name, role and layer of every tensor, also of those that a method leaves out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class HeadShape(NamedTuple):
    """The shape of a projection: W (H, K, D)."""

    heads: int
    head_width: int
    model_width: int


class Role(StrEnum):
    """What a weight does."""

    TOKEN_EMBEDDING = "token embedding"
    POSITION_EMBEDDING = "position embedding"
    QUERY = "query"
    KEY = "key"
    QUERY_KEY = "query and key"
    """One matrix that serves both."""
    VALUE = "value"
    OUTPUT = "attention output"
    FFN = "feed-forward"
    NORM = "norm"
    SHIFT = "key shift"
    GAIN = "logit gain"
    CORE = "core"
    LOW_RANK = "low-rank update"
    BIAS = "query and key bias"
    """Those that train beside frozen matrices; a Hugging Face model's others belong to their matrix."""
    OTHER = "other"
    """Whatever else a model has: poolers, heads, attention that was not chosen."""


QUERY_KEY_SIDE = frozenset(
    {Role.QUERY, Role.KEY, Role.QUERY_KEY, Role.SHIFT, Role.GAIN, Role.CORE, Role.LOW_RANK, Role.BIAS}
)
"""All that makes attention's logits."""


@dataclass(frozen=True, kw_only=True)
class Weight:
    """One tensor of the model, or one that the baseline has and this method does not (`stored=False`)."""

    name: str
    role: Role
    count: int
    layer: int | None = None
    stored: bool = True
    cut: int = 0
    """How many weights the baseline's tensor of this name has more: absent ones, where Q and K are thin."""
    fixed: bool = False
    """Frozen from the first step to the last by what the arm is, whatever a freezing plan says."""
    in_ffn_share: bool = False
    """Belongs to the hidden units that the freezing plan's `ffn_share` covers."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """One matrix multiplication per token: multiply-adds, and the weight it uses (None: activations only)."""

    role: Role | None
    macs: float
    weight: str | None


def layer_count(table: tuple[Weight, ...]) -> int:
    """The number of layers that the table spans."""
    return 1 + max((weight.layer for weight in table if weight.layer is not None), default=-1)
