import dataclasses
import re
import string

import pytest

from oelm.report.page.words import CHINESE, ENGLISH, WORDS
from oelm.report.texts import Language

SAME_IN_BOTH = {"pairs"}  # n is n
HAN = re.compile(r"[\u4e00-\u9fff]")


def strings(value: object) -> list[str]:
    """All strings that a reader sees in a field; the first of a choice is the script's name for it."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [word for _, word in value]
    return []


def test_every_language_has_words() -> None:
    assert set(WORDS) == set(Language)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ENGLISH)])
def test_every_word_is_in_both_languages(field: str) -> None:
    english, chinese = strings(getattr(ENGLISH, field)), strings(getattr(CHINESE, field))
    assert len(english) == len(chinese)
    if field in SAME_IN_BOTH or field.startswith("other_"):
        return
    for one, other in zip(english, chinese, strict=True):
        assert one
        assert not HAN.search(one)
        assert HAN.search(other) or not re.search("[a-z]", other), other
        assert placeholders(one) == placeholders(other)


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_choices_have_the_names_that_the_script_knows() -> None:
    for field in ("measure_choices", "against_choices", "split_choices", "span_choices"):
        names = [[name for name, _ in getattr(words, field)] for words in (ENGLISH, CHINESE)]
        assert names[0] == names[1]
