"""The answers of every probe, found again from its tokens by plain search."""

import numpy as np
import pytest

from oelm.base.errors import ConfigError
from oelm.config.probe import Probe, ProbeKind
from oelm.config.settings import parse
from oelm.data.probes import UNASKED, probe_sequences

PROBES = {
    "retrieval": Probe(probe=ProbeKind.RETRIEVAL, length=12, alphabet=16),
    "recall": Probe(probe=ProbeKind.RECALL, length=9, alphabet=16, noise=0.4),
    "copy": Probe(probe=ProbeKind.COPY, length=11, alphabet=5),
    "induction": Probe(probe=ProbeKind.INDUCTION, length=40, alphabet=6),
    "induction-3": Probe(probe=ProbeKind.INDUCTION, length=60, alphabet=6, hops=3),
}


def searched(probe: Probe, tokens: list[int]) -> dict[int, int]:
    """Place -> answer, by the words of `oelm.config.probe`."""
    match probe.probe:
        case ProbeKind.RETRIEVAL | ProbeKind.RECALL:
            pairs: dict[int, int] = {}
            asked = {}
            for place, token in enumerate(tokens[:-1]):
                if token < probe.alphabet:
                    if token in pairs:
                        asked[place] = pairs[token]
                    else:
                        pairs[token] = tokens[place + 1]
            return asked
        case ProbeKind.COPY:
            bar = tokens.index(probe.alphabet)
            return dict(enumerate(tokens[:bar], start=bar))
        case ProbeKind.INDUCTION:
            symbols = [token % probe.alphabet for token in tokens]
            hops = [token // probe.alphabet + 1 for token in tokens]
            found = {place: hopped(symbols, place, hops[place]) for place in range(len(symbols))}
            return {place: answer for place, answer in found.items() if answer is not None}


def hopped(tokens: list[int], place: int, hops: int) -> int | None:
    for _ in range(hops):
        earlier = [other for other in range(place) if tokens[other] == tokens[place]]
        if not earlier:
            return None
        place = earlier[-1] + 1
    return tokens[place]


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("vary", [False, True])
def test_answers_are_what_a_search_finds(name: str, vary: bool) -> None:
    probe = PROBES[name]
    tokens_BT, answers_BT = probe_sequences(probe, 30, 1, "test", vary=vary)
    assert tokens_BT.shape == answers_BT.shape == (30, probe.context)
    assert 0 <= tokens_BT.min() <= tokens_BT.max() < probe.vocabulary
    pairs = probe.probe in (ProbeKind.RETRIEVAL, ProbeKind.RECALL)
    step = 2 if vary and pairs else 1  # every second one is of induction, tested below
    for tokens, answers in zip(tokens_BT[::step].tolist(), answers_BT[::step].tolist(), strict=True):
        given = {place: answer for place, answer in enumerate(answers) if answer != UNASKED}
        assert given == searched(probe, tokens)
        assert given


def test_one_hop_is_not_three() -> None:
    three = PROBES["induction-3"]
    one = three.model_copy(update={"hops": 1})
    tokens, answers = probe_sequences(three, 4, 1, "test", vary=False)
    same_tokens, others = probe_sequences(one, 4, 1, "test", vary=False)
    assert (tokens == 2 * three.alphabet + same_tokens).all()
    assert (answers != others).mean() > 0.5


def test_training_is_easier_and_validation_is_not() -> None:
    """Hops of every number; what stood behind any symbol, in every second sequence."""
    three = PROBES["induction-3"]
    for vary, asked in ((True, {1, 2, 3}), (False, {3})):
        tokens_BT, _ = probe_sequences(three, 30, 1, "test", vary=vary)
        assert set((tokens_BT // three.alphabet + 1).flatten().tolist()) == asked
    for name in ("retrieval", "recall"):
        probe = PROBES[name]
        tokens_BT, answers_BT = probe_sequences(probe, 30, 1, "test", vary=True)
        asked_BT = answers_BT != UNASKED
        assert (asked_BT[::2].sum(1) == probe.length).all()
        assert asked_BT[1::2].sum(1).min() > 1.5 * probe.length
        for tokens, answers in zip(tokens_BT[1::2].tolist(), answers_BT[1::2].tolist(), strict=True):
            found = {place: hopped(tokens, place, 1) for place in range(len(tokens))}
            assert [UNASKED if found[place] is None else found[place] for place in found] == answers


@pytest.mark.parametrize("name", PROBES)
def test_they_follow_from_seed_and_purpose(name: str) -> None:
    def drawn(seed: int, step: int) -> np.ndarray:
        return probe_sequences(PROBES[name], 3, seed, "training", step, vary=True)[0]

    assert (drawn(1, 2) == drawn(1, 2)).all()
    assert (drawn(1, 2) != drawn(2, 2)).any()
    assert (drawn(1, 2) != drawn(1, 3)).any()


def test_every_key_is_there_once_and_noise_has_its_share() -> None:
    probe = PROBES["recall"]
    tokens_BT, _ = probe_sequences(probe, 20, 0, "test", vary=False)
    for shown in tokens_BT[:, : probe.shown]:
        keys = shown[shown < probe.alphabet]
        assert len(keys) == len(set(keys.tolist())) == probe.length
        assert (shown >= 2 * probe.alphabet).mean() == pytest.approx(probe.noise, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"probe": "retrieval", "length": 40}, "40 pairs need as many different keys"),
        ({"probe": "copy", "length": 4, "hops": 2}, "copy has no hops"),
        ({"probe": "recall", "length": 4, "noise": 1.0}, "noise"),
    ],
)
def test_impossible_probes_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse(Probe, settings, "probe")
