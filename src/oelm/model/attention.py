"""Causal self-attention whose Query/Key side is what the method says.

    q_h = W_Q,h x     k_h = W_K,h x     s(t, u) = exp(g_h) q_h(t)^T S_h k_h(u) / sqrt(K),  u <= t

W_Q and W_K may be trained, frozen, one and the same, or absent: a coordinate frame is a slice of x. The extras are
the key shift k_t <- (1-m_h) k_t + m_h k_{t-1}, the gain g_h, the core S_h and low-rank updates of W_Q and W_K.
Order: projection, shift, logits.
"""

# B batch  T query time  S key time  D model width  H heads  K head width

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.config.method import KeySource, Method, Projection
from oelm.config.model import GPTConfig
from oelm.method.projections import HeadShape, coordinate_frame, key_heads
from oelm.model.causal import causal_attention
from oelm.model.projecting import mix_with_previous, project


class LayerCache:
    """What one layer remembers during generation: keys as attention reads them, values, and the last key unshifted.

    The room for a whole context is made once; a token is written into it, and nothing is copied.
    """

    def __init__(self, batch: int, context: int, shape: HeadShape, like: Tensor) -> None:
        self.length = 0
        self.last_key_B1D: Tensor | None = None
        self._k_BHCK = like.new_empty(batch, shape.heads, context, shape.head_width)
        self._v_BHCK = torch.empty_like(self._k_BHCK)

    def append(self, k_BHTK: Tensor, v_BHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Remember T more tokens; returns all keys and values so far."""
        end = self.length + k_BHTK.shape[2]
        self._k_BHCK[:, :, self.length : end] = k_BHTK
        self._v_BHCK[:, :, self.length : end] = v_BHTK
        self.length = end
        return self._k_BHCK[:, :, :end], self._v_BHCK[:, :, :end]


class LowRank(nn.Module):
    """x -> B A x: a trained update of a projection, zero at init because B is."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def add_to(self, projected_BTD: Tensor, down_BTR: Tensor) -> Tensor:
        """The projection plus B (A x), of which A x is given."""
        sum_ND = torch.addmm(projected_BTD.flatten(0, 1), down_BTR.flatten(0, 1), self.up.weight.T)
        return sum_ND.view_as(projected_BTD)


class Attention(nn.Module):
    """Multi-head attention without biases; `q` and `k` are None where the method stores no matrix."""

    def __init__(self, config: GPTConfig, method: Method) -> None:
        super().__init__()
        width, heads, extras = config.width, config.heads, method.extras
        self.shape = HeadShape(heads, config.head_width, width)
        self.dropout = config.dropout
        self.q = _matrix(method.query, width)
        self.k = _matrix(method.key, width) if method.key_source is KeySource.OWN else None
        # For a tied or rolled key: which head's query each key head takes.
        self.key_heads = None if method.key_source is KeySource.OWN else key_heads(method.key_source, heads)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.q_update = LowRank(width, extras.rank) if extras.rank else None
        self.k_update = LowRank(width, extras.rank) if extras.rank else None
        self.shift_H = nn.Parameter(torch.empty(heads)) if extras.shift else None
        self.gain_H = nn.Parameter(torch.empty(heads)) if extras.gain else None
        self.core_HKK = nn.Parameter(torch.empty(heads, config.head_width, config.head_width)) if extras.core else None

    def forward(self, x_BTD: Tensor, cache: LayerCache | None = None) -> Tensor:
        """Attend from each token to itself and those before it; `cache` holds the tokens before x, and then x too."""
        q_BTD, k_BTD, v_BTD = self.queries_keys_values(x_BTD)
        q_BHTK = self.split_heads(q_BTD) if self.core_HKK is None else self.through_core(q_BTD, self.core_HKK)
        k_BHSK, v_BHSK = self.split_heads(self.scaled_keys(k_BTD, cache)), self.split_heads(v_BTD)
        if cache is None:
            y_BHTK = causal_attention(q_BHTK, k_BHSK, v_BHSK, self.dropout if self.training else 0.0)
        else:
            cache.last_key_B1D = k_BTD[:, -1:]
            k_BHSK, v_BHSK = cache.append(k_BHSK, v_BHSK)
            mask_TS = _causal_mask(x_BTD.shape[1], cache.length, x_BTD.device)
            y_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask_TS)
        y_BTD: Tensor = self.o(y_BHTK.transpose(1, 2).flatten(2))
        return y_BTD

    def queries_keys_values(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All that is projected, in one matmul. A frame takes no part in it: it is x itself, head by head."""
        matrices = {"q": self.q, "k": self.k, "v": self.v}
        if self.q_update is not None and self.k_update is not None:
            matrices |= {"q_down": self.q_update.down, "k_down": self.k_update.down}
        weights = {name: matrix.weight for name, matrix in matrices.items() if matrix is not None}
        projected = dict(zip(weights, project(x_BTD, *weights.values()), strict=True))
        q_BTD = projected.get("q", x_BTD)
        k_BTD = projected.get("k", x_BTD) if self.key_heads is None else self.shared_keys(q_BTD, self.key_heads)
        if self.q_update is not None and self.k_update is not None:
            q_BTD = self.q_update.add_to(q_BTD, projected["q_down"])
            k_BTD = self.k_update.add_to(k_BTD, projected["k_down"])
        return q_BTD, k_BTD, projected["v"]

    def shared_keys(self, q_BTD: Tensor, heads: list[int]) -> Tensor:
        """The queries, for tied keys; for rolled ones, the query of another head in every second head."""
        if heads == list(range(self.shape.heads)):
            return q_BTD
        return self.split_heads(q_BTD)[:, heads].transpose(1, 2).flatten(2)

    def scaled_keys(self, k_BTD: Tensor, cache: LayerCache | None) -> Tensor:
        """Keys with shift and gain: k_t <- exp(g_h) ((1-m_h) k_t + m_h k_{t-1}), two numbers per head in one pass.

        Across document boundaries keys are shifted as attention itself looks: unmasked.
        """
        if self.shift_H is None and self.gain_H is None:
            return k_BTD
        gain_H = torch.ones(self.shape.heads, device=k_BTD.device) if self.gain_H is None else self.gain_H.exp()
        m_H = torch.zeros_like(gain_H) if self.shift_H is None else self.shift_H.sigmoid()
        last_B1D = cache.last_key_B1D if cache is not None else None
        return mix_with_previous(k_BTD, gain_H * (1 - m_H), gain_H * m_H, last_B1D)

    def through_core(self, q_BTD: Tensor, core_HKK: Tensor) -> Tensor:
        """q_h S_h for all heads as one batched matmul, (B, T, D) -> (B, H, T, K)."""
        batch, time, _ = q_BTD.shape
        q_HNK = q_BTD.view(batch * time, self.shape.heads, self.shape.head_width).transpose(0, 1)
        return torch.bmm(q_HNK, core_HKK).view(self.shape.heads, batch, time, self.shape.head_width).transpose(0, 1)

    def split_heads(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, H, T, K): head h takes coordinates hK .. hK+K-1."""
        batch, time, _ = x_BTD.shape
        return x_BTD.view(batch, time, self.shape.heads, self.shape.head_width).transpose(1, 2)

    def projections(self) -> tuple[Tensor, Tensor]:
        """The matrices (H, K, D) that q and k are really computed with, updates left out."""
        frame_HKD = coordinate_frame(self.shape, torch.Generator())
        q_HKD = frame_HKD if self.q is None else self.q.weight.detach().cpu().view(self.shape)
        if self.key_heads is not None:
            return q_HKD, q_HKD[self.key_heads]
        return q_HKD, frame_HKD if self.k is None else self.k.weight.detach().cpu().view(self.shape)


def _matrix(projection: Projection, width: int) -> nn.Linear | None:
    return None if projection is Projection.COORDINATE_FRAME else nn.Linear(width, width, bias=False)


def _causal_mask(queries: int, keys: int, device: torch.device) -> Tensor | None:
    """The last `queries` of `keys` positions look back: True where attention is allowed; one alone may look at all."""
    if queries == 1:
        return None
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
