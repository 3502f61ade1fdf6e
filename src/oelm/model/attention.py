"""Causal self-attention whose Query/Key side is what the method says.

    q_h = W_Q,h x     k_h = W_K,h x     s(t, u) = exp(g_h) q_h(t)^T S_h k_h(u) / sqrt(K),  u <= t

W_Q and W_K may be trained, frozen, one and the same, or absent: a coordinate frame is a slice of x. The extras are
the key shift k_t <- (1-m_h) k_t + m_h k_{t-1}, the gain g_h, the core S_h, low-rank updates of W_Q and W_K, biases
b_q and b_k, and the norm q_h <- q_h / rms(q_h), k_h <- k_h / rms(k_h). (b_k adds q.b_k to all logits of a query alike:
softmax sees it only through the norm, or where positions are rotary.) Order: projection, bias, shift, norm, core,
rotary, logits; where the model's positions are rotary, `rotary.py` says what that means and why it comes last.
"""

# B batch  T query time  S key time  C context  D model width  H heads  K head width of Q and K  V of values  E = H K

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.config.method import KeySource, Method, Projection
from oelm.config.model import GPTConfig, Style, query_key_width
from oelm.method.extras import NORM_EPSILON, extra_tensors
from oelm.method.projections import frame_matrix, key_heads
from oelm.method.weights import HeadShape
from oelm.model.causal import causal_attention, with_gain
from oelm.model.projecting import add_low_rank, norm_heads, project, shift_keys
from oelm.model.rotary import Rotary


class LayerCache:
    """What one layer remembers during generation: keys as attention reads them, values, and the last key unshifted.

    Memory for a whole context is allocated once; tokens are written into it, and nothing is copied.
    """

    def __init__(self, batch: int, context: int, shape: HeadShape, value_width: int, like: Tensor) -> None:
        self.length = 0
        self.last_key_BH1K: Tensor | None = None
        self._k_BHCK = like.new_empty(batch, shape.heads, context, shape.head_width)
        self._v_BHCV = like.new_empty(batch, shape.heads, context, value_width)

    def append(self, k_BHTK: Tensor, v_BHTV: Tensor) -> tuple[Tensor, Tensor]:
        """Remember T more tokens; returns all keys and values so far."""
        end = self.length + k_BHTK.shape[2]
        self._k_BHCK[:, :, self.length : end] = k_BHTK
        self._v_BHCV[:, :, self.length : end] = v_BHTV
        self.length = end
        return self._k_BHCK[:, :, :end], self._v_BHCV[:, :, :end]


class LowRank(nn.Module):
    """x -> B A x: a trained update of a projection, zero at init because B is."""

    def __init__(self, width: int, rank: int, out_width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, out_width, bias=False)


class Attention(nn.Module):
    """Multi-head attention; `q` and `k` are None where the method stores no matrix. `shape` is that of Q and K."""

    def __init__(self, config: GPTConfig, method: Method, layer: int = 0) -> None:
        super().__init__()
        width, heads, extras = config.width, config.heads, method.extras
        self.shape = HeadShape(heads, query_key_width(config, method), width)
        self.value_width = config.head_width
        self.dropout = config.dropout
        self.is_strided = method.strided and layer % 2 == 1
        inner = heads * self.shape.head_width
        self.q = _matrix(method.query, width, inner)
        self.k = _matrix(method.key, width, inner) if method.key_source is KeySource.OWN else None
        # For a tied or rolled key: which head's query each key head takes.
        self.key_heads = None if method.key_source is KeySource.OWN else key_heads(method.key_source, heads)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.q_update = LowRank(width, extras.rank, inner) if extras.rank else None
        self.k_update = LowRank(width, extras.rank, inner) if extras.rank else None
        own = {tensor.name: nn.Parameter(torch.empty(tensor.size)) for tensor in extra_tensors(extras, self.shape)}
        self.q_bias_E, self.k_bias_E = own.get("q_bias_E"), own.get("k_bias_E")
        self.shift_H, self.gain_H, self.core_HKK = own.get("shift_H"), own.get("gain_H"), own.get("core_HKK")
        self.has_norm = extras.norm
        self.rotary = Rotary(config.context, self.shape.head_width) if config.style is Style.LLAMA else None

    def forward(self, x_BTD: Tensor, cache: LayerCache | None = None) -> Tensor:
        """Attend from each token to itself and those before it; `cache` holds the tokens before x, and then x too."""
        start = 0 if cache is None else cache.length
        q_BTE, k_BTE, v_BTD = self.queries_keys_values(x_BTD)
        q_BHTK, k_BHSK, v_BHSV = self.queries(q_BTE, start), self.keys(k_BTE, start, cache), self.split_heads(v_BTD)
        if cache is None:
            dropout = self.dropout if self.training else 0.0
            y_BHTV = causal_attention(q_BHTK, k_BHSK, v_BHSV, dropout, self.gain())
        else:
            k_BHSK, v_BHSV = cache.append(k_BHSK, v_BHSV)
            mask_TS = _causal_mask(x_BTD.shape[1], cache.length, x_BTD.device)
            q_BHTK = with_gain(q_BHTK, self.gain())
            y_BHTV = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSV, attn_mask=mask_TS)
        y_BTD: Tensor = self.o(y_BHTV.transpose(1, 2).flatten(2))
        return y_BTD

    def queries_keys_values(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, in one matmul. A frame takes no part in it: it reads x itself, head by head."""
        matrices = {"q": self.q, "k": self.k, "v": self.v}
        weights = {name: matrix.weight for name, matrix in matrices.items() if matrix is not None}
        if self.q_update is not None and self.k_update is not None:
            weights["down"] = torch.cat([self.q_update.down.weight, self.k_update.down.weight])
        projected = dict(zip(weights, project(x_BTD, *weights.values()), strict=True))
        q_BTE = self.read_frame(x_BTD) if self.q is None else projected["q"]
        if self.key_heads is not None:
            k_BTE = self.shared_keys(q_BTE, self.key_heads)
        else:
            k_BTE = self.read_frame(x_BTD) if self.k is None else projected["k"]
        if self.q_update is not None and self.k_update is not None:
            q_down_BTR, k_down_BTR = projected["down"].chunk(2, dim=-1)
            q_BTE = add_low_rank(q_BTE, q_down_BTR, self.q_update.up.weight)
            k_BTE = add_low_rank(k_BTE, k_down_BTR, self.k_update.up.weight)
        if self.q_bias_E is not None and self.k_bias_E is not None:
            q_BTE, k_BTE = q_BTE + self.q_bias_E, k_BTE + self.k_bias_E
        return q_BTE, k_BTE, projected["v"]

    def read_frame(self, x_BTD: Tensor) -> Tensor:
        """The coordinates of `frame_coordinates`: x itself where all are read in their order, else a copy.

        (A strided view would do without the copy, but torch's fast attention reads only coordinates in a row.)
        """
        batch, time, _ = x_BTD.shape
        if self.is_strided:
            x_BTHV = x_BTD.view(batch, time, self.value_width, self.shape.heads).transpose(2, 3)
        elif self.shape.head_width < self.value_width:
            x_BTHV = x_BTD.view(batch, time, self.shape.heads, self.value_width)
        else:
            return x_BTD
        return x_BTHV[..., : self.shape.head_width].flatten(2)

    def shared_keys(self, q_BTE: Tensor, heads: list[int]) -> Tensor:
        """The queries, for tied keys; for rolled ones, the query of another head in every second head."""
        if heads == list(range(self.shape.heads)):
            return q_BTE
        return self.split_heads(q_BTE)[:, heads].transpose(1, 2).flatten(2)

    def queries(self, q_BTE: Tensor, start: int = 0) -> Tensor:
        """As the logits read them, but for the gain, from position `start` on: with norm, core and rotary positions."""
        q_BHTK = self.split_heads(q_BTE)
        if self.has_norm:
            q_BHTK = norm_heads(q_BHTK, NORM_EPSILON)
        if self.core_HKK is not None:
            q_BHTK = _through_core(q_BHTK, self.core_HKK)
        return q_BHTK if self.rotary is None else self.rotary(q_BHTK, start)

    def keys(self, k_BTE: Tensor, start: int = 0, cache: LayerCache | None = None) -> Tensor:
        """As the logits read them: with shift, norm and rotary positions.

        Across document boundaries keys are shifted as attention itself looks: unmasked.
        """
        k_BHTK = self.split_heads(k_BTE)
        if self.shift_H is not None:
            last_BH1K = cache.last_key_BH1K if cache is not None else None
            if cache is not None:
                cache.last_key_BH1K = k_BHTK[:, :, -1:]
            k_BHTK = shift_keys(k_BHTK, self.shift_H.sigmoid(), last_BH1K)
        if self.has_norm:
            k_BHTK = norm_heads(k_BHTK, NORM_EPSILON)
        return k_BHTK if self.rotary is None else self.rotary(k_BHTK, start)

    def gain(self) -> Tensor | None:
        """exp(g_h), where there is one."""
        return None if self.gain_H is None else self.gain_H.exp()

    def split_heads(self, x_BTE: Tensor) -> Tensor:
        """(B, T, E) -> (B, H, T, K): head h takes coordinates hK .. hK+K-1 (of values: hV .. hV+V-1)."""
        batch, time, _ = x_BTE.shape
        return x_BTE.view(batch, time, self.shape.heads, -1).transpose(1, 2)

    def new_cache(self, batch: int, context: int, like: Tensor) -> LayerCache:
        """An empty cache for a full context of `batch` texts."""
        return LayerCache(batch, context, self.shape, self.value_width, like)

    def projections(self) -> tuple[Tensor, Tensor]:
        """The matrices (H, K, D) that q and k are really computed with, updates left out."""
        frame_HKD = frame_matrix(self.shape, strided=self.is_strided)
        q_HKD = frame_HKD if self.q is None else self.q.weight.detach().cpu().view(self.shape)
        if self.key_heads is not None:
            return q_HKD, q_HKD[self.key_heads]
        return q_HKD, frame_HKD if self.k is None else self.k.weight.detach().cpu().view(self.shape)


def _matrix(projection: Projection, width: int, out_width: int) -> nn.Linear | None:
    return None if projection is Projection.COORDINATE_FRAME else nn.Linear(width, out_width, bias=False)


def _through_core(q_BHTK: Tensor, core_HKK: Tensor) -> Tensor:
    """q_h S_h for all heads as one batched matmul."""
    batch, heads, time, width = q_BHTK.shape
    q_HNK = q_BHTK.transpose(0, 1).reshape(heads, batch * time, width)
    return torch.bmm(q_HNK, core_HKK).view(heads, batch, time, width).transpose(0, 1)


def _causal_mask(queries: int, keys: int, device: torch.device) -> Tensor | None:
    """The last `queries` of `keys` positions look back: True where attention is allowed; one alone may look at all."""
    if queries == 1:
        return None
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
