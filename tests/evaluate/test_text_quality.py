"""What is counted of generated texts, and the suite that counts it."""

import math

import pytest

from builders import bold_model
from oelm.config.evaluated import EvaluationRequest, Suite, SuiteResult
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.ask_generation import judged_perplexity
from oelm.evaluate.choices import score_readings
from oelm.evaluate.items import Reading
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.prompts import story_prompts
from oelm.evaluate.suites import evaluate
from oelm.evaluate.text_quality import distinct, repetition

BYTES = GPTConfig(layers=1, width=16, heads=2, ffn_width=16, context=64, vocabulary=257)


def language_model(seed: int = 0) -> LanguageModel:
    module = bold_model("baseline", BYTES, seed)
    return LanguageModel(name="toy", module=module, tokenizer=byte_tokenizer(), context=64, end_of_text=256)


def test_distinct() -> None:
    assert distinct([[1, 2, 3], [1, 2, 4]], 1) == 4 / 6
    assert distinct([[1, 2, 3], [1, 2, 4]], 2) == 3 / 4
    assert distinct([[1, 2, 3]], 3) == 1
    assert distinct([[1]], 2) == 0


def test_repetition() -> None:
    assert repetition([1, 2, 3, 4, 5, 6]) == 0
    assert repetition([1, 2, 3, 4, 1, 2, 3, 4]) == pytest.approx(1 / 5)
    assert repetition([7] * 50) == pytest.approx(46 / 47)
    assert repetition([1, 2]) == 0


def test_prompts_name_their_character() -> None:
    prompts = story_prompts(50)
    assert all(prompt.name in prompt.text for prompt in prompts)
    assert all(prompt.text.endswith(".") and prompt.text.count(". ") == 0 for prompt in prompts)
    assert len({prompt.name for prompt in prompts}) > 10
    assert prompts[:5] == story_prompts(5)


def test_the_judge_weighs_tokens_alike() -> None:
    judge, readings = language_model(1), [Reading("a", " cat"), Reading("the dog", " sees a house")]
    scored = score_readings(judge, readings, 8)
    assert judged_perplexity(judge, readings, 8) == pytest.approx(math.exp(-scored.sums.sum() / 17))


def result(judge: LanguageModel | None = None, **request: object) -> SuiteResult:
    asked = EvaluationRequest.model_validate(
        {"suites": (Suite.GENERATION,), "sequences": 6, "tokens": 12, "batch_size": 4, **request}
    )
    (answer,) = evaluate(language_model(), asked, judge)
    return answer.result


def test_the_suite() -> None:
    found = result()
    assert found.count == 6
    assert set(found.evaluation.measures) == {"character_kept", "distinct_1", "distinct_2", "distinct_3", "repetition"}
    assert found.evaluation.measures["character_kept"] == 0
    assert found.intervals["character_kept"][1] > 0.1
    assert found.evaluation.labels == "1 1 1 1 1 1"
    assert len(found.samples) == 6
    assert result() == found
    assert result(seed=1).samples != found.samples
    judged = result(judge=language_model(1))
    assert judged.evaluation.measures["judged_perplexity"] > 1
    assert judged.samples == found.samples
    greedy = result(temperature=0.0, tokens=40).evaluation.measures
    assert greedy["distinct_3"] <= found.evaluation.measures["distinct_3"]
