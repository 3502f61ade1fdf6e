"""Both languages are complete, different, and have the same blanks to fill; every id that is used exists."""

import re
import string
from pathlib import Path

import pytest

from oelm.config.measure import BY_TASK, CompareScale
from oelm.config.record import LayerGeometry
from oelm.report.confounds import ConfoundKind
from oelm.report.texts import TEXTS, Language, Texts
from oelm.report.verdicts import Verdict
from oelm.report.views import AblationChange

HAN = re.compile(r"[\u4e00-\u9fff]")
SAME_IN_BOTH = {"pairs", "doing.query", "doing.key", "draw.softmax"}
"""n is n, and Q is Q."""
ROOM = Path(__file__).resolve().parents[2] / "src/oelm/report"


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"other_language"}))
def test_both_differ_and_have_the_same_blanks(name: str) -> None:
    english, chinese = TEXTS[name]
    assert blanks(english) == blanks(chinese)
    assert english.strip()
    assert not HAN.search(english)
    if name not in SAME_IN_BOTH:
        assert english != chinese
        assert HAN.search(chinese) or any(character in "，。：（；" for character in chinese)


@pytest.mark.parametrize("language", Language)
def test_every_verdict_confound_step_and_scale_has_words(language: Language) -> None:
    say = Texts(language)
    wanted = [
        *(f"verdict.{verdict}" for verdict in Verdict),
        *(f"confound.{kind}" for kind in ConfoundKind),
        *(f"ablation.{change}" for change in AblationChange),
        *(
            f"{start}.{scale}"
            for scale in CompareScale
            for start in ("finding", "estimate", "measure_estimate", "limit", "title", "note")
        ),
        *(f"judged.{kind}.{verdict}" for kind in ("margin", "share") for verdict in list(Verdict)[1:4]),
    ]
    assert all(say(name) for name in wanted)
    assert all(say.name(measure) for measures in BY_TASK.values() for measure in measures)


def test_every_text_is_used_and_every_text_that_is_used_exists() -> None:
    source = "\n".join(
        file.read_text(encoding="utf-8") for file in [*ROOM.glob("*.py"), *ROOM.glob("templates/*.html")]
    )
    used = set(re.findall(r"""say\(\s*["']([^"'{]+)["']""", source))
    assert used <= set(TEXTS)
    source = source.split("TEXTS: dict")[0] + source.split("TEXTS: dict")[1].split("\n}\n", 1)[1]
    quoted = set(re.findall(r"""["']([a-z_.]+)["']""", source))
    starts = tuple(set(re.findall(r"""f["']([a-z_]+\.)\{""", source)))
    quoted |= set(LayerGeometry.model_fields)  # headings of the view of geometry
    assert [name for name in TEXTS if name not in quoted and not name.startswith(starts)] == []
