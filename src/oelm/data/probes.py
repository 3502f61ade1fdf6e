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
    """Tokens and answers (B, T), a pure function of the arguments.

    `vary` draws lengths from 1 to the probe's, evenly on a logarithmic scale: what is short is learned first, and what
    is long is the same only farther away.
    """
    random = np.random.Generator(np.random.PCG64(stream_seed(seed, "probe", *purpose)))
    drawn_B = (probe.length + 1) ** random.random(count) if vary else np.full(count, float(probe.length))
    lengths_B = drawn_B.astype(np.int64)
    return _GENERATORS[probe.probe](probe, lengths_B, random)


def _pairs_then_queries(probe: Probe, lengths_B: Ids, random: Random) -> tuple[Ids, Ids]:
    """Pairs in random places among noise (if any), then random ones of their keys, each followed by its value."""
    batch, symbols = len(lengths_B), probe.alphabet
    keys_BN = random.permuted(np.tile(np.arange(symbols), (batch, 1)), axis=1)[:, : probe.length]
    values_BN = symbols + random.integers(symbols, size=(batch, probe.length))
    tokens_BT, answers_BT = np.zeros((batch, probe.context), np.int64), np.full((batch, probe.context), UNASKED)
    for row, length in enumerate(lengths_B):
        end = probe.shown if probe.probe is ProbeKind.RECALL else 2 * length
        tokens_BT[row, :end] = 2 * symbols + random.integers(symbols, size=end)
        blanks = end - 2 * length
        starts = np.sort(random.choice(length + blanks, size=length, replace=False)) + np.arange(length)
        tokens_BT[row, starts], tokens_BT[row, starts + 1] = keys_BN[row, :length], values_BN[row, :length]
        asked = random.integers(length, size=(probe.context - end) // 2)
        places = end + 2 * np.arange(len(asked))
        tokens_BT[row, places] = keys_BN[row, asked]
        tokens_BT[row, places + 1] = answers_BT[row, places] = values_BN[row, asked]
    return tokens_BT, answers_BT


def _copies(probe: Probe, lengths_B: Ids, random: Random) -> tuple[Ids, Ids]:
    """s_1 .. s_n, the bar, s_1 .. s_n-1; the rest is bars, unasked."""
    bar, batch = probe.alphabet, len(lengths_B)
    tokens_BT, answers_BT = np.full((batch, probe.context), bar), np.full((batch, probe.context), UNASKED)
    for row, length in enumerate(lengths_B):
        symbols = random.integers(probe.alphabet, size=length)
        tokens_BT[row, :length], tokens_BT[row, length + 1 : 2 * length] = symbols, symbols[:-1]
        answers_BT[row, length : 2 * length] = symbols
    return tokens_BT, answers_BT


def _hops(probe: Probe, lengths_B: Ids, random: Random) -> tuple[Ids, Ids]:
    """All places are used whatever the length: hops lead from near places and from far ones anyway."""
    batch = len(lengths_B)
    tokens_BT = random.integers(probe.alphabet, size=(batch, probe.context))
    rows, last_BS = np.arange(batch), np.full((batch, probe.alphabet), -1)
    behind_BT = np.empty_like(tokens_BT)  # the place behind the last earlier occurrence, -1 for none
    for place in range(probe.context):
        symbol_B = tokens_BT[:, place]
        behind_BT[:, place] = np.where(last_BS[rows, symbol_B] < 0, -1, last_BS[rows, symbol_B] + 1)
        last_BS[rows, symbol_B] = place
    place_BT = behind_BT
    for _ in range(probe.hops - 1):
        place_BT = np.where(place_BT < 0, -1, np.take_along_axis(behind_BT, place_BT.clip(0), axis=1))
    answers_BT = np.where(place_BT < 0, UNASKED, np.take_along_axis(tokens_BT, place_BT.clip(0), axis=1))
    return tokens_BT, answers_BT


_GENERATORS: Mapping[ProbeKind, Callable[[Probe, Ids, Random], tuple[Ids, Ids]]] = {
    ProbeKind.RETRIEVAL: _pairs_then_queries,
    ProbeKind.RECALL: _pairs_then_queries,
    ProbeKind.COPY: _copies,
    ProbeKind.INDUCTION: _hops,
}
