"""The GPT's weights and matrix products as a table, from its config alone: nothing needs to be built to count.

Counted is what is stored: of a draw that all layers share (`one_draw`), every layer's copy.
A test holds the table against built models, name by name, and against torch's own FLOP counter.
"""

import math
from collections.abc import Iterator
from functools import partial

from oelm.config.method import KeySource, Method, Projection
from oelm.config.methods import METHODS
from oelm.config.model import GPTConfig, Style, query_key_width
from oelm.config.record import FlopCounts, WeightCounts
from oelm.method import cost
from oelm.method.extras import extra_tensors
from oelm.method.freezing import chosen_layers, frozen_names
from oelm.method.weights import HeadShape, Product, Role, Weight


def weight_table(config: GPTConfig, method: Method) -> tuple[Weight, ...]:
    """Every tensor of the model, and the absent ones."""
    width = config.width
    rows = [Weight(name="token_embedding.weight", role=Role.TOKEN_EMBEDDING, count=config.vocabulary * width)]
    if config.style is Style.GPT:
        rows += [Weight(name="position_embedding.weight", role=Role.POSITION_EMBEDDING, count=config.context * width)]
    for layer in range(config.layers):
        rows += _attention_weights(config, method, layer)
        rows += _ffn_weights(config, method, layer)
        rows += _norm(f"layers.{layer}.attention_norm", config, layer)
        rows += _norm(f"layers.{layer}.ffn_norm", config, layer)
    return (*rows, *_norm("final_norm", config, None))


def _attention_weights(config: GPTConfig, method: Method, layer: int) -> Iterator[Weight]:
    square, shape = config.width**2, HeadShape(config.heads, query_key_width(config, method), config.width)
    inner = shape.heads * shape.head_width  # all queries of a token: fewer than the model's width where heads are thin
    weight = partial(_attention_weight, layer)
    shared = method.key_source is not KeySource.OWN
    query_stored = method.query is not Projection.COORDINATE_FRAME
    key_stored = method.key is not Projection.COORDINATE_FRAME and not shared
    query_role = Role.QUERY_KEY if shared and query_stored else Role.QUERY
    for name, role, stored in (("q.weight", query_role, query_stored), ("k.weight", Role.KEY, key_stored)):
        count = config.width * inner if stored else square
        yield weight(name, role, count, stored=stored, cut=square - count)
    yield weight("v.weight", Role.VALUE, square)
    yield weight("o.weight", Role.OUTPUT, square)
    for tensor in extra_tensors(method.extras, shape):
        yield weight(tensor.name, tensor.role, math.prod(tensor.size))


def _attention_weight(layer: int, name: str, role: Role, count: int, *, stored: bool = True, cut: int = 0) -> Weight:
    return Weight(name=f"layers.{layer}.attention.{name}", role=role, count=count, layer=layer, stored=stored, cut=cut)


def _ffn_weights(config: GPTConfig, method: Method, layer: int) -> Iterator[Weight]:
    units, plan = config.ffn_width, method.plan
    covered = plan is not None and layer in chosen_layers(plan.layers, config.layers)
    in_share = round(plan.ffn_share * units) if plan is not None and covered else 0
    parts = (
        [("ffn", units, True)]
        if in_share in (0, units)
        else [("ffn", units - in_share, False), ("ffn_share", in_share, True)]
    )
    for module, count, is_share in parts:
        biases = {"up.bias": count, **({"down.bias": config.width} if module == "ffn" else {})}
        matrices = ("up", "down") if config.style is Style.GPT else ("gate", "up", "down")
        sizes = {f"{matrix}.weight": count * config.width for matrix in matrices}
        sizes |= biases if config.style is Style.GPT else {}
        for name, size in sizes.items():
            yield Weight(
                name=f"layers.{layer}.{module}.{name}",
                role=Role.FFN,
                count=size,
                layer=layer,
                in_ffn_share=is_share and in_share > 0,
            )


def _norm(name: str, config: GPTConfig, layer: int | None) -> Iterator[Weight]:
    for part in ("weight", "bias") if config.style is Style.GPT else ("weight",):
        yield Weight(name=f"{name}.{part}", role=Role.NORM, count=config.width, layer=layer)


_BLOCK_MATRICES = frozenset({Role.QUERY, Role.KEY, Role.QUERY_KEY, Role.VALUE, Role.OUTPUT, Role.FFN})
_MATRICES = _BLOCK_MATRICES | {Role.LOW_RANK, Role.CORE}


def products(config: GPTConfig, method: Method) -> tuple[Product, ...]:
    """Every matrix product of one forward pass, per token, averaged over the positions of a full context."""
    rows = [
        # A token multiplies each entry of a weight matrix once; the core acts on each head's own K coordinates.
        Product(role=weight.role, macs=weight.count, weight=weight.name)
        for weight in weight_table(config, method)
        if weight.stored and weight.role in _MATRICES and not weight.name.endswith("bias")
    ]
    head = Product(role=Role.TOKEN_EMBEDDING, macs=config.vocabulary * config.width, weight="token_embedding.weight")
    if method.blind:  # a running sum takes no products
        return (*rows, head)
    # Position t scores and mixes t+1 keys: (T+1)/2 on average, once for q.k and once for the values.
    inner = config.heads * query_key_width(config, method)
    pairs = Product(role=None, macs=(config.context + 1) * (inner + config.width) / 2, weight=None)
    return (*rows, *[pairs] * config.layers, head)


def count_weights(config: GPTConfig, method: Method, total_steps: int) -> WeightCounts:
    """Weights by kind and role."""
    return cost.weight_counts(method.plan, weight_table(config, method), total_steps)


def trained_query_key_share(config: GPTConfig, method: Method, total_steps: int) -> float:
    """Weights on the Q/K side (matrices and extras) that some step trains, relative to the baseline's 2 L D^2."""
    share = count_weights(config, method, total_steps).trained_query_key_share
    assert share is not None, "counted now, so nothing is unknown"
    return share


def frozen_ratio(config: GPTConfig, method: Method, total_steps: int) -> float:
    """The share of the block matrices (4 D^2 + 2 or 3 D F per layer, absent ones included) frozen at the first step."""
    table = weight_table(config, method)
    matrices = [row for row in table if row.role in _BLOCK_MATRICES and not row.name.endswith("bias")]
    frozen = frozen_names(method.plan, table, 0, total_steps)
    return sum(row.count for row in matrices if row.name in frozen) / sum(row.count + row.cut for row in matrices)


def count_flops(config: GPTConfig, method: Method, *, total_steps: int, tokens: int) -> FlopCounts:
    """FLOPs of a run, beside the plain baseline of this size."""
    return cost.flop_counts(
        products(config, method),
        products(config, METHODS["baseline"]),
        method.plan,
        weight_table(config, method),
        total_steps=total_steps,
        tokens=tokens,
    )
