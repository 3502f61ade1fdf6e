"""A new suite from end to end. It costs four files: its member of `Suite`, its function with its measure, its row in
`SUITES`, and a test. Here the row of another suite is borrowed; nothing else knows of it, and reports judge it."""

from collections.abc import Iterator

import pytest

from builders import SMALL, bold_model
from oelm.config.evaluated import EvaluationFile, EvaluationRequest, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, CompareScale, Measure
from oelm.config.record import Record
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate import suites
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.language_model import LanguageModel
from oelm.report.groups import build_report
from oelm.report.write_markdown import as_markdown
from report.records import BASELINE_LOSSES, make_config, make_record

EVEN_CHOICES = Measure(
    name="even_choices",
    title=Bilingual(english="even choices", chinese="偶数选择"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-10.0,
    read_from="evaluation",
)


def even_choices(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """How often the likeliest token of the first `sequences` is an even one."""
    share = sum((model.end_of_text + place) % 3 > 0 for place in range(request.sequences)) / request.sequences
    figures = evaluation(model, "numbers", {EVEN_CHOICES.name: share})
    yield Answer(SuiteResult(suite=Suite.PROBES, measures=(EVEN_CHOICES,), evaluation=figures, count=request.sequences))


def answered(record: Record) -> Record:
    """The record of a run with what its model answered."""
    model = LanguageModel(
        name="toy",
        module=bold_model("baseline"),
        tokenizer=byte_tokenizer(),
        context=SMALL.context,
        end_of_text=record.config.seed,  # so that answers differ by seed
        step=record.config.train.steps,
    )
    answers = suites.evaluate(model, EvaluationRequest(suites=(Suite.PROBES,), sequences=7))
    file = EvaluationFile(
        model="toy",
        digest="0",
        fingerprint=record.fingerprint,
        results=tuple(answer.result for answer in answers),
    )
    return EvaluationFile.model_validate_json(file.model_dump_json()).in_record(record)


def test_it_is_judged_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "SUITES", {**suites.SUITES, Suite.PROBES: even_choices})
    records = [
        answered(make_record(make_config(method, seed), loss))
        for method in ("baseline", "oelm")
        for seed, loss in enumerate(BASELINE_LOSSES)
    ]
    report = build_report(records)
    comparison = report.groups[0].comparisons[-1]
    assert (comparison.measure, comparison.on) == (EVEN_CHOICES, "numbers")
    assert comparison.findings[1].estimate is not None
    assert comparison.findings[1].estimate.value == pytest.approx(0)
    assert "even choices" in as_markdown(report, whole=True)
