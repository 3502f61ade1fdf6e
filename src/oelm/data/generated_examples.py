"""Generated labelled examples: one corpus for all runs, whose seeds draw weights and batches."""

import string
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from oelm.base.streams import stream_seed
from oelm.config.labelled_data import GeneratedTask
from oelm.data.labelled import Examples
from oelm.data.stories import plot_name, story
from oelm.data.story_plots import PLOTS

TEST_SET = "test"
"""Its only evaluation set."""
TRAIN_EXAMPLES = 10_000
TEST_EXAMPLES = 500
_SHORTEST, _LONGEST = 3, 10
"""Letters of a text. (Of shorter ones there are so few that all would be tested, and none trained on.)"""
_LETTERS = string.ascii_lowercase[:10]
_STORY_SEED = 1_000_003
"""Of stories that no corpus has: those of `oelm prepare` have small seeds."""
PLOT_NAMES = tuple(sorted(plot.__name__ for plot in PLOTS))
_RULES: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": sorted,
}


def generate_examples(task: GeneratedTask) -> tuple[Examples, dict[str, Examples]]:
    """Training examples and a test set; what is tested is not trained on.

    Texts of letters are drawn with repetition, so that about a tenth of those that a run holds out of the training
    examples are also trained on.
    """
    random = np.random.Generator(np.random.PCG64(stream_seed(0, "generated", task.name)))
    if task.name == "plots":
        every = range(TRAIN_EXAMPLES + TEST_EXAMPLES)
        return _openings(every[TEST_EXAMPLES:]), {TEST_SET: _openings(every[:TEST_EXAMPLES])}
    tested = _drawn(TEST_EXAMPLES, random, without=frozenset())
    trained = _drawn(TRAIN_EXAMPLES, random, without=frozenset(tested))
    return _answered(trained, task.name), {TEST_SET: _answered(tested, task.name)}


# --- letters: `d a c` -> `a c d` ---------------------------------------------------------------------------------


def _drawn(count: int, random: np.random.Generator, without: Collection[str]) -> list[str]:
    """Texts of all lengths, equally often."""
    texts: list[str] = []
    while len(texts) < count:
        drawn = random.integers(len(_LETTERS), size=random.integers(_SHORTEST, _LONGEST + 1))
        text = " ".join(_LETTERS[place] for place in drawn)
        if text not in without:
            texts.append(text)
    return texts


def _answered(texts: Sequence[str], rule: str) -> Examples:
    answers = (" ".join(_RULES[rule](text.split())) for text in texts)
    return Examples(tuple(texts), None, tuple(answers))


# --- stories: the first paragraph, and what will happen ------------------------------------------------------------


def _openings(indices: range) -> Examples:
    texts = (story(_STORY_SEED, index).split("\n\n")[0] for index in indices)
    return Examples(tuple(texts), None, tuple(plot_name(_STORY_SEED, index) for index in indices))
