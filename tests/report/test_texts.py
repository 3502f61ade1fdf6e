"""Both languages are complete, different, and have the same blanks to fill."""

import string
from collections.abc import Iterator, Mapping
from dataclasses import fields

import pytest

from oelm.report.confounds import ConfoundKind
from oelm.report.statistics import Verdict
from oelm.report.texts import CHINESE, ENGLISH, TEXTS, Language, Texts
from oelm.report.views import AblationChange

SAME_IN_BOTH = {"add_run", "time_ratio"}
"""Commands and marks: nothing to translate."""


def entries(texts: Texts) -> Iterator[tuple[str, str]]:
    for field in fields(texts):
        value = getattr(texts, field.name)
        if isinstance(value, Mapping):
            yield from ((f"{field.name}[{key}]", text) for key, text in value.items())
        elif isinstance(value, tuple):
            yield from ((f"{field.name}[{place}]", text) for place, text in enumerate(value))
        else:
            yield field.name, value


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_language_has_every_text() -> None:
    assert set(TEXTS) == set(Language)
    names = [name for name, _ in entries(ENGLISH)]
    assert [name for name, _ in entries(CHINESE)] == names
    assert len(names) > 80
    assert all(text.strip() for texts in TEXTS.values() for _, text in entries(texts))


@pytest.mark.parametrize(
    ("name", "english", "chinese"),
    [(*one, other[1]) for one, other in zip(entries(ENGLISH), entries(CHINESE), strict=True)],
)
def test_both_differ_and_have_the_same_blanks(name: str, english: str, chinese: str) -> None:
    assert blanks(english) == blanks(chinese)
    if name not in SAME_IN_BOTH:
        assert english != chinese
        assert any("\u4e00" <= character <= "\u9fff" or character in "，：（" for character in chinese)
    assert not any("\u4e00" <= character <= "\u9fff" for character in english)


@pytest.mark.parametrize("texts", TEXTS.values(), ids=str)
def test_every_verdict_confound_and_step_has_words(texts: Texts) -> None:
    assert set(texts.verdicts) == set(texts.verdict_names) == set(texts.accuracy_verdicts) == set(Verdict)
    assert set(texts.confounds) == set(ConfoundKind)
    assert set(texts.ablation_changes) == set(AblationChange)
