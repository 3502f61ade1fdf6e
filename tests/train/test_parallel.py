"""Two processes with gloo are one process that accumulates: before a thaw and after it."""

import os
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from oelm.base.runtime import choose_runtime
from oelm.config.model import Style
from oelm.config.record import RunState
from oelm.method.freezing import frozen_names
from oelm.train.engine import Engine
from oelm.train.folder import RunFolder
from train.processes import parallel, running, started_anew, torchrun_environments, until
from train.toys import RaggedTask, flags, gradients, last_weights, ragged_engine, tiny_config, trained

METHOD = "oelm+until=2"


def two_steps(engine: Engine, *, rewrap: bool = True) -> dict[str, torch.Tensor]:
    """The gradients of steps 1 (frozen) and 2 (thawed), and the measures after them."""
    engine.ensure_frozen(frozen_names(_plan(), engine.table, 1, 10))
    engine.accumulate(RaggedTask(), 1)
    found = {f"1:{name}": gradient for name, gradient in gradients(engine).items()}
    engine.update(lr=1e-2)
    wrapped = engine._wrapped
    engine.ensure_frozen(frozen_names(_plan(), engine.table, 2, 10))
    if not rewrap:
        engine._wrapped = wrapped
    engine.accumulate(RaggedTask(), 2)
    found |= {f"2:{name}": gradient for name, gradient in gradients(engine).items()}
    found["loss"] = torch.tensor(engine.evaluate(RaggedTask())["loss"])
    return found


def _plan():  # type: ignore[no-untyped-def]
    from oelm.config.methods import parse_method

    return parse_method(METHOD).plan


def _worker(folder: Path) -> None:
    runtime = choose_runtime("cpu")
    dist.init_process_group("gloo")
    # Two micro-batches per process as well: gradients of the first stay local until the second.
    for name, accumulate, rewrap in (("one", 1, True), ("two", 2, True), ("stale", 1, False)):
        engine = ragged_engine(METHOD, accumulate=accumulate, runtime=runtime)
        save_file(two_steps(engine, rewrap=rewrap), folder / f"{name}-{runtime.rank}.safetensors")
        engine.release()  # as a run does: a reducer that outlives its process group can hang
    llama = ragged_engine(METHOD, accumulate=2, runtime=runtime, style=Style.LLAMA)
    save_file(two_steps(llama), folder / f"llama-{runtime.rank}.safetensors")
    llama.release()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, torch.Tensor]]:
    folder = tmp_path_factory.mktemp("ddp")
    workers = [running(_worker, folder, **environment) for environment in torchrun_environments(2)]
    for worker in workers:
        ended = worker.ended()
        assert ended.code == 0, ended.err
        assert "Warning" not in ended.err
    return {path.stem: load_file(path) for path in folder.iterdir()}


def difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], prefix: str = "") -> float:
    assert first.keys() == second.keys()
    return max((first[name] - second[name]).abs().max().item() for name in first if name.startswith(prefix))


@pytest.mark.parametrize("rank", [0, 1])
def test_gradients_equal_those_of_one_process(found: dict[str, dict[str, torch.Tensor]], rank: int) -> None:
    alone = two_steps(ragged_engine(METHOD, accumulate=2))
    assert any(name.endswith("q.weight") for name in alone if name.startswith("2:"))
    assert not any(name.endswith("q.weight") for name in alone if name.startswith("1:"))
    assert difference(found[f"one-{rank}"], alone) < 1e-12
    assert difference(found[f"two-{rank}"], two_steps(ragged_engine(METHOD, accumulate=4))) < 1e-12
    llama = ragged_engine(METHOD, accumulate=4, style=Style.LLAMA)
    assert difference(found[f"llama-{rank}"], two_steps(llama)) < 1e-12


def test_without_a_new_wrap_a_thaw_is_not_averaged(found: dict[str, dict[str, torch.Tensor]]) -> None:
    """The twin: DDP as wrapped before the thaw leaves each process with gradients of its own."""
    alone = two_steps(ragged_engine(METHOD, accumulate=2))
    assert difference(found["stale-0"], alone, "1:") < 1e-12
    assert difference(found["stale-0"], alone, "2:") > 1e-6
    assert difference(found["stale-0"], found["stale-1"], "2:") > 1e-6


@pytest.mark.slow
def test_a_run_under_torchrun_saves_when_asked_and_ends_like_one_process(tmp_path: Path) -> None:
    settings = {"method": "oelm+until=20", "steps": 300, "save_every": 300, "validate_every": 300, "log_every": 5}
    command = flags(**settings, out_dir=tmp_path / "two", batch_size=1)
    torchrun = started_anew(
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        "-m",
        "oelm",
        *command,
    )
    files = RunFolder(tmp_path / "two")
    until(
        lambda: files.events_file.exists() and files.events_file.stat().st_size > 2000,
        alive=lambda: torchrun.poll() is None,
    )
    os.killpg(torchrun.pid, signal.SIGTERM)
    _out, err = torchrun.communicate()
    state = files.state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED, err
    assert [path.name[:5] for path in files.checkpoint_folder.iterdir()] == ["step-"]
    for run in parallel([*command, "--resume"]):
        ended = run.ended()
        assert ended.code == 0, ended.err
    alone = trained(tiny_config(**settings, batch_size=1, accumulate=2), tmp_path / "one")  # type: ignore[arg-type]
    record = files.record()
    assert record.fingerprint == alone.fingerprint
    assert record.result.loss == pytest.approx(alone.result.loss, rel=1e-4)
    assert [p.train_loss for p in record.curve] == pytest.approx([p.train_loss for p in alone.curve], rel=1e-3)
    assert record.audit.moved


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_with_two(tmp_path: Path) -> None:
    settings = {"method": "oelm+every=2", "steps": 30, "save_every": 10, "validation_sequences": 120}
    trained(tiny_config(**settings), tmp_path / "one")  # type: ignore[arg-type]
    trained(tiny_config(**settings), tmp_path / "two")  # type: ignore[arg-type]
    (tmp_path / "two" / "record.json").unlink()
    (tmp_path / "two" / "checkpoint" / "step-00000030").rename(tmp_path / "elsewhere")
    for run in parallel([*flags(**settings, out_dir=tmp_path / "two", batch_size=1), "--resume"]):
        ended = run.ended()
        assert ended.code == 0, ended.err
    one, two = (RunFolder(tmp_path / name).record().result for name in ("one", "two"))
    assert two.loss == pytest.approx(one.loss, rel=1e-4)
    assert two.text.tokens == one.text.tokens
    assert two.text.losses == pytest.approx(one.text.losses, rel=1e-3)
    assert two.text.loss == pytest.approx(two.loss, rel=1e-9)
    assert len(last_weights(tmp_path / "one")) == len(last_weights(tmp_path / "two"))
