"""Generated labelled text: every answer follows from its text, and no tested text is trained on."""

from collections.abc import Callable

import pytest

from oelm.config.labelled_data import GeneratedTask
from oelm.data.generated_examples import ENDINGS, generate_examples
from oelm.data.stories import story

RULES: dict[str, Callable[[list[str]], list[str]]] = {
    "copy": list,
    "reverse": lambda letters: list(reversed(letters)),
    "sort": sorted,
}


@pytest.mark.parametrize("name", RULES)
def test_letters_follow_their_rule(name: str) -> None:
    trained, sets = generate_examples(GeneratedTask(name=name))
    assert (len(trained), len(sets["test"])) == (10_000, 500)
    for examples in (trained, sets["test"]):
        assert all(
            RULES[name](text.split()) == label.split()
            for text, label in zip(examples.texts, examples.labels, strict=True)
        )
        assert {len(text.split()) for text in examples.texts} == set(range(3, 11))
    assert not set(trained.texts) & set(sets["test"].texts)
    assert generate_examples(GeneratedTask(name=name))[0].digest == trained.digest


def test_endings_are_the_storys_own_or_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oelm.data.generated_examples.TRAIN_EXAMPLES", 60)  # stories take their time
    monkeypatch.setattr("oelm.data.generated_examples._TEST_EXAMPLES", 20)
    trained, sets = generate_examples(GeneratedTask(name="endings"))
    endings = {parts[0]: parts[-1] for parts in (story(1_000_003, index).split("\n\n") for index in range(80))}
    assert trained.pairs is not None
    for text, ending, label in zip(trained.texts, trained.pairs, trained.labels, strict=True):
        assert ENDINGS[int(endings[text] == ending)] == label
        assert ending in endings.values()
    assert 20 < trained.labels.count("own") < 40
    assert not set(trained.texts) & set(sets["test"].texts)
