"""What models were asked afterwards, on the page."""

import pytest

from oelm.config.evaluated import EvaluationFile, PairedDifference, Part, Sample, Suite, SuiteResult
from oelm.config.record import Evaluation, Record
from oelm.evaluate.ask_attention import ATTENTION
from oelm.evaluate.ask_generation import GENERATION
from oelm.report.compose import compose
from oelm.report.content import Section
from oelm.report.groups import build_report
from oelm.report.texts import Language
from oelm.report.write_html import as_html
from oelm.report.write_json import as_json
from oelm.report.write_markdown import as_markdown
from report.records import BASELINE_LOSSES, make_arm, shifted

RECORDS = [*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", shifted((0.01, 0.02, 0.03)))]


def answers(record: Record) -> EvaluationFile:
    """A text, four heads of two layers, and a difference to the first model."""
    row = Evaluation(name="stories", checkpoint="last", step=400, measures={}, predictions="", labels="")
    heads = [(layer, head) for layer in range(2) for head in range(2)]
    parts = tuple(
        Part(
            by="by layer and head",
            name=f"{layer}.{head}",
            count=8,
            measures={measure.name: (2 * layer + head) / 4 for measure in ATTENTION},
        )
        for layer, head in heads
    )
    texts = tuple(Sample(prompt=f"Beginning {n}", text=f"of {record.method} <b>{n}</b>") for n in range(3))
    return EvaluationFile(
        model="runs/a",
        digest="d",
        fingerprint=record.fingerprint,
        results=(
            SuiteResult(suite=Suite.GENERATION, measures=GENERATION, evaluation=row, count=3, samples=texts),
            SuiteResult(suite=Suite.ATTENTION, measures=ATTENTION, evaluation=row, count=4, parts=parts),
        ),
        paired=(
            PairedDifference(
                suite=Suite.LIKELIHOOD,
                on="toy",
                against="runs/b",
                measure="loss",
                difference=0.0123,
                lower=0.01,
                upper=0.02,
            ),
        ),
    )


@pytest.fixture(scope="module")
def sections() -> dict[str, Section]:
    report = build_report(RECORDS, answers={record.fingerprint: answers(record) for record in RECORDS})
    return {section.anchor: section for section in compose(report, Language.ENGLISH, "").experiments[0].answered}


def test_texts_of_all_arms_stand_side_by_side(sections: dict[str, Section]) -> None:
    first = sections["samples"].texts[0]
    assert first.prompt == "Beginning 0"
    assert [(arm.text, text) for arm, text in first.texts] == [
        ("baseline", "of baseline <b>0</b>"),
        ("oelm", "of oelm <b>0</b>"),
    ]


def test_every_head_has_its_place(sections: dict[str, Section]) -> None:
    maps = sections["heads"].maps
    assert [each.title for each in maps[:3]] == [
        "entropy of attention",
        "entropy of attention",
        "look at the previous token",
    ]
    assert maps[0].rows == (((0.0, "0"), (0.25, "25")), ((0.5, "50"), (0.75, "75")))


def test_differences_over_the_text_stand_beside_those_over_seeds(sections: dict[str, Section]) -> None:
    (table,) = sections["text"].tables
    assert len(table.rows) == 6
    assert [cell.plain for cell in table.rows[-1]] == [
        "oelm", "2", "toy", "loss", "runs/b", "+0.0123", "+0.0100 – +0.0200",
    ]  # fmt: skip


def test_they_are_written_in_every_format_and_escaped() -> None:
    report = build_report(RECORDS, answers={record.fingerprint: answers(record) for record in RECORDS})
    page = as_html(report)
    assert "<b>" not in page
    assert page.count("of oelm &lt;b&gt;0") == 2
    assert "of oelm" in as_markdown(report, whole=True)
    assert '"prompt": "Beginning 2"' in as_json(report)


def test_where_nothing_was_asked_nothing_is_shown() -> None:
    assert compose(build_report(RECORDS), Language.ENGLISH, "").experiments[0].answered == ()
