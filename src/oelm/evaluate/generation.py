"""Generation: tokens one by one, with a cache that gives what recomputing everything would give."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.model.gpt import GPT


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen: the likeliest at temperature 0, else drawn from the `top_k` likeliest (0: all)."""

    temperature: float = 0.8
    top_k: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0 or self.top_k < 0:
            raise ConfigError("temperature and top-k cannot be negative", "use 0 or more")


@torch.no_grad()
def generate(
    model: GPT,
    prompt: list[int],
    *,
    tokens: int,
    sampling: Sampling,
    end_of_text: int | None = None,
    cached: bool = True,
) -> Iterator[int]:
    """Yield up to `tokens` further tokens, until `end_of_text`. Beyond the context the window slides.

    While everything fits into the context, the cache holds keys (shifted, with the last one unshifted) and values;
    positions count from the window's first token, so once it slides every position changes and it is computed anew.
    """
    if not prompt:
        raise ConfigError("the prompt has no tokens", "give at least one character")
    model.eval()
    context, random = model.config.context, generator_for(sampling.seed, "generate")
    device, sequence = model.token_embedding.weight.device, list(prompt)
    cache = model.new_cache(1) if cached else None
    for _ in range(tokens):
        if len(sequence) > context:
            cache = None
        fresh = sequence[cache[0].length :] if cache else sequence[-context:]
        x_BTD = model.encode(torch.tensor([fresh], device=device), cache)
        token = choose(model.logits(x_BTD[0, -1]), sampling, random)
        if token == end_of_text:
            return
        sequence.append(token)
        yield token


def choose(logits_V: Tensor, sampling: Sampling, random: torch.Generator) -> int:
    """One token. Drawn on the CPU in float64, so that a seed means the same everywhere."""
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    scores_V = logits_V.cpu().double() / sampling.temperature
    if 0 < sampling.top_k < len(scores_V):
        worst_kept = scores_V.topk(sampling.top_k).values[-1]
        scores_V = scores_V.masked_fill(scores_V < worst_kept, -torch.inf)
    return int(torch.multinomial(scores_V.softmax(0), 1, generator=random))
