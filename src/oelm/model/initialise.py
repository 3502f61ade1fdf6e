"""One init pass over a built model, every tensor from its own named stream.

All arms with one seed therefore share every weight that the method does not touch, bit for bit: paired comparison
for free. (An init inside the constructors would be overwritten or reshuffled by the next one.)
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from oelm.base.runtime import generator_for
from oelm.config.method import Method
from oelm.config.record import LayerGeometry
from oelm.method import geometry
from oelm.method.extras import extra_tensors
from oelm.method.projections import PROJECTIONS, gain
from oelm.model.attention import Attention
from oelm.model.blind import BlindAttention
from oelm.model.feed_forward import FeedForward, SwiGLU
from oelm.model.gpt import GPT, Block

STD = 0.02


def initialise(model: GPT, seed: int) -> None:
    """Draw all weights: in float64, then cast once to the model's dtype."""
    residual_std = STD / math.sqrt(2 * model.config.layers)  # as GPT-2: the residual sum keeps its size with depth
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Embedding):
                module.weight.copy_(_normal(module.weight, STD, seed, f"{name}.weight"))
            elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()  # weight 1, bias 0
            elif isinstance(module, Attention | BlindAttention):
                _initialise_values(module, residual_std, seed, name)
                if isinstance(module, Attention):
                    _initialise_queries_and_keys(module, model.method, seed, name)
            elif isinstance(module, Block):
                _initialise_ffn(module, residual_std, seed, name)


def _normal(like: Tensor, std: float, seed: int, name: str) -> Tensor:
    return torch.randn(like.shape, dtype=torch.float64, generator=generator_for(seed, "init", name)) * std


def _initialise_values(attention: Attention | BlindAttention, residual_std: float, seed: int, name: str) -> None:
    attention.v.weight.copy_(_normal(attention.v.weight, STD, seed, f"{name}.v.weight"))
    attention.o.weight.copy_(_normal(attention.o.weight, residual_std, seed, f"{name}.o.weight"))


def _initialise_queries_and_keys(attention: Attention, method: Method, seed: int, name: str) -> None:
    stream = "layers.0.attention" if method.one_draw else name
    for side, matrix, projection in (("q", attention.q, method.query), ("k", attention.k, method.key)):
        if matrix is not None:
            unit_HKD = PROJECTIONS[projection](attention.shape, generator_for(seed, "init", f"{stream}.{side}.weight"))
            length = gain(projection, method.scale, attention.shape.model_width)
            matrix.weight.copy_(length * unit_HKD.flatten(0, 1))
    for tensor in extra_tensors(method.extras, attention.shape):
        generator = generator_for(seed, "init", f"{name}.{tensor.name}")
        attention.get_parameter(tensor.name).copy_(tensor.start(tensor.size, generator))


def _initialise_ffn(block: Block, residual_std: float, seed: int, name: str) -> None:
    """Draw the FFN whole, whatever the split, so that all arms start from the same hidden units."""
    share = block.ffn_share.up.out_features if block.ffn_share is not None else 0
    units, width = block.ffn.up.out_features + share, block.ffn.up.in_features
    reading = ("gate.weight", "up.weight") if isinstance(block.ffn, SwiGLU) else ("up.weight",)
    rows = {each: _normal(torch.empty(units, width), STD, seed, f"{name}.ffn.{each}") for each in reading}
    down = _normal(torch.empty(width, units), residual_std, seed, f"{name}.ffn.down.weight")
    for part, chosen in _parts(block, share):
        for each, drawn in rows.items():
            part.get_parameter(each).copy_(drawn[chosen])
        part.down.weight.copy_(down[:, chosen])
        for each, parameter in part.named_parameters():
            if each.endswith("bias"):
                parameter.zero_()


def _parts(block: Block, share: int) -> Iterator[tuple[FeedForward | SwiGLU, slice]]:
    yield block.ffn, slice(share, None)
    if block.ffn_share is not None:
        yield block.ffn_share, slice(share)


def measure_geometry(model: GPT) -> tuple[LayerGeometry, ...]:
    """Gram errors, cross-head overlap, row norm and logit scale of each layer as it stands; nothing of blind ones."""
    rows = []
    for layer, block in enumerate(model.blocks):
        if isinstance(block.attention, BlindAttention):
            continue
        q_HKD, k_HKD = block.attention.projections()
        rows.append(
            LayerGeometry(
                layer=layer,
                query_gram_error=geometry.gram_error(q_HKD),
                key_gram_error=geometry.gram_error(k_HKD),
                cross_head_overlap=geometry.cross_head_overlap(q_HKD),
                row_norm=geometry.row_norm(q_HKD),
                logit_std=geometry.logit_std(q_HKD, k_HKD),
            )
        )
    return tuple(rows)
