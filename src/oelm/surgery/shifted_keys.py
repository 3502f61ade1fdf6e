"""What a key shift in a Hugging Face model has to know beyond the tokens it is given.

k_t <- (1-m) k_t + m k_{t-1} needs the token before the first one where a cache holds what came earlier, and must not
take padding for it where texts are padded on the left. Caches hold keys as attention reads them, after the shift, so
the last token of every attention is kept beside them.
"""

# B batch  T time  D model width  E = heads x head width

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from oelm.base.errors import ConfigError

_KEPT = "oelm_last_tokens"


@dataclass(frozen=True)
class LastToken:
    """The input and the unshifted key of the last token that a cache has seen, and how many it has seen."""

    x_B1D: Tensor
    k_B1E: Tensor
    seen: int


def cache_in(inputs: Sequence[Any], named: Mapping[str, Any]) -> Cache | None:
    """The cache among the arguments of an attention."""
    return next((value for value in (*inputs, *named.values()) if isinstance(value, Cache)), None)


def last_token(cache: Cache, owner: int, seen: int) -> LastToken | None:
    """What was kept of the last token; None at the beginning, and refused where the cache holds something else."""
    kept: LastToken | None = _kept(cache).get(owner) if seen else None
    if seen and (kept is None or kept.seen != seen):
        raise ConfigError(
            "a shifted key needs the key before it, and this cache was filled or cut by what does not keep it",
            "start from an empty cache, or give whole texts: model.generate(..., use_cache=False)",
        )
    return kept


def keep_last_token(cache: Cache, owner: int, last: LastToken) -> None:
    """Keep it beside the cache, where beam search reorders both."""
    _kept(cache)[owner] = last


def with_predecessors(
    x_BTD: Tensor, k_BTE: Tensor, last: LastToken | None, start_B: Tensor | None
) -> tuple[Tensor, Tensor, int]:
    """Inputs and keys such that every token's predecessor is the one before it, and how many lead the tokens given.

    The first token of a text is its own predecessor: where padding stands before it, that gets the token's values.
    """
    lead = 0
    if last is not None:
        x_BTD, k_BTE, lead = torch.cat([last.x_B1D, x_BTD], 1), torch.cat([last.k_B1E, k_BTE], 1), 1
    if start_B is None:
        return x_BTD, k_BTE, lead
    time = x_BTD.shape[1]
    first_B = start_B - (last.seen - 1 if last is not None else 0)
    is_before_BT1 = (torch.arange(time, device=x_BTD.device) == first_B[:, None] - 1)[..., None]
    rows, first_B = torch.arange(len(first_B), device=x_BTD.device), first_B.clamp(0, time - 1)
    x_BTD = torch.where(is_before_BT1, x_BTD[rows, first_B][:, None], x_BTD)
    return x_BTD, torch.where(is_before_BT1, k_BTE[rows, first_B][:, None], k_BTE), lead


def text_starts(mask: object) -> Tensor | None:
    """The place of each text's first token, by the mask of all tokens, past and present.

    A mask of queries and keys says it by the keys that the last query sees, unless it looks through a window.
    """
    if isinstance(mask, Mapping):
        mask = mask.get("full_attention")
    if not isinstance(mask, Tensor) or mask.ndim not in (2, 4):
        return None
    if mask.ndim == 4:
        seen_BS = mask[:, 0, -1]
        mask = seen_BS if seen_BS.dtype is torch.bool else seen_BS >= 0
    return mask.to(torch.int8).argmax(dim=1)


def _kept(cache: Cache) -> dict[int, LastToken]:
    """By attention."""
    if not hasattr(cache, _KEPT):
        setattr(cache, _KEPT, {})
        cache.reorder_cache = MethodType(_reorder, cache)  # type: ignore[method-assign]
    kept: dict[int, LastToken] = getattr(cache, _KEPT)
    return kept


def _reorder(cache: Cache, beam_idx: Tensor) -> None:
    """The cache's own reordering, and that of the tokens beside it."""
    type(cache).reorder_cache(cache, beam_idx)  # type: ignore[arg-type]
    for owner, last in _kept(cache).items():
        chosen = beam_idx.to(last.x_B1D.device)
        keep_last_token(cache, owner, replace(last, x_B1D=last.x_B1D[chosen], k_B1E=last.k_B1E[chosen]))
