"""The extras inside attention, one row each: its tensors, where they start, how it enters, what an export does with it.

    q_h = (W_Q,h + B A) x + b_q,   k_h = (W_K,h + B' A') x + b_k       low rank, bias
    k_t <- (1-m_h) k_t + m_h k_{t-1},   m_h = sigmoid(shift_h)         key shift
    q_h <- q_h / rms(q_h),   k_h <- k_h / rms(k_h)                     norm
    q_h <- exp(g_h) q_h,   q_h <- S_h^T q_h                            gain, core

They enter in this order, before rotary positions. `surgery/equipped.py` runs these rows in other people's models;
`model/attention.py` computes the same in fewer passes, and a test holds it to them. Which of them a fair control has
too stands in `config/methods.py`, which loads no torch.
"""

# B batch  T time  D model width  H heads  K head width of Q and K  E = H K  R rank

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from oelm.config.method import Extras
from oelm.method.weights import HeadShape, Role

if TYPE_CHECKING:  # torch is loaded where something is computed: a plan only counts
    from torch import Generator, Tensor

NORM_EPSILON = 1e-6
"""Added to the mean square under the root of the norm."""

Side = Literal["q", "k"]
SIDES: tuple[Side, Side] = ("q", "k")
Size = tuple[int, ...]
Own = Mapping[str, "Tensor"]
"""Attention's own tensors by name."""


@dataclass(frozen=True)
class ExtraTensor:
    """A trained tensor, by its name within attention, of queries or of keys; `start` makes its values at init."""

    name: str
    side: Side
    role: Role
    size: Size
    start: "Callable[[Size, Generator], Tensor]"


class Exported(StrEnum):
    """What becomes of an extra in an exported model."""

    FOLDED = "folded"
    """It is linear in x: part of W_Q, W_K and their biases."""
    RUN = "run"
    """The exported model has it too: `exports/shifted.py`."""
    REFUSED = "refused"
    """No model that we export to can run it."""


@dataclass(frozen=True, kw_only=True)
class Extra:
    """The row of one field of `Extras`."""

    what: str
    """Its name in messages."""
    tensors: Callable[[Extras, HeadShape], Iterable[ExtraTensor]]
    enter: "Callable[[Side, Tensor, Tensor, Own], Tensor]"
    """Queries or keys y (B, T, H, K) of the input x (B, T, D) after it."""
    exported: Exported


def rows_of(extras: Extras) -> tuple[Extra, ...]:
    """The rows of the extras that are on, in the order in which they enter."""
    return tuple(row for name, row in EXTRAS.items() if name in extras.changed)


def extra_tensors(extras: Extras, shape: HeadShape) -> tuple[ExtraTensor, ...]:
    """All tensors that these extras add to an attention whose Q and K have this shape."""
    return tuple(tensor for row in rows_of(extras) for tensor in row.tensors(extras, shape))


def _low_rank_tensors(extras: Extras, shape: HeadShape) -> Iterator[ExtraTensor]:
    """A has unit rows in expectation and B is zero: so is the update at init."""
    rank, inner = extras.rank, shape.heads * shape.head_width
    for side in SIDES:
        yield ExtraTensor(f"{side}_update.down.weight", side, Role.LOW_RANK, (rank, shape.model_width), _unit_rows)
        yield ExtraTensor(f"{side}_update.up.weight", side, Role.LOW_RANK, (inner, rank), _zeros)


def _add_low_rank(side: Side, y_BTHK: "Tensor", x_BTD: "Tensor", own: Own) -> "Tensor":
    down_RD, up_ER = own[f"{side}_update.down.weight"], own[f"{side}_update.up.weight"]
    return y_BTHK + (x_BTD @ down_RD.T @ up_ER.T).view_as(y_BTHK)


def _bias_tensors(_: Extras, shape: HeadShape) -> Iterator[ExtraTensor]:
    for side in SIDES:
        yield ExtraTensor(f"{side}_bias_E", side, Role.BIAS, (shape.heads * shape.head_width,), _zeros)


def _add_bias(side: Side, y_BTHK: "Tensor", _x_BTD: "Tensor", own: Own) -> "Tensor":
    return y_BTHK + own[f"{side}_bias_E"].view(y_BTHK.shape[2:])


def _shift_tensors(_: Extras, shape: HeadShape) -> Iterator[ExtraTensor]:
    yield ExtraTensor("shift_H", "k", Role.SHIFT, (shape.heads,), _spread)


def _shift_keys(side: Side, y_BTHK: "Tensor", _x_BTD: "Tensor", own: Own) -> "Tensor":
    """The first key is its own predecessor."""
    if side == "q":
        return y_BTHK
    import torch

    m_H1 = own["shift_H"].sigmoid()[:, None]
    return (1 - m_H1) * y_BTHK + m_H1 * torch.cat([y_BTHK[:, :1], y_BTHK[:, :-1]], dim=1)


def _no_tensors(_extras: Extras, _shape: HeadShape) -> tuple[ExtraTensor, ...]:
    return ()


def _norm(_side: Side, y_BTHK: "Tensor", _x_BTD: "Tensor", _own: Own) -> "Tensor":
    from torch.nn.functional import rms_norm

    return rms_norm(y_BTHK, y_BTHK.shape[-1:], eps=NORM_EPSILON)


def _gain_tensors(extras: Extras, shape: HeadShape) -> Iterator[ExtraTensor]:
    log_start = math.log(extras.gain_start)
    yield ExtraTensor("gain_H", "q", Role.GAIN, (shape.heads,), lambda size, _: _zeros(size, _).double() + log_start)


def _scale_queries(side: Side, y_BTHK: "Tensor", _x_BTD: "Tensor", own: Own) -> "Tensor":
    return y_BTHK * own["gain_H"].exp()[:, None] if side == "q" else y_BTHK


def _core_tensors(_: Extras, shape: HeadShape) -> Iterator[ExtraTensor]:
    yield ExtraTensor("core_HKK", "q", Role.CORE, (shape.heads, shape.head_width, shape.head_width), _identity)


def _through_core(side: Side, y_BTHK: "Tensor", _x_BTD: "Tensor", own: Own) -> "Tensor":
    return (y_BTHK[..., None, :] @ own["core_HKK"])[..., 0, :] if side == "q" else y_BTHK


def _zeros(size: Size, _: "Generator") -> "Tensor":
    import torch

    return torch.zeros(size)


def _unit_rows(size: Size, generator: "Generator") -> "Tensor":
    import torch

    return torch.randn(size, dtype=torch.float64, generator=generator) * (1 / math.sqrt(size[-1]))


def _spread(size: Size, _: "Generator") -> "Tensor":
    """Heads start between "mostly this key" (m = 0.12) and "mostly the one before" (m = 0.88)."""
    import torch

    return torch.linspace(-2.0, 2.0, size[0], dtype=torch.float64)


def _identity(size: Size, _: "Generator") -> "Tensor":
    import torch

    return torch.eye(size[-1]).expand(size)


_FOLDED = Exported.FOLDED
EXTRAS: Mapping[str, Extra] = {
    "rank": Extra(what="low-rank update", tensors=_low_rank_tensors, enter=_add_low_rank, exported=_FOLDED),
    "bias": Extra(what="Q/K bias of its own", tensors=_bias_tensors, enter=_add_bias, exported=_FOLDED),
    "shift": Extra(what="key shift", tensors=_shift_tensors, enter=_shift_keys, exported=Exported.RUN),
    "norm": Extra(what="norm of queries and keys", tensors=_no_tensors, enter=_norm, exported=Exported.REFUSED),
    "gain": Extra(what="logit gain", tensors=_gain_tensors, enter=_scale_queries, exported=_FOLDED),
    "core": Extra(what="core", tensors=_core_tensors, enter=_through_core, exported=_FOLDED),
}
"""By the field of `Extras`, in the order in which they enter."""

OF_TRAINING = frozenset({"gain_start", "layer_lr", "query_key_lr"})
"""The fields without a row: how a model starts and learns. A trained one has nothing of them left."""

CHANGES_THE_START = frozenset({"shift", "norm", "gain_start"})
"""The fields with which a model starts as another function; all other extras start as nothing."""
