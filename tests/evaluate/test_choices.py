"""Scores of endings against the plain sum of log-probabilities; ties, groups, forms and refusals."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from builders import bold_model
from oelm.base.errors import DataError
from oelm.config.evaluated import EvaluationRequest, Suite, SuiteResult
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.choices import TIE, chosen, score_readings
from oelm.evaluate.items import Item, Reading, read_items
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import compare_answers, evaluate

END = 256
CONTEXT = 24
BYTES = GPTConfig(layers=2, width=16, heads=2, ffn_width=32, context=CONTEXT, vocabulary=257)
PAIRS = [
    {"good": "cats run", "bad": "cats runs", "uid": "agreement", "field": "syntax"},
    {"good": "a cat runs", "bad": "a cat run", "uid": "agreement", "field": "syntax"},
    {"good": "no one", "bad": "no two", "uid": "words", "field": "meaning"},
]
CHOICES = [{"query": "One and one:", "choices": ["two", "three and", "x"], "gold": 0}]
OPTIONS = [{"context_options": ["The cat saw the dog because the cat", "The dog"], "continuation": "ran.", "gold": 1}]
WORDS = [{"text": "a cat saw a dog"}, {"context": "a cat saw a", "continuation": "dog"}]


def language_model(seed: int = 0) -> LanguageModel:
    module = bold_model("baseline", BYTES, seed)
    return LanguageModel(
        name="toy", module=module, tokenizer=byte_tokenizer(), context=CONTEXT, end_of_text=END, step=7
    )


def log_likelihood(model: LanguageModel, context: str, ending: str) -> list[float]:
    """Token by token, each from all that is before it."""
    tokens, first = [END, *context.encode(), *ending.encode()], 1 + len(context.encode())
    with torch.no_grad():
        return [
            float(model.module(torch.tensor([tokens[:place]]))[0, -1].log_softmax(0)[tokens[place]])
            for place in range(first, len(tokens))
        ]


def written(folder: Path, lines: list[dict[str, object]], name: str = "items.jsonl") -> Path:
    path, text = folder / name, "\n".join(map(json.dumps, lines)) + "\n"
    path.write_bytes(lzma.compress(text.encode()) if name.endswith(".xz") else text.encode())
    return path


def asked(path: Path, seed: int = 0, batch_size: int = 8) -> SuiteResult:
    request = EvaluationRequest(suites=(Suite.CHOICES,), items=(str(path),), batch_size=batch_size)
    (answer,) = evaluate(language_model(seed), request)
    return answer.result


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_scores_are_sums_of_log_probabilities(batch_size: int) -> None:
    model = language_model()
    readings = [Reading("", "cats run"), Reading("A dog", " barks"), Reading("A", " b"), Reading("The cat sat", " on")]
    scored = score_readings(model, readings, batch_size)
    expected = [log_likelihood(model, *reading) for reading in readings]
    assert scored.sums == pytest.approx([sum(parts) for parts in expected], rel=1e-9)
    assert scored.counts.tolist() == [len(parts) for parts in expected]
    shifted = [
        sum(log_likelihood(model, reading.context + reading.ending[:1], reading.ending[1:])) for reading in readings
    ]
    assert not np.allclose(scored.sums, shifted, rtol=1e-3), "a score that misses the first token is another one"


def test_a_long_text_loses_its_beginning() -> None:
    model, long = language_model(), "once upon a time there was a "
    scored = score_readings(model, [Reading(long, "cat")], 8)
    assert scored.cut == 1
    tokens = [*long.encode(), *b"cat"][-CONTEXT - 1 :]
    logits = model.logits(torch.tensor([tokens[:-1]]))[0].log_softmax(-1)
    expected = sum(float(logits[place - 1, tokens[place]]) for place in range(CONTEXT - 2, CONTEXT + 1))
    assert scored.sums[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("scores", "picked"),
    [([1.0, 2.0], 1), ([2.0, 1.0, 0.0], 0), ([2.0, 2.0], TIE), ([0.0, 2.0, 2.0], TIE), ([np.nan, 1.0], TIE)],
)
def test_a_tie_is_no_choice(scores: list[float], picked: int) -> None:
    item = Item(tuple(Reading("", "x") for _ in scores), 0, {})
    assert chosen([item], np.array(scores)).tolist() == [picked]


def test_a_pair_of_equals_is_wrong(tmp_path: Path) -> None:
    result = asked(written(tmp_path, [{"good": "same", "bad": "same"}]))
    assert result.evaluation.measures["choice_accuracy"] == 0
    assert result.evaluation.predictions == "-1"
    assert result.settings["ties"] == 1


@pytest.mark.parametrize("name", ["blimp.jsonl", "blimp.jsonl.xz"])
def test_pairs_are_scored_by_group(tmp_path: Path, name: str) -> None:
    result = asked(written(tmp_path, PAIRS, name))
    model = language_model()
    sums = [[sum(log_likelihood(model, "", pair[side])) for side in ("good", "bad")] for pair in PAIRS]  # type: ignore[arg-type]
    lengths = [[len(str(pair[side])) for side in ("good", "bad")] for pair in PAIRS]
    right = [good > bad for good, bad in sums]
    by_token = [(good / long) > (bad / short) for (good, bad), (long, short) in zip(sums, lengths, strict=True)]
    measures = result.evaluation.measures
    assert measures["choice_accuracy"] == pytest.approx(sum(right) / 3)
    assert measures["choice_accuracy_per_token"] == pytest.approx(sum(by_token) / 3)
    assert result.evaluation.name == "blimp"
    assert result.evaluation.step == 7
    outcomes = np.equal(result.evaluation.predictions.split(), result.evaluation.labels.split())
    assert outcomes.tolist() == right
    parts = {(part.by, part.name): part for part in result.parts}
    assert parts["by uid", "agreement"].count == 2
    assert parts["by uid", "agreement"].measures["choice_accuracy"] == pytest.approx(sum(right[:2]) / 2)
    assert parts["by field", "meaning"].measures["choice_accuracy"] == right[2]
    lower, upper = result.intervals["choice_accuracy"]
    assert lower < measures["choice_accuracy"] < upper


def test_forms(tmp_path: Path) -> None:
    (item,) = read_items(written(tmp_path, CHOICES))
    assert item.readings[1] == ("One and one:", " three and")
    (item,) = read_items(written(tmp_path, OPTIONS))
    assert [reading.ending for reading in item.readings] == [" ran.", " ran."]
    assert item.gold == 1
    first, second = read_items(written(tmp_path, WORDS))
    assert first.readings == second.readings == (("a cat saw a", " dog"),)
    (item,) = read_items(written(tmp_path, [{"query": "Q:\n", "choices": ["a", " b"], "gold": 1}]))
    assert item.readings == (("Q:", "\na"), ("Q:", "\n b"))


def test_last_words(tmp_path: Path) -> None:
    result, model = asked(written(tmp_path, WORDS)), language_model()
    loss = -sum(log_likelihood(model, "a cat saw a", " dog"))
    assert result.evaluation.measures["last_word_perplexity"] == pytest.approx(np.exp(loss), rel=1e-9)
    tokens = [END, *b"a cat saw a dog"]
    guessed = model.logits(torch.tensor([tokens[:-1]]))[0].argmax(-1).tolist()
    assert result.evaluation.measures["last_word_accuracy"] == float(guessed[-4:] == tokens[-4:])


def test_two_models_are_paired_by_item(tmp_path: Path) -> None:
    request = EvaluationRequest(suites=(Suite.CHOICES,), items=(str(written(tmp_path, PAIRS)),))
    one, other = (evaluate(language_model(seed), request) for seed in (0, 3))
    (pair,) = compare_answers(one, other, "other")
    values = [answer[0].result.evaluation.measures["choice_accuracy"] for answer in (one, other)]
    assert pair.difference == pytest.approx(values[0] - values[1])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"sentence": "x"}, "none of the known forms"),
        ({"query": "x", "choices": ["a", "b"], "gold": 2}, "gold is 2, of 2 choices"),
        ({"query": "x", "choices": ["a", ""], "gold": 0}, "empty ending"),
        ({"good": 1, "bad": "b"}, "are text"),
    ],
)
def test_bad_lines_are_refused_by_number(tmp_path: Path, line: dict[str, object], complaint: str) -> None:
    with pytest.raises(DataError, match=rf"line 2.*{complaint}.*Fix:"):
        read_items(written(tmp_path, [PAIRS[0], line]))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="both choices and last words"):
        read_items(written(tmp_path, [PAIRS[0], WORDS[0]]))
    with pytest.raises(DataError, match="has no items"):
        read_items(written(tmp_path, []))
    with pytest.raises(DataError, match="there is no file"):
        read_items(tmp_path / "nothing.jsonl")
    (tmp_path / "x.jsonl").write_text("{")
    with pytest.raises(DataError, match="line 1 is not JSON"):
        read_items(tmp_path / "x.jsonl")
