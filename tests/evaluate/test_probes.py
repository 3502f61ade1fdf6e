"""Probes on models of text: one that looks back answers, one that looks beside does not."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from builders import bold_model
from oelm.base.errors import ConfigError
from oelm.config.evaluated import EvaluationRequest, Suite
from oelm.config.model import GPTConfig
from oelm.config.probe import Probe, ProbeKind
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.ask_probes import _tokens_of_symbols, standard_probes
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import evaluate

REQUEST = EvaluationRequest(suites=(Suite.PROBES,), sequences=8, batch_size=3)


class LooksBack(nn.Module):
    """Expects what stood behind the last occurrence of a token: an induction head and nothing else."""

    def __init__(self, off: int = 0) -> None:
        super().__init__()
        self.off = off
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Tensor, use_cache: bool) -> SimpleNamespace:
        logits_BTV = torch.zeros(*input_ids.shape, 257)
        for row, tokens in enumerate(input_ids.tolist()):
            for place, token in enumerate(tokens):
                earlier = [other for other in range(place) if tokens[other] == token]
                if earlier:
                    logits_BTV[row, place, tokens[min(earlier[-1] + 1 + self.off, place)]] = 1.0
        return SimpleNamespace(logits=logits_BTV)


def language_model(module: nn.Module, context: int = 128) -> LanguageModel:
    return LanguageModel(name="toy", module=module, tokenizer=byte_tokenizer(), context=context, end_of_text=256)


def accuracies(module: nn.Module, context: int = 128) -> dict[str, float]:
    answers = evaluate(language_model(module, context), REQUEST)
    return {each.result.evaluation.name: each.result.evaluation.measures["in_context_accuracy"] for each in answers}


def test_an_induction_head_answers() -> None:
    found = accuracies(LooksBack())
    assert found == {
        "retrieval-10": 1.0,
        "retrieval-30": 1.0,
        "recall-10": 1.0,
        "copy": found["copy"],  # a symbol that is there twice leads astray
        "induction": 1.0,
    }
    assert 0.4 < found["copy"] < 1
    assert max(accuracies(LooksBack(off=1)).values()) < 0.6


def test_a_random_model_does_not() -> None:
    size = GPTConfig(layers=1, width=16, heads=2, ffn_width=16, context=64, vocabulary=257)
    found = accuracies(bold_model("baseline", size), context=64)
    assert list(found) == ["retrieval-10", "recall-10", "copy"]
    assert max(found.values()) < 0.2


def test_every_sequence_has_tokens_of_its_own() -> None:
    probe = Probe(probe=ProbeKind.RETRIEVAL, length=10)
    ids_BS = _tokens_of_symbols(language_model(LooksBack()), probe, 5)
    assert ids_BS.shape == (5, 64)
    assert all(len(np.unique(row)) == 64 for row in ids_BS)
    assert 256 not in ids_BS
    assert (ids_BS[0] != ids_BS[1]).any()


def test_a_model_without_room_is_refused() -> None:
    assert standard_probes(20) == ()
    with pytest.raises(ConfigError, match="too few for any probe"):
        accuracies(LooksBack(), context=20)
