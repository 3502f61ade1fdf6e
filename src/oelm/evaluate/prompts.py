"""Beginnings of stories that no model was trained on, and whom they are about."""

from typing import NamedTuple

from oelm.data.stories import story
from oelm.data.story_words import Dice

_SEED = 1_000_003
"""Of no corpus that `oelm prepare` makes by default."""


class Prompt(NamedTuple):
    """A beginning, and the name that it introduces."""

    text: str
    name: str


def story_prompts(count: int) -> list[Prompt]:
    """The first sentence of so many of the built-in stories; the hero is the first that a story draws."""
    return [_prompt(index) for index in range(count)]


def _prompt(index: int) -> Prompt:
    text, name = story(_SEED, index), Dice(_SEED, index).person().name
    return Prompt(text[: text.index(". ") + 1], name)
