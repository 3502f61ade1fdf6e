"""Our GPT's Query/Key side as two plain matrices per layer.

Frames, tied and rolled keys, low-rank updates, biases, cores and gains are linear in x, so they fold into W_Q, W_K and
their biases exactly:

    (exp(g_h) S_h^T ((W_Q,h + B A) x + b_q))^T ((W_K,h + B' A') x' + b_k)

Thin heads become as wide as V's by rows of zeros, and their queries longer by sqrt(V/K) because logits are divided by
sqrt(V) then. Blind attention becomes W_Q = W_K = 0. Rotary positions come after all that, and stay; so does the key
shift, which looks at another token. A norm is not linear, and is refused.
"""

# H heads  K head width of Q and K  V of values  D model width  E = D + 1

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.config.method import Extras, KeySource, Method
from oelm.config.model import GPTConfig, Style, query_key_width
from oelm.method.extras import Exported, Side, rows_of
from oelm.method.projections import frame_matrix, key_heads
from oelm.method.weights import HeadShape


def refuse_unfoldable(config: GPTConfig, method: Method) -> None:
    """Refuse what is not linear in x, and thin heads whose pairs do not turn at speeds that V's width has too."""
    for row in rows_of(method.extras):
        if row.exported is Exported.REFUSED:
            raise ConfigError(
                f"{method.name} has a {row.what}, and neither GPT-2's attention nor Llama's has a place for one",
                "use it in oelm's own GPT, or train a method without it to export",
            )
    if config.style is Style.LLAMA and not method.blind and config.head_width % query_key_width(config, method):
        raise ConfigError(
            f"{method.name}: Llama's heads have one width, {config.head_width}, and rotary positions of heads of width "
            f"{method.thin} are among its own only if the one divides the other",
            f"use it in oelm's own GPT, or train a +thin that divides {config.head_width} to export",
        )


def folded_queries_and_keys(
    config: GPTConfig, method: Method, weights: Mapping[str, Tensor], layer: int
) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of one layer with everything in them and their biases as a last column, each (D, D+1) in float64.

    `weights` are our GPT's, by name.
    """
    if method.blind:
        return (torch.zeros(config.width, config.width + 1, dtype=torch.float64),) * 2
    prefix = f"layers.{layer}.attention."
    own = {name.removeprefix(prefix): w.cpu().double() for name, w in weights.items() if name.startswith(prefix)}
    shape = HeadShape(config.heads, query_key_width(config, method), config.width)
    frame_HKD = frame_matrix(shape, strided=method.strided and layer % 2 == 1)
    q_HKD = own["q.weight"].view(shape) if "q.weight" in own else frame_HKD
    if method.key_source is KeySource.OWN:
        k_HKD = own["k.weight"].view(shape) if "k.weight" in own else frame_HKD
    else:
        k_HKD = q_HKD[key_heads(method.key_source, config.heads)]
    q_HKE, k_HKE = _folded("q", q_HKD, method.extras, own), _folded("k", k_HKD, method.extras, own)
    q_HKE = q_HKE * math.sqrt(config.head_width / shape.head_width)
    return _as_wide_as_values(q_HKE, config).flatten(0, 1), _as_wide_as_values(k_HKE, config).flatten(0, 1)


def _as_wide_as_values(w_HKE: Tensor, config: GPTConfig) -> Tensor:
    """Thin heads with rows of zeros: (H, V, E).

    Rotary positions turn row i of a half at theta^(-2i/K), and of V rows that is the speed of row iV/K of the half.
    """
    heads, head_width, columns = w_HKE.shape
    if config.style is Style.GPT:
        return F.pad(w_HKE, (0, 0, 0, config.head_width - head_width))
    between = config.head_width // head_width - 1
    rows = w_HKE.view(heads, head_width, 1, columns)
    return F.pad(rows, (0, 0, 0, between)).flatten(1, 2)


def _folded(side: Side, w_HKD: Tensor, extras: Extras, own: Mapping[str, Tensor]) -> Tensor:
    """W with the extras in it, and the bias as a last column: what an affine map makes of unit vectors and of zero."""
    x_1ED = torch.eye(w_HKD.shape[2] + 1, w_HKD.shape[2], dtype=torch.float64)[None]
    y_1EHK = torch.einsum("bed,hkd->behk", x_1ED, w_HKD)
    for row in rows_of(extras):
        if row.exported is Exported.FOLDED:
            y_1EHK = row.enter(side, y_1EHK, x_1ED, own)
    w_HKE = y_1EHK[0].permute(1, 2, 0)
    return torch.cat([w_HKE[..., :-1] - w_HKE[..., -1:], w_HKE[..., -1:]], dim=2)
