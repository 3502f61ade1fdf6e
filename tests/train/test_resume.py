"""200 steps straight, and 200 steps killed by SIGKILL and resumed: byte-equal weights, equal events and record.

Every scenario saves every 20 steps; some change the frozen set exactly there, some in between, `every=3` all the time.
"""

import random
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from oelm.train.folder import RunFolder
from train.processes import started, started_anew, until
from train.toys import (
    flags,
    last_weights,
    timeless_events,
    timeless_record,
    tiny_config,
    trained,
    without_digests,
)

STEPS = 200
LOOK = {"steps": STEPS, "save_every": 20, "validate_every": 50, "log_every": 7}


def steps_of(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in sorted((folder / "checkpoint").glob("step-*"))]


def assert_same(folder: Path, straight: Path) -> None:
    assert last_weights(folder) == last_weights(straight)
    assert timeless_events(folder) == timeless_events(straight)
    assert timeless_record(folder) == timeless_record(straight)
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == sorted(
        path.name for path in (straight / "checkpoint").iterdir()
    )
    assert not list(folder.rglob(".partial-*"))


def killed_and_resumed(folder: Path, settings: dict[str, object], seed: int, kills: int) -> int:
    """Kill the run at random moments between two checkpoints, then let it end; returns how many kills hit it."""
    dice, command = random.Random(seed), [*flags(**settings, out_dir=folder), "--resume"]
    hits = 0
    for _ in range(kills):
        before = len(steps_of(folder)) and steps_of(folder)[-1]
        run = started(command)
        until(lambda: before < max(steps_of(folder), default=0), alive=run.process.is_alive)  # noqa: B023
        time.sleep(dice.uniform(0, 0.15))
        hits += run.process.is_alive()
        run.killed()
    assert started(command).ended().code == 0
    return hits


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("oelm+until=100", {}),
        pytest.param("oelm+thaw=30..170", {"dropout": 0.1, "layers": 3}, marks=pytest.mark.slow),
        pytest.param("oelm+every=3", {"accumulate": 2}, marks=pytest.mark.slow),
        pytest.param("oelm-core+bias+qk-lr=0.3+from=0.25", {}, marks=pytest.mark.slow),
        pytest.param("oelm-core+layer-lr=0.8", {"dropout": 0.1, "accumulate": 2}, marks=pytest.mark.slow),
        pytest.param("oelm-core+freeze=0.5+from=0.25", {"style": "llama", "dropout": 0.1}, marks=pytest.mark.slow),
    ],
)
def test_kill_and_resume_leave_no_trace(tmp_path: Path, method: str, changes: dict[str, object]) -> None:
    settings = {"method": method, **LOOK, **changes}
    trained(tiny_config(**settings), tmp_path / "straight")  # type: ignore[arg-type]
    hits = killed_and_resumed(tmp_path / "killed", settings, seed=len(method), kills=3)
    assert hits >= 2, "too few kills hit a living run"
    assert RunFolder(tmp_path / "killed").record().sessions == hits + 1
    assert_same(tmp_path / "killed", tmp_path / "straight")


@pytest.mark.slow
def test_kill_and_resume_of_the_command_itself(tmp_path: Path) -> None:
    settings = {"method": "oelm+until=50", **LOOK}
    trained(tiny_config(**settings), tmp_path / "straight")  # type: ignore[arg-type]
    command = ["oelm", *flags(**settings, out_dir=tmp_path / "killed"), "--resume"]
    first = started_anew(*command)
    until(lambda: max(steps_of(tmp_path / "killed"), default=0) >= 60, alive=lambda: first.poll() is None)
    first.kill()
    first.communicate()
    assert not (tmp_path / "killed" / "record.json").exists()
    second = started_anew(*command)
    _out, err = second.communicate()
    assert (second.returncode, err) == (0, "")
    assert_same(tmp_path / "killed", tmp_path / "straight")


def stopped_at(step: int, folder: Path, straight: Path) -> None:
    """Put `folder` into the state that SIGKILL leaves right after the checkpoint of `step`."""
    shutil.copytree(straight, folder)
    for path in (folder / "checkpoint").glob("step-*"):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    (folder / "record.json").unlink()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every") / "straight"
    trained(tiny_config("oelm+every=3", steps=60, save_every=20, validate_every=30), folder)
    return folder


@pytest.mark.slow
def test_moments_matter(tmp_path: Path, straight: Path) -> None:
    """The twin: a resume that loses what the optimiser remembers of one paused tensor is noticed."""
    config = tiny_config("oelm+every=3", steps=60, save_every=20, validate_every=30)
    for name in ("kept", "lost"):
        stopped_at(40, tmp_path / name, straight)
    path = tmp_path / "lost" / "checkpoint" / "step-00000040" / "training.safetensors"
    tensors = load_file(path)
    parked = "moment:layers.0.attention.q.weight:exp_avg"
    assert parked in tensors, "step 40 trains no query, so its moments are parked"
    save_file({**tensors, parked: torch.zeros_like(tensors[parked])}, path)
    without_digests(path.parent)
    for name in ("kept", "lost"):
        trained(config, tmp_path / name, resume=True)
    assert_same(tmp_path / "kept", straight)
    assert last_weights(tmp_path / "lost") != last_weights(straight)


def test_a_run_killed_before_its_record_only_writes_it(tmp_path: Path, straight: Path) -> None:
    stopped_at(60, tmp_path / "run", straight)
    with (tmp_path / "run" / "events.jsonl").open("a") as events:
        events.write('{"event": "st')
    config = tiny_config("oelm+every=3", steps=60, save_every=20, validate_every=30)
    record = trained(config, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", straight)
    assert record.timing.measured_steps == RunFolder(straight).record().timing.measured_steps


def test_a_run_killed_before_its_first_checkpoint_starts_over(tmp_path: Path, straight: Path) -> None:
    stopped_at(0, tmp_path / "run", straight)
    (tmp_path / "run" / ".partial-state.json-0123").touch()
    config = tiny_config("oelm+every=3", steps=60, save_every=20, validate_every=30)
    trained(config, tmp_path / "run")
    assert_same(tmp_path / "run", straight)


def test_other_machine_settings_do_not_hinder_a_resume(tmp_path: Path, straight: Path) -> None:
    """One process with two micro-batches of one goes on where one micro-batch of two stopped."""
    stopped_at(40, tmp_path / "run", straight)
    changes = {"batch_size": 1, "accumulate": 2, "save_every": 50}
    config = tiny_config("oelm+every=3", steps=60, validate_every=30, **changes)
    record = trained(config, tmp_path / "run", resume=True)
    assert record.result.loss == pytest.approx(RunFolder(straight).record().result.loss, rel=1e-4)
