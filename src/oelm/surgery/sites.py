"""The attention sites of a model: which layer, which kind, which two linear layers."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.surgery.architectures import Architecture, Attention, Place, architecture_of
from oelm.surgery.fused import is_plain, split_fused
from oelm.surgery.row_errors import head_width_of, part_of, refuse_misread

# H heads  K head width  D model width


@dataclass(frozen=True, kw_only=True)
class Projector:
    """One linear layer that makes queries or keys; a quantised one has its shape, but no matrix to read or write."""

    name: str
    linear: nn.Linear
    head_width: int

    @property
    def heads(self) -> int:
        """H: for keys of grouped-query attention fewer than for queries."""
        return self.linear.out_features // self.head_width

    @property
    def is_plain(self) -> bool:
        """A matrix of numbers that can be measured and rewritten."""
        return is_plain(self.linear)

    @property
    def w_HKD(self) -> Tensor:  # noqa: N802 (the shape is part of the name)
        """The matrix by heads, a view: head h in rows hK .. hK+K-1."""
        return self.linear.weight.detach().view(self.heads, self.head_width, self.linear.in_features)

    @property
    def tensors(self) -> list[str]:
        """The names of its weight and, if it has one, its bias."""
        return [f"{self.name}.{part}" for part, _ in self.linear.named_parameters()]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One attention. Layers are counted through all stacks: a decoder's follow on its encoder's."""

    kind: Attention
    layer: int
    module: str
    """The name of the attention module."""
    query: Projector
    key: Projector
    divides_logits: bool
    between: str
    """What stands between the projections and their product; empty for nothing."""
    adds_to_logits: bool

    @property
    def sides(self) -> tuple[Projector, Projector]:
        """Query and key."""
        return self.query, self.key


def open_sites(model: PreTrainedModel, kinds: Collection[str] | None = None) -> tuple[Site, ...]:
    """The sites of these kinds (None: of all that the model has), fused weights split. Finding none is an error."""
    row = architecture_of(model)
    wanted = list(row.places) if kinds is None else _parse_kinds(kinds)
    found = [site for kind in wanted if kind in row.places for site in _sites(model, row, kind)]
    missing = set(wanted) - {site.kind for site in found}
    if not found or (kinds is not None and missing):
        has = sorted({kind for kind in row.places if _modules(model, row.places[kind])})
        raise ConfigError(
            f"this {type(model).__name__} has no {' or '.join(sorted(missing))} attention",
            f"choose of: {', '.join(has)}" if has else "give a model with attention layers of the known layout",
        )
    return tuple(sorted(found, key=lambda site: (site.layer, wanted.index(site.kind))))


def _parse_kinds(kinds: Collection[str]) -> list[Attention]:
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(Attention):
        raise ConfigError(
            f"attention={kinds!r} does not name kinds of attention", f"give a list of: {', '.join(Attention)}"
        )
    return [Attention(kind) for kind in kinds]


def layer_of(name: str, offsets: Mapping[str, int]) -> int | None:
    """The layer that a tensor belongs to; None outside of all layers."""
    for stack, offset in offsets.items():
        if match := re.search(rf"(?:^|\.){re.escape(stack)}\.(\d+)\.", name):
            return offset + int(match[1])
    return None


def within_layer(name: str, row: Architecture) -> str | None:
    """The rest of a name after its layer's: `attention.self.query.weight`."""
    for stack in row.stacks:
        if match := re.search(rf"(?:^|\.){re.escape(stack)}\.\d+\.(.+)$", name):
            return match[1]
    return None


def layer_offsets(model: PreTrainedModel, row: Architecture) -> dict[str, int]:
    """Each stack with the number of layers below it."""
    offsets, below = {}, 0
    for stack in row.stacks:
        offsets[stack] = below
        pattern = re.compile(rf"(?:.*\.)?{re.escape(stack)}\.\d+")
        below += sum(pattern.fullmatch(name) is not None for name, _ in model.named_modules())
    return offsets


def _modules(model: PreTrainedModel, place: Place) -> list[str]:
    pattern = re.compile(rf"(?:.*\.)?{re.escape(place.stack)}\.\d+\.{re.escape(place.module)}")
    return [name for name, _ in model.named_modules() if pattern.fullmatch(name)]


def _sites(model: PreTrainedModel, row: Architecture, kind: Attention) -> Iterator[Site]:
    place, offsets = row.places[kind], layer_offsets(model, row)
    for attention in _modules(model, place):
        head_width = head_width_of(model, attention, row)
        for name in place.fused:
            part_of(model, attention, name)
        split_fused(model, attention, place.fused, head_width)
        query = _projector(model, attention, place.query, head_width)
        refuse_misread(model, row, attention, place, query.linear.out_features)
        layer = layer_of(f"{attention}.", offsets)
        assert layer is not None
        yield Site(
            kind=kind,
            layer=layer,
            module=attention,
            query=query,
            key=_projector(model, attention, place.key, head_width),
            divides_logits=row.divides_logits,
            between=row.between,
            adds_to_logits=row.adds_to_logits,
        )


def _projector(model: PreTrainedModel, attention: str, part: str, head_width: int) -> Projector:
    linear, name = part_of(model, attention, part), f"{attention}.{part}"
    if hasattr(linear, "base_layer") or not hasattr(linear, "out_features"):
        raise ConfigError(
            f"{name} is a {type(linear).__name__}, not a linear layer",
            "convert the model before adapters are added: oelm.convert(model), then peft.get_peft_model(model, ...)",
        )
    return Projector(name=name, linear=linear, head_width=head_width)  # type: ignore[arg-type]
