"""Perplexity against Hugging Face's own loss and against one token at a time, for any stride and batch."""

import math

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from builders import SMALL, bold_model, embolden
from oelm.base.errors import ConfigError
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.likelihood import ScoredText, by_frequency, by_position, score_text, windows

WINDOW = 16
VOCABULARY = 29
TOKENS = np.random.Generator(np.random.PCG64(0)).integers(VOCABULARY, size=61)
TOLERANCE = 1e-10
STRIDES = (1, 3, 8, 15, WINDOW)


def hugging_face() -> GPT2LMHeadModel:
    sizes = {"n_embd": 24, "n_layer": 3, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": WINDOW + 1}
    config = GPT2Config(**sizes, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).double().eval()
    embolden(model)
    return model


def language_model(module: torch.nn.Module, context: int = WINDOW) -> LanguageModel:
    return LanguageModel(
        name="toy", module=module, tokenizer=byte_tokenizer(), context=context, end_of_text=VOCABULARY - 1
    )


def scored(stride: int, batch_size: int, tokens: np.ndarray = TOKENS, window: int = WINDOW) -> ScoredText:
    return score_text(language_model(hugging_face()), tokens, window=window, stride=stride, batch_size=batch_size)


@torch.no_grad()
def own_loss(stride: int, keep: int = 0) -> float:
    """Hugging Face's loss with labels: one window after the other, what was scored before is masked by -100.

    `keep` scores so many tokens again: the twin that must differ.
    """
    model, total, count, begin, first = hugging_face(), 0.0, 0, 0, 1
    while first < len(TOKENS):
        end = min(begin + WINDOW, len(TOKENS) - 1)
        ids = torch.from_numpy(TOKENS[begin : end + 1])[None]
        labels = ids.clone()
        labels[:, : max(first - begin - keep, 1)] = -100
        scored_here = int((labels != -100).sum())
        total += model(input_ids=ids, labels=labels).loss.item() * scored_here
        count += scored_here
        begin, first = begin + stride, end + 1
    return total / count


@torch.no_grad()
def one_at_a_time(stride: int) -> list[float]:
    """Each token from the tokens before it that its window holds, in a forward pass of its own."""
    model, losses = hugging_face(), []
    for place in range(1, len(TOKENS)):
        moves = max(0, math.ceil((place - WINDOW) / stride))
        seen = torch.from_numpy(TOKENS[moves * stride : place])[None]
        logits = model(input_ids=seen).logits[0, -1]
        losses.append(-float(logits.log_softmax(0)[TOKENS[place]]))
    return losses


@pytest.mark.parametrize("stride", STRIDES)
def test_it_is_hugging_faces_own_loss(stride: int) -> None:
    """Which is computed in float32 whatever the model is in: so closely do they agree, and for all batches alike."""
    found = [scored(stride, batch_size).loss for batch_size in (1, 3, 100)]
    assert found == pytest.approx([own_loss(stride)] * 3, rel=1e-6)
    assert found == pytest.approx([found[0]] * 3, rel=TOLERANCE)


def test_a_token_that_counts_twice_would_be_noticed() -> None:
    assert abs(scored(8, 3).loss - own_loss(8, keep=2)) > 1e-3


@pytest.mark.parametrize("stride", STRIDES)
def test_it_is_one_token_at_a_time(stride: int) -> None:
    found = scored(stride, 4)
    assert found.losses == pytest.approx(one_at_a_time(stride), rel=TOLERANCE)
    assert len(found.losses) == len(TOKENS) - 1
    assert (found.seen[:WINDOW] == np.arange(1, WINDOW + 1)).all()
    assert found.seen[WINDOW:].min() >= WINDOW - stride + 1 or stride == WINDOW


def test_another_stride_is_another_loss() -> None:
    assert scored(1, 4).loss != pytest.approx(scored(WINDOW, 4).loss, rel=1e-3)


@pytest.mark.parametrize("length", [2, 5, WINDOW, WINDOW + 1, WINDOW + 2, 40])
@pytest.mark.parametrize("stride", STRIDES)
def test_every_token_but_the_first_is_asked_for_once(length: int, stride: int) -> None:
    found = list(windows(length, WINDOW, stride))
    assert [place for each in found for place in range(each.first, each.end + 1)] == list(range(1, length))
    assert all(each.end - each.start <= WINDOW for each in found)


def test_a_stride_beyond_the_window_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"leave out tokens.*Fix: use at most 16"):
        list(windows(40, WINDOW, WINDOW + 1))


@pytest.mark.parametrize("method", ["baseline", "oelm-core", "oelm-frame"])
def test_our_gpt_gives_the_losses_of_its_logits(method: str) -> None:
    model = bold_model(method)
    found = score_text(language_model(model, SMALL.context), TOKENS, window=12, stride=5, batch_size=4)
    expected = []
    for start, first, end in windows(len(TOKENS), 12, 5):
        logits_TV = model(torch.from_numpy(TOKENS[start:end])[None])[0].detach().log_softmax(-1)
        expected += [-float(logits_TV[place - 1 - start, TOKENS[place]]) for place in range(first, end + 1)]
    assert found.losses == pytest.approx(expected, rel=TOLERANCE)


def test_positions_and_frequencies_divide_the_text() -> None:
    found = scored(8, 4)
    for ranges in (by_position(found), by_frequency(found)):
        assert sum(each.tokens for each in ranges) == len(found.losses)
        mean = sum(each.tokens * each.loss for each in ranges) / len(found.losses)
        assert mean == pytest.approx(found.loss, rel=1e-12)
    assert [each.name for each in by_position(found)] == ["1", "2-3", "4-7", "8-15", "16-31"]
    assert by_position(found)[0] == ("1", 1, pytest.approx(found.losses[0]))
    rare = ScoredText(np.array([5, 5, 5, 5, 7]), np.array([1.0, 2.0, 3.0, 4.0, 9.0]), np.arange(1, 6))
    assert by_frequency(rare) == [("1-3", 1, 9.0), ("4-15", 4, 2.5)]
