import hashlib
from pathlib import Path

import pytest
import torch
from torch import Tensor

from oelm.base.errors import CheckpointError
from oelm.base.files import read_json, write_json
from oelm.experiments.subjects import build_model
from oelm.model.gpt import GPT
from oelm.train.checkpoint import Checkpoints, Progress, load_weights
from train.toys import TINY, tiny_config, without_digests


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    kept = Checkpoints(tmp_path / "checkpoint", "fingerprint")
    kept.open()
    return kept


def model() -> GPT:
    return build_model(tiny_config())


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_everything_comes_back_bit_for_bit(checkpoints: Checkpoints) -> None:
    saved, progress = (
        model(),
        Progress(step=7, tokens=123, window_loss=0.1, best=2.5, best_step=5, events_bytes=99),
    )
    progress.step_seconds = [0.1, 1 / 3]
    moments: dict[str, dict[str, Tensor]] = {
        "layers.0.attention.q.weight": {"step": torch.tensor(3.0), "exp_avg": torch.randn(4, 4)}
    }
    checkpoints.save(saved, moments, progress)
    other = build_model(tiny_config(seed=1))
    loaded_moments, loaded_progress = Checkpoints(checkpoints.folder, "fingerprint").load_latest(other)
    assert loaded_progress == progress
    assert all(torch.equal(p, q) for p, q in zip(saved.parameters(), other.parameters(), strict=True))
    assert loaded_moments.keys() == moments.keys()
    for part, tensor in moments["layers.0.attention.q.weight"].items():
        assert torch.equal(loaded_moments["layers.0.attention.q.weight"][part], tensor)


def test_a_checkpoint_from_when_only_a_loss_could_be_best_is_resumed_from(checkpoints: Checkpoints) -> None:
    checkpoints.save(model(), {}, Progress(step=7, best=2.5, best_step=5))
    (folder,) = checkpoints.steps()
    without_digests(folder)
    saved = read_json(folder / "training.json")
    saved["progress"]["best_loss"] = saved["progress"].pop("best")
    write_json(folder / "training.json", saved)
    assert checkpoints.latest_progress() == Progress(step=7, best=2.5, best_step=5)


def test_the_last_two_and_the_best_are_kept(checkpoints: Checkpoints) -> None:
    progress = Progress()
    for step, loss in ((10, 3.0), (20, 2.0), (30, 2.5), (40, 2.2)):
        progress.step = step
        if progress.best is None or loss < progress.best:
            progress.best, progress.best_step = loss, step
            checkpoints.save_best(model(), progress)
        checkpoints.save(model(), {}, progress)
    assert names(checkpoints) == ["best-00000020", "step-00000030", "step-00000040"]


def test_a_run_killed_after_a_new_best_resumes_with_the_former(checkpoints: Checkpoints) -> None:
    progress = Progress(step=10, best=3.0, best_step=10)
    checkpoints.save_best(model(), progress)
    checkpoints.save(model(), {}, progress)
    for step in (14, 18):  # better and better, and no checkpoint in between
        progress.step = progress.best_step = step
        checkpoints.save_best(model(), progress)
    assert names(checkpoints) == ["best-00000010", "best-00000018", "step-00000010"]
    resumed = Checkpoints(checkpoints.folder, "fingerprint")
    _, progress = resumed.load_latest(model())
    assert progress.best_step == 10
    progress.step = 20  # on another machine, say, the validations of 14 and 18 were not that good
    resumed.save(model(), {}, progress)
    assert names(resumed) == ["best-00000010", "step-00000010", "step-00000020"]


def test_a_half_written_checkpoint_is_never_seen(checkpoints: Checkpoints) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    (checkpoints.folder / ".partial-step-00000020-abcd").mkdir()
    (checkpoints.folder / ".partial-step-00000020-abcd" / "model.safetensors").write_bytes(b"half")
    assert [path.name for path in checkpoints.steps()] == ["step-00000010"]
    checkpoints.open()
    assert names(checkpoints) == ["step-00000010"]


def test_another_configs_checkpoint_is_refused(checkpoints: Checkpoints) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    with pytest.raises(CheckpointError, match="another configuration"):
        Checkpoints(checkpoints.folder, "other").load_latest(model())


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors", "training.json"])
def test_a_damaged_checkpoint_is_named_with_the_way_out(checkpoints: Checkpoints, file: str) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    path = checkpoints.folder / "step-00000010" / file
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match=r"step-00000010 cannot be loaded.*the checkpoint before it"):
        checkpoints.load_latest(model())


def flipped(path: Path, place: int | None = None) -> None:
    """One bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(bytes(content))


FILES = ("model.safetensors", "training.safetensors", "training.json", "digests.json")


@pytest.mark.parametrize("file", FILES)
def test_one_flipped_bit_passes_the_checkpoint_over_and_says_so(checkpoints: Checkpoints, file: str) -> None:
    for step in (10, 20):
        checkpoints.save(model(), {}, Progress(step=step))
    assert checkpoints.settle(checkpoints.folder / "events.jsonl") == []
    flipped(checkpoints.folder / "step-00000020" / file)
    (note,) = checkpoints.settle(checkpoints.folder / "events.jsonl")
    assert note.startswith("step-00000020 is passed over (")
    assert note.endswith("going on from step-00000010")
    assert "\n" not in note
    assert checkpoints.load_latest(model())[1].step == 10
    assert names(checkpoints) == ["damaged-step-00000020", "step-00000010"]
    checkpoints.save(model(), {}, Progress(step=20))
    assert names(checkpoints) == ["step-00000010", "step-00000020"]


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_noticed(checkpoints: Checkpoints, file: str) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    (checkpoints.folder / "step-00000010" / file).unlink()
    with pytest.raises(CheckpointError, match=r"step-00000010: .*Fix: put the damaged file back"):
        checkpoints.settle(checkpoints.folder / "events.jsonl")
    assert names(checkpoints) == ["step-00000010"], "nothing is touched where nothing is good"


def test_weights_with_a_flipped_bit_are_not_used(checkpoints: Checkpoints) -> None:
    checkpoints.save_best(model(), Progress(step=10))
    load_weights(model(), checkpoints.best())
    flipped(checkpoints.best() / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"damaged: model\.safetensors does not have its digest"):
        load_weights(model(), checkpoints.best())


def test_a_checkpoint_from_before_there_were_digests_is_taken(checkpoints: Checkpoints) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    without_digests(checkpoints.folder / "step-00000010")
    assert checkpoints.settle(checkpoints.folder / "events.jsonl") == []
    assert checkpoints.load_latest(model())[1].step == 10


def test_events_that_are_not_those_of_the_checkpoint_pass_it_over(checkpoints: Checkpoints) -> None:
    events = checkpoints.folder.parent / "events.jsonl"
    for step, length in ((10, 3), (20, 6)):
        digest = hashlib.sha256(b"abcdef"[:length]).hexdigest()
        checkpoints.save(model(), {}, Progress(step=step, events_bytes=length, events_digest=digest))
    for content in (b"abcdef", b"abcdef and more"):
        events.write_bytes(content)
        assert checkpoints.settle(events) == []
    for content in (None, b"", b"ab", b"abd"):
        events.unlink() if content is None else events.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"events\.jsonl does not begin with its 6 bytes"):
            checkpoints.settle(events)
    events.write_bytes(b"abcxef")
    (note,) = checkpoints.settle(events)
    assert "going on from step-00000010" in note


def test_weights_of_another_size_are_refused(checkpoints: Checkpoints) -> None:
    checkpoints.save(model(), {}, Progress(step=10))
    wider = build_model(tiny_config(width=2 * TINY["width"]))
    with pytest.raises(CheckpointError, match=r"cannot be loaded.*size of tensor"):
        load_weights(wider, checkpoints.folder / "step-00000010")
