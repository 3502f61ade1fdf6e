"""The sequences of a probe: tokens, and at every place the answer, or `UNASKED`. See `oelm.config.probe`."""

# B sequences  T places  N pairs

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from oelm.base.streams import stream_seed
from oelm.config.probe import Probe, ProbeKind

Ids = npt.NDArray[np.int64]
Random = np.random.Generator

UNASKED = -100
"""What torch's cross-entropy ignores."""


def probe_sequences(probe: Probe, count: int, seed: int, *purpose: str | int, vary: bool) -> tuple[Ids, Ids]:
    """Tokens and answers (B, T), a pure function of the arguments; `vary` for training, with easier questions."""
    random = np.random.Generator(np.random.PCG64(stream_seed(seed, "probe", *purpose)))
    return _GENERATORS[probe.probe](probe, count, random, vary)


def _pairs_then_questions(probe: Probe, count: int, random: Random, vary: bool) -> tuple[Ids, Ids]:
    """Pairs in random places among noise (if any), then random ones of their keys, each followed by its value.

    To train on, every second sequence is one of induction, with symbols of all kinds: it asks the same of every place,
    what stood behind this symbol, and so is learned first.
    """
    symbols, pairs = probe.alphabet, probe.length
    keys_BN = random.permuted(np.tile(np.arange(symbols), (count, 1)), axis=1)[:, :pairs]
    values_BN = symbols + random.integers(symbols, size=(count, pairs))
    tokens_BT = 2 * symbols + random.integers(symbols, size=(count, probe.context))
    answers_BT = np.full((count, probe.context), UNASKED)
    for row in range(count):
        starts = np.sort(random.choice(probe.shown - pairs, size=pairs, replace=False)) + np.arange(pairs)
        which = np.append(np.arange(pairs), random.integers(pairs, size=pairs))
        places = np.append(starts, probe.shown + 2 * np.arange(pairs))
        tokens_BT[row, places], tokens_BT[row, places + 1] = keys_BN[row, which], values_BN[row, which]
        answers_BT[row, places[pairs:]] = values_BN[row, which[pairs:]]
    if vary:
        tokens_BT[1::2], answers_BT[1::2] = _induction(probe, count // 2, random)
    return tokens_BT, answers_BT


def _induction(probe: Probe, count: int, random: Random) -> tuple[Ids, Ids]:
    """Sequences of as many different symbols, of any kind, as there are keys."""
    every = np.tile(np.arange(probe.vocabulary), (count, 1))
    chosen_BS = random.permuted(every, axis=1)[:, : probe.alphabet]
    drawn_BT = random.integers(probe.alphabet, size=(count, probe.context))
    tokens_BT, behind_BT = np.take_along_axis(chosen_BS, drawn_BT, axis=1), _behind_last(drawn_BT, probe.alphabet)
    return tokens_BT, np.where(behind_BT < 0, UNASKED, np.take_along_axis(tokens_BT, behind_BT.clip(0), axis=1))


def _copies(probe: Probe, count: int, random: Random, vary: bool) -> tuple[Ids, Ids]:
    """s_1 .. s_n, the bar, s_1 .. s_n-1; the rest is bars, unasked. Lengths vary evenly on a logarithmic scale."""
    bar, shape = probe.alphabet, (count, probe.context)
    drawn_B = (probe.length + 1) ** random.random(count) if vary else np.full(count, float(probe.length))
    tokens_BT, answers_BT = np.full(shape, bar), np.full(shape, UNASKED)
    for row, length in enumerate(drawn_B.astype(np.int64)):
        symbols = random.integers(probe.alphabet, size=length)
        tokens_BT[row, :length], tokens_BT[row, length + 1 : 2 * length] = symbols, symbols[:-1]
        answers_BT[row, length : 2 * length] = symbols
    return tokens_BT, answers_BT


def _hops(probe: Probe, count: int, random: Random, vary: bool) -> tuple[Ids, Ids]:
    """Random symbols, each in the form that says how many hops it asks for; the answer is in the first form."""
    shape = (count, probe.length)
    symbols_BT = random.integers(probe.alphabet, size=shape)
    hops_BT = random.integers(1, probe.hops + 1, size=shape) if vary else np.full(shape, probe.hops)
    behind_BT = _behind_last(symbols_BT, probe.alphabet)
    place_BT = np.tile(np.arange(probe.length), (count, 1))
    for done in range(probe.hops):
        further_BT = np.where(place_BT < 0, -1, np.take_along_axis(behind_BT, place_BT.clip(0), axis=1))
        place_BT = np.where(done < hops_BT, further_BT, place_BT)
    answers_BT = np.where(place_BT < 0, UNASKED, np.take_along_axis(symbols_BT, place_BT.clip(0), axis=1))
    return symbols_BT + (hops_BT - 1) * probe.alphabet, answers_BT


def _behind_last(symbols_BT: Ids, alphabet: int) -> Ids:
    """For every place, the one behind the last earlier occurrence of its symbol; -1 for none."""
    batch, time = symbols_BT.shape
    rows, last_BS, behind_BT = np.arange(batch), np.full((batch, alphabet), -1), np.empty_like(symbols_BT)
    for place in range(time):
        last_B = last_BS[rows, symbols_BT[:, place]]
        behind_BT[:, place] = np.where(last_B < 0, -1, last_B + 1)
        last_BS[rows, symbols_BT[:, place]] = place
    return behind_BT


_GENERATORS: Mapping[ProbeKind, Callable[[Probe, int, Random, bool], tuple[Ids, Ids]]] = {
    ProbeKind.RETRIEVAL: _pairs_then_questions,
    ProbeKind.RECALL: _pairs_then_questions,
    ProbeKind.COPY: _copies,
    ProbeKind.INDUCTION: _hops,
}
