"""A row of architectures that does not fit its model: said in its own terms, before anything is frozen."""

import re

from torch import nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.surgery.architectures import Architecture, Place


def part_of(model: PreTrainedModel, attention: str, name: str) -> nn.Module:
    """The module that a row names inside an attention."""
    inside: dict[str, nn.Module] = dict(model.get_submodule(attention).named_modules())
    if name not in inside:
        raise ConfigError(
            f"{attention} has no module {name!r}, which the architecture's row names",
            f"correct the row; there are: {', '.join(filter(None, inside))}",
        )
    return inside[name]


def head_width_of(model: PreTrainedModel, attention: str, row: Architecture) -> int:
    """K, from the attribute that a row names."""
    module = model.get_submodule(attention)
    if not isinstance(getattr(module, row.head_width, None), int):
        numbers = ", ".join(f"{name}={value}" for name, value in vars(module).items() if type(value) is int)
        raise ConfigError(
            f"{attention} has no number {row.head_width!r}, where the architecture's row looks for a head's width",
            f"correct head_width; there are: {numbers or 'none'}",
        )
    return int(getattr(module, row.head_width))


def refuse_misread(model: PreTrainedModel, row: Architecture, attention: str, place: Place, query_rows: int) -> None:
    """Refuse fused weights that are not laid out as the row says: parts cut in other places would freeze V with Q.

    Queries have as many rows as attention puts out, which is what its output layer reads.
    """
    if place.query == place.key:
        raise ConfigError(
            f"{attention}: query and key are both {place.query!r}",
            "name its parts with fused={...}, see docs/architectures.md",
        )
    layer = model.get_submodule(attention.removesuffix(f".{place.module}"))
    outputs = [module for name, module in layer.named_modules() if re.fullmatch(row.output, name)]
    read = [getattr(module, "in_features", getattr(module, "nx", None)) for module in outputs]
    if place.fused and read and query_rows not in read:
        raise ConfigError(
            f"{attention}.{place.query} would have {query_rows} rows, and attention puts out {read}",
            "correct the row's fused layout (per_head, key_heads), see docs/architectures.md",
        )
