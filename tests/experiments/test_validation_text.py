"""Runs keep the losses of their last validation by blocks of the text: to the same blocks, in every run and resumed."""

import json
import shutil
from pathlib import Path

import pytest

from oelm.base.errors import CheckpointError
from oelm.config.record import Record, ValidationEvent
from oelm.config.run import RunConfig
from oelm.report.groups import report_runs
from oelm.report.record_files import load_records
from oelm.report.write_markdown import as_markdown
from oelm.train.run_record import read_events
from train.toys import tiny_config, trained

RUNS = [(method, seed) for method in ("baseline", "oelm") for seed in (0, 1)]


def config_of(method: str = "oelm", seed: int = 0, **changes: object) -> RunConfig:
    """A few steps; the validation text has some twenty documents."""
    settings = {"steps": 4, "save_every": 2, "validate_every": 2, "validation_sequences": 400, **changes}
    return tiny_config(method, seed=seed, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    for method, seed in RUNS:
        trained(config_of(method, seed), folder / f"{method}-{seed}")
    return folder


@pytest.fixture(scope="module")
def records(study: Path) -> list[Record]:
    return list(load_records([study]))


def test_blocks_add_up_to_the_loss_and_are_the_same_in_every_run(records: list[Record]) -> None:
    texts = [record.result.text for record in records]
    assert len(texts) == len(RUNS)
    for record, text in zip(records, texts, strict=True):
        assert text is not None
        assert text.loss == pytest.approx(record.loss, rel=1e-9)
    assert len({text.tokens for text in texts if text}) == 1
    assert len({text.losses for text in texts if text}) == len(RUNS)


def test_only_the_last_validation_is_kept_by_blocks(study: Path) -> None:
    events = [event for event in read_events(study / "oelm-0" / "events.jsonl") if isinstance(event, ValidationEvent)]
    assert [event.text is not None for event in events] == [False, True]


@pytest.mark.parametrize("step", [2, 4])
def test_a_resumed_run_has_the_same_blocks(step: int, study: Path, records: list[Record], tmp_path: Path) -> None:
    """Killed at step 2, or after its last step and before its record."""
    folder = shutil.copytree(study / "oelm-0", tmp_path / "run")
    (folder / "record.json").unlink()
    for path in (folder / "checkpoint").glob("step-*"):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    again = trained(config_of(), folder, resume=True)
    (first,) = (record for record in records if record.method == "oelm" and record.config.seed == 0)
    assert again.result == first.result


def test_a_half_has_the_blocks_of_its_own_documents(records: list[Record], tmp_path: Path) -> None:
    config = config_of()
    train = config.train.model_copy(update={"validation_half": "second"})
    record = trained(config.model_copy(update={"train": train}), tmp_path / "run")
    text, whole = record.result.text, records[0].result.text
    assert text is not None
    assert whole is not None
    assert text.loss == pytest.approx(record.loss, rel=1e-9)
    assert 0.4 < sum(text.tokens) / sum(whole.tokens) < 0.6
    assert set(text.tokens[:-1]) <= set(whole.tokens), "each block is one document here"


def test_the_report_of_these_runs_says_what_another_text_would_change(study: Path) -> None:
    written = as_markdown(report_runs([study]))
    assert "Another validation text of this kind would move the ratio by ±" in written
    assert "blocks of whole documents, with these seeds)." in written


def test_blocks_that_contradict_the_loss_are_refused_with_name_and_reason(study: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(study, tmp_path / "study")
    file = folder / "oelm-1" / "record.json"
    values = json.loads(file.read_text())
    values["result"]["text"]["losses"][3] += 0.01
    file.write_text(json.dumps({**values, "digest": None}))
    with pytest.raises(CheckpointError, match=r"oelm-1/record.json contradicts itself: its loss .* its blocks of text"):
        load_records([folder])
