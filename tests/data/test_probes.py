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
            found = {place: hopped(tokens, place, probe.hops) for place in range(len(tokens))}
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
    for tokens, answers in zip(tokens_BT.tolist(), answers_BT.tolist(), strict=True):
        given = {place: answer for place, answer in enumerate(answers) if answer != UNASKED}
        assert given == searched(probe, tokens)
        assert given


def test_one_hop_is_not_three() -> None:
    three = PROBES["induction-3"]
    one = three.model_copy(update={"hops": 1})
    tokens, answers = probe_sequences(three, 4, 1, "test", vary=False)
    same_tokens, others = probe_sequences(one, 4, 1, "test", vary=False)
    assert (tokens == same_tokens).all()
    assert (answers != others).mean() > 0.5


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
