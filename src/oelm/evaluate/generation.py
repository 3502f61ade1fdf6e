"""Generation: tokens one by one, with a cache that gives what recomputing everything would give.

Several prompts of one length are continued together, each with a random stream of its own: what a prompt becomes does
not depend on its company.
"""

# B texts  T tokens that were not read yet  V vocabulary

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.evaluate.language_model import LanguageModel
from oelm.model.gpt import GPT

_LOWEST = 1e-3
"""Temperature: logits divided by less overflow, or differ by less than chance does at 0."""
Read = Callable[[Tensor], Tensor]
"""The tokens that follow those read before (B, T) -> logits of the next one (B, V)."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. In this order: penalty, temperature, top-k, top-p; at temperature 0 the likeliest.

    A token that is in the text already has its logit divided by `repetition_penalty` if positive, else multiplied.
    """

    temperature: float = 0.8
    top_k: int = 50
    """Draw from so many of the likeliest; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest of the likeliest that together have this probability."""
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not _LOWEST <= self.temperature <= 1 / _LOWEST:
            raise ConfigError(f"a temperature of {self.temperature:g} cannot be used", "use 0, or 0.001 to 1000")
        if self.top_k < 0:
            raise ConfigError("top-k cannot be negative", "use 0 or more")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top-p is a probability above 0, not {self.top_p:g}", "use 1 to draw from all")
        if not 0 < self.repetition_penalty < math.inf:
            raise ConfigError("the repetition penalty divides, so it must be positive", "use 1 for none")


def generate(
    model: GPT,
    prompt: list[int],
    *,
    tokens: int,
    sampling: Sampling,
    end_of_text: int | None = None,
    cached: bool = True,
) -> Iterator[int]:
    """Yield up to `tokens` further tokens, until `end_of_text`. Beyond the context the window slides."""
    for (token,) in _continued(model, model.config.context, [prompt], [sampling], tokens, cached=cached):
        if token == end_of_text:
            return
        yield token


def stream(model: LanguageModel, prompt: list[int], *, tokens: int, sampling: Sampling) -> Iterator[int]:
    """As `generate`, with any language model."""
    for (token,) in _continued(model.module, model.context, [prompt], [sampling], tokens):
        if token == model.end_of_text:
            return
        yield token


def generate_all(
    model: LanguageModel, prompts: Sequence[list[int]], *, tokens: int, sampling: Sampling, batch_size: int
) -> list[list[int]]:
    """The continuation of every prompt, until end-of-text; prompt i draws with seed `sampling.seed` + i."""
    written: list[list[int]] = [[] for _ in prompts]
    for places in _alike(prompts, batch_size):
        own = [replace(sampling, seed=sampling.seed + place) for place in places]
        open_rows = set(range(len(places)))
        steps = _continued(model.module, model.context, [prompts[place] for place in places], own, tokens)
        for chosen in steps:
            open_rows -= {row for row in open_rows if chosen[row] == model.end_of_text}
            for row in open_rows:
                written[places[row]].append(chosen[row])
            if not open_rows:
                break
    return written


def _alike(prompts: Sequence[list[int]], batch_size: int) -> Iterator[list[int]]:
    """Places of prompts of one length, at most `batch_size` of them."""
    by_length: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(place)
    for places in by_length.values():
        yield from (places[first : first + batch_size] for first in range(0, len(places), batch_size))


@torch.no_grad()
def _continued(
    module: nn.Module,
    context: int,
    prompts: Sequence[list[int]],
    samplings: Sequence[Sampling],
    tokens: int,
    *,
    cached: bool = True,
) -> Iterator[list[int]]:
    """One further token of every text at a time.

    While everything fits into the context, the cache holds keys (shifted, with the last one unshifted) and values;
    positions count from the window's first token, so once it slides every position changes and it is computed anew.
    """
    if not all(prompts):
        raise ConfigError("the prompt has no tokens", "give at least one character")
    module.eval()
    texts, device = [list(prompt) for prompt in prompts], next(module.parameters()).device
    randoms = [generator_for(sampling.seed, "generate") for sampling in samplings]
    read, done = (_reader(module, len(texts)) if cached else None), 0
    for _ in range(tokens):
        length = len(texts[0])
        if length > context:
            read = None
        first = done if read else max(0, length - context)
        fresh_BT = torch.tensor([text[first:] for text in texts], device=device)
        logits_BV, done = read(fresh_BT) if read else _logits_behind(module, fresh_BT), length
        chosen = [choose(*row) for row in zip(logits_BV, samplings, randoms, texts, strict=True)]
        for text, token in zip(texts, chosen, strict=True):
            text.append(token)
        yield chosen


def _logits_behind(module: nn.Module, tokens_BT: Tensor) -> Tensor:
    """Of the next token, everything computed anew."""
    if isinstance(module, GPT):
        return module.logits(module.encode(tokens_BT)[:, -1])
    logits_BV: Tensor = module(input_ids=tokens_BT, use_cache=False).logits[:, -1]
    return logits_BV


def _reader(module: nn.Module, batch: int) -> Read:
    """Reads on where it stopped: with our cache, or with transformers' own."""
    if isinstance(module, GPT):
        gpt, cache = module, module.new_cache(batch)
        return lambda tokens_BT: gpt.logits(gpt.encode(tokens_BT, cache)[:, -1])
    past = None

    def read(tokens_BT: Tensor) -> Tensor:
        nonlocal past
        output = module(input_ids=tokens_BT, past_key_values=past, use_cache=True)
        past = output.past_key_values
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    return read


def choose(logits_V: Tensor, sampling: Sampling, random: torch.Generator, text: Sequence[int] = ()) -> int:
    """One token. Drawn on the CPU in float64, so that a seed means the same everywhere."""
    if sampling.repetition_penalty != 1 and text:
        logits_V = _penalised(logits_V, sampling.repetition_penalty, text)
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    scores_V = logits_V.cpu().double() / sampling.temperature
    if 0 < sampling.top_k < len(scores_V):
        worst_kept = scores_V.topk(sampling.top_k).values[-1]
        scores_V = scores_V.masked_fill(scores_V < worst_kept, -torch.inf)
    if sampling.top_p < 1:
        scores_V = _nucleus(scores_V, sampling.top_p)
    return int(torch.multinomial(scores_V.softmax(0), 1, generator=random))


def _penalised(logits_V: Tensor, penalty: float, text: Sequence[int]) -> Tensor:
    seen_S = torch.tensor(sorted(set(text)), device=logits_V.device)
    old_S = logits_V[seen_S]
    return logits_V.index_copy(0, seen_S, torch.where(old_S > 0, old_S / penalty, old_S * penalty))


def _nucleus(scores_V: Tensor, top_p: float) -> Tensor:
    """Leave out every token before which, likeliest first, `top_p` is reached already: at least one stays."""
    probabilities_V, order_V = scores_V.softmax(0).sort(descending=True, stable=True)
    beyond_V = probabilities_V.cumsum(0) - probabilities_V >= top_p
    return scores_V.index_fill(0, order_V[beyond_V], -torch.inf)
