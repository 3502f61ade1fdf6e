"""Our GPT's Query/Key side as two plain matrices per layer.

Frames, tied and rolled keys, low-rank updates, cores and gains are linear in x, so they fold into W_Q and W_K exactly:

    (exp(g_h) S_h^T (W_Q,h + B A) x)^T (W_K,h + B' A') x'

Only the key shift looks at another token, and stays outside.
"""

# H heads  K head width  D model width

from collections.abc import Mapping

import torch
from torch import Tensor

from oelm.config.method import KeySource, Method
from oelm.config.model import GPTConfig
from oelm.method.projections import HeadShape, coordinate_frame, key_heads


def folded_queries_and_keys(
    config: GPTConfig, method: Method, weights: Mapping[str, Tensor], layer: int
) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of one layer with everything in them, each (D, D) in float64. `weights` are our GPT's, by name."""
    shape = HeadShape(config.heads, config.head_width, config.width)
    prefix = f"layers.{layer}.attention."
    own = {name.removeprefix(prefix): w.cpu().double() for name, w in weights.items() if name.startswith(prefix)}
    q_HKD = _stored_or_frame(own, "q.weight", shape)
    if method.key_source is KeySource.OWN:
        k_HKD = _stored_or_frame(own, "k.weight", shape)
    else:
        k_HKD = q_HKD[key_heads(method.key_source, config.heads)]
    if method.extras.rank:
        q_HKD = q_HKD + (own["q_update.up.weight"] @ own["q_update.down.weight"]).view(shape)
        k_HKD = k_HKD + (own["k_update.up.weight"] @ own["k_update.down.weight"]).view(shape)
    if method.extras.core:
        q_HKD = own["core_HKK"].transpose(1, 2) @ q_HKD
    if method.extras.gain:
        q_HKD = q_HKD * own["gain_H"].exp().view(-1, 1, 1)
    return q_HKD.flatten(0, 1), k_HKD.flatten(0, 1)


def _stored_or_frame(own: Mapping[str, Tensor], name: str, shape: HeadShape) -> Tensor:
    return own[name].view(shape) if name in own else coordinate_frame(shape, torch.Generator())
