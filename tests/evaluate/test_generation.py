import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from builders import LLAMA, SMALL, STYLED, bold_model, random_tokens, relative_error
from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.generation import Sampling, choose, generate, generate_all, stream
from oelm.evaluate.language_model import LanguageModel
from oelm.exports.model_export import as_transformers
from oelm.model.blind import BlindCache
from oelm.model.gpt import GPT, Cache
from oelm.model.projecting import shift_keys

GREEDY = Sampling(temperature=0)
PROMPT = [3, 1, 4, 1, 5]
TOLERANCE = 1e-9


def written(
    model: GPT, prompt: list[int], sampling: Sampling = GREEDY, tokens: int = 30, **options: bool | int
) -> list[int]:
    return list(generate(model, prompt, tokens=tokens, sampling=sampling, **options))


def in_chunks(model: GPT, tokens_BT: Tensor, sizes: tuple[int, ...]) -> Tensor:
    cache = model.new_cache(len(tokens_BT))
    logits = [model.logits(model.encode(chunk, cache)) for chunk in tokens_BT.split(sizes, dim=1)]
    assert {layer.length for layer in cache} == {tokens_BT.shape[1]}
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize(("config", "method"), STYLED)
@pytest.mark.parametrize("sizes", [(5, 1, 1, 1, 1), (1,) * 9, (4, 3, 2), (9,)])
@torch.no_grad()
def test_logits_with_a_cache_equal_those_without(config: GPTConfig, method: str, sizes: tuple[int, ...]) -> None:
    model, tokens_BT = bold_model(method, config), random_tokens(SMALL, 2, 9)
    assert relative_error(in_chunks(model, tokens_BT, sizes), model(tokens_BT)) < TOLERANCE


def damage(what: str, cache: Cache) -> None:
    """Spoil a cache of five tokens."""
    for layer in cache:
        assert layer.last_key_BH1K is not None
        match what:
            case "nothing":
                pass
            case "the last key after its shift":
                layer.last_key_BH1K = layer._k_BHCK[:, :, 4:5]
            case "no last key":
                layer.last_key_BH1K = torch.zeros_like(layer.last_key_BH1K)
            case "keys in another order":
                layer._k_BHCK[:, :, :5] = layer._k_BHCK[:, :, :5].flip(2)
            case "one token too few":
                layer.length -= 1


@pytest.mark.parametrize("config", [SMALL, LLAMA])
@pytest.mark.parametrize("method", ["baseline+shift+gain", "oelm-frame", "oelm-core"])
@torch.no_grad()
def test_a_cache_that_forgets_something_is_noticed(config: GPTConfig, method: str) -> None:
    model, tokens_BT = bold_model(method, config), random_tokens(SMALL, 2, 9)
    expected = model(tokens_BT)[:, 5:]

    def error_with(what: str) -> float:
        cache = model.new_cache(2)
        model.encode(tokens_BT[:, :5], cache)
        damage(what, cache)
        return relative_error(model.logits(model.encode(tokens_BT[:, 5:], cache)), expected)

    assert error_with("nothing") < TOLERANCE
    for what in ("the last key after its shift", "no last key", "keys in another order", "one token too few"):
        assert error_with(what) > 1e-4, what


@torch.no_grad()
def test_a_blind_cache_that_forgets_something_is_noticed() -> None:
    model, tokens_BT = bold_model("blind"), random_tokens(SMALL, 2, 9)
    expected = model(tokens_BT)[:, 5:]
    for forgotten in (None, "sum", "count"):
        cache = model.new_cache(2)
        model.encode(tokens_BT[:, :5], cache)
        for layer in cache[1:]:  # the bottom one's length also gives the positions
            assert isinstance(layer, BlindCache)
            layer.sum_B1D = None if forgotten == "sum" else layer.sum_B1D
            layer.length = 4 if forgotten == "count" else layer.length
        error = relative_error(model.logits(model.encode(tokens_BT[:, 5:], cache)), expected)
        assert error > 1e-4 if forgotten else error < TOLERANCE


@torch.no_grad()
def test_the_cache_holds_shifted_keys_and_the_last_one_as_it_was() -> None:
    model = bold_model("baseline+shift")
    attention = model.layers[0].attention
    x_BTD = torch.randn(1, 4, SMALL.width, dtype=torch.float64, generator=generator_for(0, "x"))
    cache = model.new_cache(1)[0]
    attention(x_BTD, cache)
    _, k_BTD, _ = attention.queries_keys_values(x_BTD)
    k_BHTK = attention.split_heads(k_BTD)
    assert torch.equal(cache.last_key_BH1K, k_BHTK[:, :, -1:])
    assert torch.equal(cache._k_BHCK[:, :, :4], shift_keys(k_BHTK, attention.shift_H.sigmoid()))


def check_the_cache(method: str, prompt: list[int], tokens: int, config: GPTConfig = SMALL) -> None:
    model = bold_model(method, config)
    for sampling in (GREEDY, Sampling(temperature=3.0, top_k=0, seed=5)):
        cached = written(model, prompt, sampling, tokens)
        assert cached == written(model, prompt, sampling, tokens, cached=False)
        assert len(cached) == tokens


@pytest.mark.parametrize(("config", "method"), STYLED)
def test_tokens_with_a_cache_equal_those_without(config: GPTConfig, method: str) -> None:
    """Ten tokens after a prompt of five go beyond the context of twelve: the window slides."""
    check_the_cache(method, PROMPT, 10, config)


@pytest.mark.parametrize("prompt", [[7], list(range(11)), list(range(12)), list(range(13)), list(range(25))])
def test_prompts_of_any_length(prompt: list[int]) -> None:
    check_the_cache("oelm-core", prompt, 25)


def test_greedy_is_the_likeliest_token_of_the_last_window() -> None:
    model, sequence = bold_model("oelm-core"), list(PROMPT)
    for token in written(model, PROMPT):
        window = torch.tensor([sequence[-SMALL.context :]])
        assert token == int(model(window)[0, -1].argmax())
        sequence.append(token)


def test_samples_follow_the_seed_and_nothing_else() -> None:
    model = bold_model("oelm")
    hot = Sampling(temperature=5.0, top_k=0, seed=1)
    first = written(model, PROMPT, hot)
    torch.manual_seed(123)
    assert written(model, PROMPT, hot) == first
    assert written(model, PROMPT, replace(hot, seed=2)) != first
    assert len(set(first)) > 3


def drawn(logits_V: Tensor, sampling: Sampling, draws: int) -> Counter[int]:
    random = generator_for(0, "draws")
    return Counter(choose(logits_V, sampling, random) for _ in range(draws))


def test_top_k_is_respected_and_used() -> None:
    logits_V = torch.tensor([0.0, 2.0, -1.0, 1.0, 1.5, -3.0])
    likeliest = [1, 4, 3, 0, 2, 5]
    for k in range(1, 7):
        assert set(drawn(logits_V, Sampling(temperature=3.0, top_k=k), 400)) == set(likeliest[:k])
    assert set(drawn(logits_V, Sampling(temperature=3.0, top_k=0), 400)) == set(likeliest)
    assert set(drawn(logits_V, Sampling(temperature=3.0, top_k=99), 400)) == set(likeliest)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_softmax_at_the_temperature(temperature: float) -> None:
    logits_V = torch.tensor([0.0, 1.0, -0.5, 0.3])
    counts = drawn(logits_V, Sampling(temperature=temperature, top_k=3), 4000)
    kept = (logits_V / temperature)[[0, 1, 3]].softmax(0).tolist()
    for token, probability in zip((0, 1, 3), kept, strict=True):
        error = math.sqrt(probability * (1 - probability) / 4000)
        assert counts[token] / 4000 == pytest.approx(probability, abs=4 * error)


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    logits_V = torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05]).log()
    for top_p, kept in (
        (0.4, {1}),
        (0.49, {1}),
        (0.51, {1, 3}),
        (0.79, {1, 3}),
        (0.85, {0, 1, 3}),
        (1.0, {0, 1, 2, 3, 4}),
    ):
        assert set(drawn(logits_V, Sampling(temperature=1.0, top_k=0, top_p=top_p), 400)) == kept, top_p
    both = drawn(logits_V, Sampling(temperature=1.0, top_k=3, top_p=0.8), 2000)
    assert set(both) == {1, 3}, "the probabilities are those of what top-k has left: 5/9, 3/9, 1/9"
    assert both[1] / 2000 == pytest.approx(0.5 / 0.8, abs=0.05)


def test_the_penalty_divides_what_is_likely_and_multiplies_what_is_not() -> None:
    logits_V, random = torch.tensor([2.0, 1.5, -1.0, -1.5]), generator_for(0, "draws")
    penalised = Sampling(temperature=0, repetition_penalty=2.0)
    assert choose(logits_V, penalised, random, [3]) == 0
    assert choose(logits_V, penalised, random, [0]) == 1
    assert choose(logits_V[2:], penalised, random, [0]) == 1, "-1 becomes -2"
    assert choose(logits_V, Sampling(temperature=0), random, [0]) == 0


def as_language_model(model: torch.nn.Module, end_of_text: int = -1) -> LanguageModel:
    return LanguageModel(
        name="toy", module=model, tokenizer=byte_tokenizer(), context=SMALL.context, end_of_text=end_of_text
    )


PROMPTS = [[3, 1, 4], [1, 5], [9, 2, 6], [5], [3, 5, 8], [1, 5]]
HOT = Sampling(temperature=2.0, top_k=20, top_p=0.95, repetition_penalty=1.2, seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["baseline", "oelm-core", "blind"])
def test_company_changes_nothing(method: str) -> None:
    """20 tokens go beyond the context of 12."""
    model = bold_model(method)
    seeds = [replace(HOT, seed=HOT.seed + place) for place in range(len(PROMPTS))]
    alone = [written(model, prompt, own, tokens=20) for prompt, own in zip(PROMPTS, seeds, strict=True)]
    for batch_size in (1, 2, 16):
        assert generate_all(as_language_model(model), PROMPTS, tokens=20, sampling=HOT, batch_size=batch_size) == alone
    streamed = stream(as_language_model(model), PROMPTS[2], tokens=20, sampling=seeds[2])
    assert list(streamed) == alone[2]
    assert alone[1] != alone[5], "equal prompts have seeds of their own"


def test_a_text_that_ends_leaves_the_others_alone() -> None:
    model = as_language_model(bold_model("baseline"))
    free = generate_all(model, PROMPTS, tokens=8, sampling=HOT, batch_size=3)
    end = free[0][3]
    ended = generate_all(replace(model, end_of_text=end), PROMPTS, tokens=8, sampling=HOT, batch_size=3)
    assert ended == [text[: text.index(end)] if end in text else text for text in free]
    assert ended != free


@pytest.mark.parametrize("method", ["baseline", "oelm", "oelm-core"])
def test_an_export_writes_what_its_model_writes(method: str) -> None:
    """With transformers' cache and without."""
    model = bold_model(method)
    exported = as_language_model(as_transformers(model))
    own = generate_all(as_language_model(model), PROMPTS, tokens=20, sampling=HOT, batch_size=4)
    assert generate_all(exported, PROMPTS, tokens=20, sampling=HOT, batch_size=4) == own


@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_greedy_is_transformers_own(penalty: float) -> None:
    exported, sampling = as_transformers(bold_model("oelm")), Sampling(temperature=0, repetition_penalty=penalty)
    (text,) = generate_all(as_language_model(exported), [PROMPT], tokens=7, sampling=sampling, batch_size=1)
    options = {"do_sample": False, "max_new_tokens": 7, "pad_token_id": 0, "eos_token_id": None}
    theirs = exported.generate(torch.tensor([PROMPT]), repetition_penalty=penalty, **options)
    assert theirs[0, len(PROMPT) :].tolist() == text


def test_it_stops_before_the_end_of_text() -> None:
    model = bold_model("baseline")
    free = written(model, PROMPT)
    end = free[4]
    assert written(model, PROMPT, end_of_text=end) == free[: free.index(end)]


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"prompt has no tokens.*Fix:"):
        written(bold_model("baseline"), [])
    for bad in ({"temperature": -1.0}, {"top_k": -1}):
        with pytest.raises(ConfigError, match=r"cannot be (used|negative).*Fix:"):
            Sampling(**bad)
    with pytest.raises(ConfigError, match="top-p is a probability"):
        Sampling(top_p=0.0)
    with pytest.raises(ConfigError, match="must be positive"):
        Sampling(repetition_penalty=0.0)


def test_no_gradients_are_kept() -> None:
    model = bold_model("baseline")
    for _ in generate(model, PROMPT, tokens=2, sampling=GREEDY):
        assert torch.is_grad_enabled(), "the caller's setting is left alone between tokens"
    assert all(parameter.grad is None for parameter in model.parameters())
