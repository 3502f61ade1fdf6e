from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from builders import run_config
from oelm.base.errors import OelmError
from oelm.base.files import read_json, write_json
from oelm.config.measure import Better, Bilingual, Measure
from oelm.config.record import (
    TIME_FIELDS,
    Event,
    FlopCounts,
    FreezeEvent,
    Record,
    StepEvent,
    TextBlocks,
    ValidationEvent,
    WeightCounts,
    opened,
    sealed,
)
from report.records import make_record

ROOT = Path(__file__).resolve().parents[2]
EVENTS = TypeAdapter[Any](Event)
STEP = StepEvent(
    step=10, tokens=80, loss=2.5, lr=1e-3, gradient_norm=1.0, seconds=1.0, step_seconds=0.1, tokens_per_second=800.0
)
VALIDATION = ValidationEvent(step=10, tokens=80, loss=2.5, measures={"perplexity": 12.2}, seconds=2.0)
LAST = VALIDATION.model_copy(update={"text": TextBlocks(tokens=(3, 5), losses=(7.5, 12.5))})
FREEZE = FreezeEvent(step=5, frozen=1, frozen_weights=16, thawed=("a", "b"), newly_frozen=())


@pytest.mark.parametrize("method", ["oelm", "baseline", "oelm-core+thaw=0.2..0.8"])
def test_a_record_survives_its_file(method: str, tmp_path: Any) -> None:
    record = make_record(run_config(method), 2.5)
    write_json(tmp_path / "record.json", record.model_dump(mode="json"))
    again = Record.model_validate(read_json(tmp_path / "record.json"))
    assert again == record
    assert again.method == record.config.method.name == method
    assert again.config.fingerprint == record.fingerprint


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results").rglob("record.json"))[::7], ids=lambda path: path.parent.name
)
def test_committed_records_keep_their_fingerprints(path: Path) -> None:
    """A setting that is added later must not make another run of an old one."""
    record = Record.model_validate(read_json(path))
    assert record.config.fingerprint == record.fingerprint


def test_a_sealed_record_opens_only_as_it_was_written(tmp_path: Path) -> None:
    record = sealed(make_record(run_config(), 2.5))
    (tmp_path / "record.json").write_text(record.model_dump_json(indent=2))
    values = read_json(tmp_path / "record.json")
    assert opened(values, "here") == record
    assert opened({**values, "digest": None}, "here").loss == 2.5
    for wrong in ({**values, "sessions": 2}, {**values, "digest": "0" * 64}, {**values, "bytes_per_token": 3.25}):
        with pytest.raises(OelmError, match="here is damaged"):
            opened(wrong, "here")
    with pytest.raises(OelmError, match="here"):
        opened([], "here")


def test_only_a_reported_record_may_lack_parts() -> None:
    values = make_record(run_config(), 2.5).model_dump(mode="json")
    remark = {"english": "them", "chinese": "他们"}
    for missing in (
        {"audit": None},
        {"flops": None},
        {"environment": None},
        {"result": {**values["result"], "loss": None}},
    ):
        with pytest.raises(ValidationError, match="a measured run has"):
            Record.model_validate({**values, **missing})
        reported = Record.model_validate({**values, **missing, "reported": {"study": remark, "id": "X"}})
        assert reported.source == "reported"
    with pytest.raises(OelmError, match="no loss was reported"):
        _ = reported.loss
    best = {**values["result"], "checkpoint": "best"}
    with pytest.raises(ValidationError, match="that of its last step"):
        Record.model_validate({**values, "result": best})


def test_a_record_of_another_format_is_refused() -> None:
    values = make_record(run_config(), 2.5).model_dump(mode="json")
    for wrong in ({"format": 2}, {"surprise": 1}, {"result": {**values["result"], "loss": float("nan")}}):
        with pytest.raises(ValidationError):
            Record.model_validate({**values, **wrong})


@pytest.mark.parametrize("event", [STEP, VALIDATION, LAST, FREEZE])
def test_events_are_told_apart_by_their_own_word(event: StepEvent | ValidationEvent | FreezeEvent) -> None:
    again = EVENTS.validate_json(event.model_dump_json())
    assert again == event
    assert type(again) is type(event)


def test_what_has_no_blocks_of_text_does_not_mention_them() -> None:
    assert '"text"' not in VALIDATION.model_dump_json()
    assert "text" not in make_record(run_config(), 2.5).model_dump(mode="json")["result"]
    assert LAST.text is not None
    assert LAST.text.loss == 2.5
    for tokens, losses in (((3, 5), (7.5,)), ((8,), (20.0,)), ((0, 8), (0.0, 20.0))):
        with pytest.raises(ValidationError):
            TextBlocks(tokens=tokens, losses=losses)


def test_time_fields_are_fields() -> None:
    assert StepEvent.model_fields.keys() >= TIME_FIELDS
    assert not TIME_FIELDS & {"loss", "lr", "step", "tokens", "gradient_norm"}


def test_sums() -> None:
    assert WeightCounts(trained=5, frozen=3, absent=2, later=1, roles=()).stored == 8
    flops = FlopCounts(forward_per_token=2.0, backward_per_token=3.0, baseline_per_token=6.25, run=10.0)
    assert flops.saved_share == pytest.approx(0.2)


def test_a_record_carries_its_measures_and_an_older_one_has_those_of_its_task() -> None:
    old = make_record(run_config(), 2.5)
    assert old.measures == ()
    assert [measure.name for measure in old.declared] == ["perplexity", "bits_per_byte", "loss"]
    toy = Measure(name="toy", title=Bilingual(english="toy", chinese="玩具"), better=Better.HIGHER)
    new = Record.model_validate(old.model_copy(update={"measures": (toy,)}).model_dump(mode="json"))
    assert new.declared == (toy,)
