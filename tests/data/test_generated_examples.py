"""Generated labelled text: every answer follows from its text, and no tested text is trained on."""

from collections.abc import Callable

import pytest

from oelm.config.labelled_data import GeneratedTask
from oelm.data.generated_examples import PLOT_NAMES, generate_examples
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


def test_plots_are_those_of_the_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oelm.data.generated_examples.TRAIN_EXAMPLES", 100)  # stories take their time
    monkeypatch.setattr("oelm.data.generated_examples.TEST_EXAMPLES", 20)
    trained, sets = generate_examples(GeneratedTask(name="plots"))
    whole = {told.split("\n\n")[0]: told for told in (story(1_000_003, index) for index in range(120))}
    assert all(text in whole for text in (*trained.texts, *sets["test"].texts))
    assert not set(trained.texts) & set(sets["test"].texts)
    assert set(trained.labels) == set(PLOT_NAMES)
    planted = [whole[text] for text, plot in zip(trained.texts, trained.labels, strict=True) if plot == "planted"]
    assert all("dug three rows in the garden" in told for told in planted)
    assert sum("dug three rows in the garden" in told for told in whole.values()) - len(planted) <= 20
