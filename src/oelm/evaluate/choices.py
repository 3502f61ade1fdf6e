"""Minimal pairs, choices and last words, scored by the log-likelihood of their endings.

    sum = sum_i log p(e_i | begin-of-text, context, e_1 .. e_{i-1})          per token = sum / number of e_i

A choice is right if its gold reading scores higher than every other one: a tie is wrong. A last word is right if each
of its tokens is the likeliest where it stands. Tokens are those of context and ending together; of them the first
len(tokens of the context) are not scored. Texts that are longer than the model's context lose their beginning.
"""

# R readings  B of them at a time  T tokens of the longest

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from oelm.evaluate.items import Item, Reading
from oelm.evaluate.language_model import LanguageModel, padded
from oelm.evaluate.pairing import Floats, Ids

TIE = -1
"""The choice of a model that prefers none."""


@dataclass(frozen=True)
class Encoded:
    """The tokens of a reading behind a begin-of-text, and how many at the end of them are scored."""

    tokens: list[int]
    scored: int
    cut: bool


@dataclass(frozen=True)
class ScoredReadings:
    """For every reading: its log-likelihood, how many tokens that is the sum of, and if each was the likeliest."""

    sums: Floats
    counts: Ids
    likeliest: npt.NDArray[np.bool_]
    cut: int
    """Readings that did not fit into the context."""


def encode(model: LanguageModel, reading: Reading) -> Encoded:
    """Context and ending as one text, at most as long as the model reads."""
    whole = model.encode(reading.context + reading.ending)
    scored = len(whole) - min(len(model.encode(reading.context)), len(whole) - 1)
    tokens = [model.first, *whole]
    return Encoded(tokens[-(model.context + 1) :], min(scored, model.context), len(tokens) > model.context + 1)


def score_readings(model: LanguageModel, readings: Sequence[Reading], batch_size: int) -> ScoredReadings:
    """In the order given; computed shortest first, `batch_size` contexts' worth of tokens at a time."""
    encoded = [encode(model, reading) for reading in readings]
    sums, likeliest = np.empty(len(encoded)), np.empty(len(encoded), bool)
    for places in _batches(encoded, batch_size * model.context):
        tokens_BT = padded([encoded[place].tokens for place in places])
        logits_BTV = model.logits(tokens_BT[:, :-1])
        targets_BT = tokens_BT[:, 1:].to(logits_BTV.device)
        target_BT = logits_BTV.gather(2, targets_BT[..., None])[..., 0]
        gains_BT = (target_BT - logits_BTV.logsumexp(2)).cpu().double()
        best_BT = (target_BT == logits_BTV.amax(2)).cpu()
        for row, place in enumerate(places):
            end = len(encoded[place].tokens) - 1
            inside = slice(end - encoded[place].scored, end)
            sums[place] = gains_BT[row, inside].sum()
            likeliest[place] = bool(torch.all(best_BT[row, inside]))
    counts = np.array([each.scored for each in encoded])
    return ScoredReadings(sums, counts, likeliest, sum(each.cut for each in encoded))


def _batches(encoded: Sequence[Encoded], most_tokens: int) -> Iterator[list[int]]:
    """Places by length, so many that the filled-up tensor holds at most `most_tokens`."""
    order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].tokens))
    batch: list[int] = []
    for place in order:
        if batch and len(encoded[place].tokens) * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(place)
    yield batch


def chosen(items: Sequence[Item], scores: Floats) -> Ids:
    """The reading that each item's scores prefer, strictly; `TIE` where none, or where a score is not a number."""
    ends = np.cumsum([len(item.readings) for item in items])[:-1]
    return np.array([_strictly_best(part) for part in np.split(scores, ends)])


def _strictly_best(scores: Floats) -> int:
    best = int(scores.argmax())
    return best if bool(np.all(np.delete(scores, best) < scores[best])) else TIE
