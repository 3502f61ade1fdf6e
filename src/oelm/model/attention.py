"""Causal self-attention whose Query/Key side is what the method says.

    q_h = W_Q,h x     k_h = W_K,h x     s(t, u) = exp(g_h) q_h(t)^T S_h k_h(u) / sqrt(K),  u <= t

W_Q and W_K may be trained, frozen, one and the same, or absent: a coordinate frame is a slice of x. The extras are
the key shift k_t <- (1-m_h) k_t + m_h k_{t-1}, the gain g_h, the core S_h and low-rank updates of W_Q and W_K.
Order: projection, shift, logits.
"""

# B batch  T query time  S key time  D model width  H heads  K head width

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.config.method import KeySource, Method, Projection
from oelm.config.model import GPTConfig
from oelm.method.projections import HeadShape, coordinate_frame, key_heads


@dataclass
class LayerCache:
    """What one layer remembers during generation: shifted keys, values, and the last key before its shift."""

    k_BHSK: Tensor
    v_BHSK: Tensor
    last_key_BH1K: Tensor


class LowRank(nn.Module):
    """x -> B A x: a trained update of a projection, zero at init because B is."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The update to add to the projection of x."""
        return self.up(self.down(x_BTD))  # type: ignore[no-any-return]


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

    def forward(self, x_BTD: Tensor, cache: LayerCache | None = None) -> tuple[Tensor, LayerCache]:
        """Attend from each token to itself and those before it; `cache` holds the tokens before x."""
        q_BHTK, k_BHTK = self.queries_and_keys(x_BTD)
        v_BHTK = self.split_heads(self.v(x_BTD))
        last_key_BH1K = k_BHTK[:, :, -1:]
        if self.shift_H is not None:
            k_BHTK = shift_keys(k_BHTK, self.shift_H.sigmoid(), cache.last_key_BH1K if cache else None)
        if self.core_HKK is not None:
            q_BHTK = q_BHTK @ self.core_HKK.to(q_BHTK.dtype)
        if self.gain_H is not None:
            q_BHTK = q_BHTK * self.gain_H.exp().to(q_BHTK.dtype).view(-1, 1, 1)
        k_BHSK = torch.cat([cache.k_BHSK, k_BHTK], dim=2) if cache else k_BHTK
        v_BHSK = torch.cat([cache.v_BHSK, v_BHTK], dim=2) if cache else v_BHTK
        y_BHTK = F.scaled_dot_product_attention(
            q_BHTK,
            k_BHSK,
            v_BHSK,
            attn_mask=_causal_mask(q_BHTK.shape[2], k_BHSK.shape[2], x_BTD.device) if cache else None,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=cache is None,
        )
        y_BTD = y_BHTK.transpose(1, 2).flatten(2)
        return self.o(y_BTD), LayerCache(k_BHSK, v_BHSK, last_key_BH1K)

    def queries_and_keys(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Project x. A frame costs no matmul, and with a tied or rolled key one matmul serves both."""
        q_BHTK = self.split_heads(x_BTD if self.q is None else self.q(x_BTD))
        if self.key_heads is None:
            k_BHTK = self.split_heads(x_BTD if self.k is None else self.k(x_BTD))
        elif self.key_heads == list(range(self.shape.heads)):
            k_BHTK = q_BHTK
        else:
            k_BHTK = q_BHTK[:, self.key_heads]
        if self.q_update is not None and self.k_update is not None:
            q_BHTK = q_BHTK + self.split_heads(self.q_update(x_BTD))
            k_BHTK = k_BHTK + self.split_heads(self.k_update(x_BTD))
        return q_BHTK, k_BHTK

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


def shift_keys(k_BHTK: Tensor, m_H: Tensor, before_BH1K: Tensor | None = None) -> Tensor:
    """k_t <- (1-m_h) k_t + m_h k_{t-1}; `before` is the key before the first one, which is its own predecessor if None.

    Across document boundaries keys are shifted as attention itself looks: unmasked.
    """
    first_BH1K = k_BHTK[:, :, :1] if before_BH1K is None else before_BH1K
    previous_BHTK = torch.cat([first_BH1K, k_BHTK[:, :, :-1]], dim=2)
    return torch.lerp(k_BHTK, previous_BHTK, m_H.to(k_BHTK.dtype).view(-1, 1, 1).expand_as(k_BHTK))


def _matrix(projection: Projection, width: int) -> nn.Linear | None:
    return None if projection is Projection.COORDINATE_FRAME else nn.Linear(width, width, bias=False)


def _causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """The last `queries` of `keys` positions look back: True where attention is allowed."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
