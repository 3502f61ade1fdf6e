"""A run whose files were damaged goes on from what is good, to the same bytes, or is refused before any work."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from oelm.base.errors import CheckpointError, DataError, OelmError
from oelm.config.run import RunConfig
from oelm.experiments.assemble import run
from oelm.experiments.trained_run import load_run
from oelm.train.folder import RunFolder
from train.toys import last_weights, timeless_events, timeless_record, tiny_config, tokens, trained, without_digests

SETTINGS = {"steps": 60, "save_every": 20, "validate_every": 10}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    trained(tiny_config("oelm+every=3", **SETTINGS), folder)
    return folder


@pytest.fixture
def stopped(tmp_path: Path, straight: Path) -> Path:
    """As SIGKILL leaves it before the record: checkpoints of steps 40 and 60."""
    shutil.copytree(straight, tmp_path / "run")
    (tmp_path / "run" / "record.json").unlink()
    return tmp_path / "run"


def resumed(folder: Path, config: RunConfig | None = None) -> str:
    """What the console says of it."""
    console = Console(file=io.StringIO(), width=500)
    run(config or tiny_config("oelm+every=3", **SETTINGS), folder, resume=True, console=console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def assert_same(folder: Path, straight: Path) -> None:
    assert last_weights(folder) == last_weights(straight)
    assert timeless_events(folder) == timeless_events(straight)
    assert timeless_record(folder) == timeless_record(straight)
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == sorted(
        path.name for path in (straight / "checkpoint").iterdir()
    )


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_what_a_killed_run_had_no_time_to_remove_goes(stopped: Path, straight: Path) -> None:
    """Killed between its last save and the removal of older checkpoints, there is no later save to do it."""
    shutil.copytree(stopped / "checkpoint" / "step-00000040", stopped / "checkpoint" / "step-00000020")
    resumed(stopped)
    assert_same(stopped, straight)


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors", "training.json"])
def test_a_damaged_checkpoint_is_passed_over_and_said(stopped: Path, straight: Path, file: str) -> None:
    flip(stopped / "checkpoint" / "step-00000060" / file)
    said = resumed(stopped)
    note = "step-00000060 is passed over"
    assert said.count(note) == (stopped / "train.log").read_text().count(note) == 1
    assert_same(stopped, straight)


def test_events_torn_behind_the_previous_checkpoint_go_back_to_it(stopped: Path, straight: Path) -> None:
    length = json.loads((stopped / "checkpoint/step-00000040/training.json").read_text())["progress"]["events_bytes"]
    content = (stopped / "events.jsonl").read_bytes()
    (stopped / "events.jsonl").write_bytes(content[: length + 7])
    assert "going on from step-00000040" in resumed(stopped)
    assert_same(stopped, straight)


@pytest.mark.parametrize("damage", ["deleted", "torn", "flipped"])
def test_lost_events_are_refused_before_any_work(stopped: Path, damage: str) -> None:
    events = stopped / "events.jsonl"
    content = events.read_bytes()
    events.unlink()
    if damage != "deleted":
        events.write_bytes(content[:50] if damage == "torn" else content.replace(b"loss", b"lost", 1))
    before = sorted(path.name for path in (stopped / "checkpoint").iterdir())
    with pytest.raises(CheckpointError, match=r"events\.jsonl does not begin with.*Fix: put the damaged file back"):
        resumed(stopped)
    assert sorted(path.name for path in (stopped / "checkpoint").iterdir()) == before
    events.write_bytes(content)
    resumed(stopped)
    assert RunFolder(stopped).finished


@pytest.mark.parametrize("content", [None, "", "{", "{}", '{"before": {}}', '{"before": 3}'])
def test_a_lost_freeze_audit_is_made_again_with_its_digest(stopped: Path, straight: Path, content: str | None) -> None:
    audit = stopped / "freeze_audit.json"
    audit.unlink()
    if content is not None:
        audit.write_text(content)
    assert "freeze_audit.json was missing or damaged; made again" in resumed(stopped)
    assert_same(stopped, straight)
    assert audit.read_bytes() == (straight / "freeze_audit.json").read_bytes()


def test_an_audit_that_cannot_be_made_again_is_refused_before_any_work(stopped: Path) -> None:
    for checkpoint in (stopped / "checkpoint").glob("step-*"):
        without_digests(checkpoint)
    (stopped / "freeze_audit.json").unlink()
    with pytest.raises(CheckpointError, match="cannot be made again here"):
        resumed(stopped)


def test_a_run_from_before_there_were_digests_goes_on(stopped: Path, straight: Path) -> None:
    shutil.rmtree(stopped / "checkpoint" / "step-00000060")
    without_digests(stopped / "checkpoint" / "step-00000040")
    assert "passed over" not in resumed(stopped)
    assert last_weights(stopped) == last_weights(straight)
    assert timeless_record(stopped) == timeless_record(straight)


def on_a_copy(folder: Path, **changes: object) -> RunConfig:
    """A config on token files of its own."""
    if not folder.exists():
        shutil.copytree(tokens(), folder)
    config = tiny_config("oelm+every=3", **{**SETTINGS, **changes})
    return config.model_copy(update={"data": config.data.model_copy(update={"folder": str(folder)})})


@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "tokenizer.json"])
def test_other_tokens_under_the_same_manifest_are_refused_at_start_and_resume(
    tmp_path: Path, stopped: Path, name: str
) -> None:
    config = on_a_copy(tmp_path / "tokens")
    flip(tmp_path / "tokens" / name)
    with pytest.raises(DataError, match=f"{name} is damaged"):
        trained(config, tmp_path / "new")
    assert not (tmp_path / "new" / "checkpoint").exists()
    with pytest.raises(DataError, match=f"{name} is damaged"):
        resumed(stopped, config)


def test_a_tokenizer_that_is_not_the_runs_is_refused_and_on_resume_copied_again(stopped: Path, straight: Path) -> None:
    load_run(stopped)
    (stopped / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is not the tokenizer that the run was trained with"):
        load_run(stopped)
    assert "tokenizer.json was not the one" in resumed(stopped)
    assert (stopped / "tokenizer.json").read_bytes() == (straight / "tokenizer.json").read_bytes()
    load_run(stopped)


def test_one_changed_digit_of_a_record_is_noticed(stopped: Path) -> None:
    resumed(stopped)
    files = RunFolder(stopped)
    record, text = files.record(), files.record_file.read_text()
    assert record.digest is not None
    loss = str(record.result.loss)
    files.record_file.write_text(text.replace(loss, loss[:4] + ("1" if loss[4] != "1" else "2") + loss[5:], 1))
    with pytest.raises(OelmError, match=r"record\.json is damaged"):
        files.record()
    files.record_file.write_text(json.dumps({**json.loads(text), "digest": None}))
    assert files.record().result == record.result, "an old record has none"
