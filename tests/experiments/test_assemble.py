"""Whole runs: what they leave behind, what stops them, and what they are worth."""

import json
import math
import signal
from pathlib import Path

import pytest
import torch

from oelm.base.errors import ConfigError, DataError, DivergedError, FreezeError
from oelm.config.record import RunState, StepEvent, ValidationEvent
from oelm.config.run import Precision, RunConfig
from oelm.data.tokens import TokenFolder
from oelm.experiments import subjects
from oelm.experiments.trained_run import load_run
from oelm.train.folder import RunFolder
from oelm.train.run_record import read_events
from train.processes import parallel, running, started, until
from train.toys import (
    flags,
    last_weights,
    timeless_events,
    timeless_record,
    tiny_config,
    tokens,
    trained,
)

GOLDEN_LOSS = {
    "baseline": 3.303513920737,
    "oelm": 3.255722038387,
    "oelm-core+until=10": 3.321161984431,
}


@pytest.mark.parametrize("method", GOLDEN_LOSS)
def test_golden_loss(tmp_path: Path, method: str) -> None:
    """20 steps in float64 on generated text: a refactoring must not move them."""
    record = trained(tiny_config(method, precision=Precision.FLOAT64), tmp_path)
    assert record.result.loss == pytest.approx(GOLDEN_LOSS[method], abs=1e-9)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "oelm"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", "hf_secretsecretsecret")
        patch.setenv("WANDB_API_KEY", "wandbsecret")
        patch.setenv("OMP_NUM_THREADS", "1")
        config = tiny_config("oelm+until=30", steps=60, validate_every=10, save_every=20, tensorboard=True)
        trained(config, folder)
    return folder


def test_the_folder_holds_what_it_should_and_no_leftovers(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} - {"run.lock"} == {
        "config.yaml",
        "events.jsonl",
        "state.json",
        "checkpoint",
        "tensorboard",
        "train.log",
        "manifest.json",
        "freeze_audit.json",
        "timing_stats.json",
        "tokenizer.json",
        "record.json",
    }
    record = RunFolder(finished).record()
    kept = sorted(path.name for path in (finished / "checkpoint").iterdir())
    assert kept == [f"best-{record.result.best_step:08d}", "step-00000040", "step-00000060"]
    state = RunFolder(finished).state()
    assert state is not None
    assert (state.state, state.step, state.sessions) == (RunState.FINISHED, 60, 1)


def test_the_record_agrees_with_the_events(finished: Path) -> None:
    record, events = RunFolder(finished).record(), read_events(finished / "events.jsonl")
    validations = [event for event in events if isinstance(event, ValidationEvent)]
    assert [event.step for event in validations] == [10, 20, 30, 40, 50, 60] == [p.step for p in record.curve]
    assert record.result.loss == validations[-1].loss
    assert record.result.best_loss == min(event.loss for event in validations)
    assert record.result.measures["perplexity"] == pytest.approx(math.exp(record.result.loss))
    steps = [event for event in events if isinstance(event, StepEvent)]
    assert [event.step for event in steps] == list(range(5, 61, 5))
    assert steps[-1].tokens == 60 * 2 * 16
    assert steps[-1].loss < steps[0].loss


def test_the_audit_is_evidence(finished: Path) -> None:
    record = RunFolder(finished).record()
    queries_and_keys = {f"layers.{layer}.attention.{side}.weight" for layer in (0, 1) for side in "qk"}
    assert set(record.audit.later_trained) == queries_and_keys
    assert record.audit.always_frozen == ()
    assert record.audit.unchanged is None, "nothing was frozen throughout"
    assert record.audit.moved
    written = json.loads((finished / "freeze_audit.json").read_text())
    assert written["before"].keys() == queries_and_keys | set(record.audit.trained)


def test_timing_leaves_out_warmup_and_validation(finished: Path) -> None:
    timing = RunFolder(finished).record().timing
    assert timing.measured_steps == 54
    assert timing.mean_step_seconds * 54 < timing.training_seconds
    assert timing.training_seconds + timing.validation_seconds < timing.wall_seconds
    stats = json.loads((finished / "timing_stats.json").read_text())
    assert stats.keys() >= {
        "model_type",
        "init_method",
        "dataset",
        "final_perplexity",
        "total_wall_time",
        "total_formatted",
        "num_steps_measured",
        "warmup_steps",
        "mean_step_time",
        "std_step_time",
        "median_step_time",
        "min_step_time",
        "max_step_time",
        "p95_step_time",
        "p99_step_time",
        "total_validation_time",
        "mean_validation_time",
        "num_validations",
    }
    assert (stats["num_steps_measured"], stats["warmup_steps"], stats["num_validations"]) == (54, 6, 6)
    ordered = [stats[f"{name}_step_time"] for name in ("min", "median", "p95", "p99", "max")]
    assert ordered == sorted(ordered)
    assert stats["mean_validation_time"] * 6 == pytest.approx(stats["total_validation_time"])
    assert stats["total_formatted"].startswith("0h00m")


def test_the_manifest_tells_where_numbers_come_from_and_no_secret(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["torch"] == torch.__version__
    assert manifest["packages"]["safetensors"]
    assert manifest["seed"] == 0
    assert manifest["environment"]["OMP_NUM_THREADS"] == "1"
    assert manifest["data"]["train"]["sha256"] == TokenFolder.open(tokens()).manifest.train.sha256
    assert manifest["fingerprint"] == RunFolder(finished).record().fingerprint
    for path in finished.rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes(), path


def test_tensorboard_files_do_not_name_the_machine(finished: Path) -> None:
    (path,) = (finished / "tensorboard").iterdir()
    assert path.name.rsplit(".", 1)[1].isdigit()


def test_a_trained_model_can_be_loaded(finished: Path) -> None:
    last, files = load_run(finished)
    best, _ = load_run(finished, "best")
    assert not last.training
    assert files.config().method.name == "oelm+until=30"
    if RunFolder(finished).record().result.best_step < 60:
        assert any(not torch.equal(p, q) for p, q in zip(last.parameters(), best.parameters(), strict=True))


def test_validation_is_the_same_question_every_time(tmp_path: Path) -> None:
    """With a learning rate of almost nothing every validation has the same answer."""
    trained(tiny_config("baseline", lr=1e-30, weight_decay=0.0, validate_every=2), tmp_path)
    losses = {e.loss for e in read_events(tmp_path / "events.jsonl") if isinstance(e, ValidationEvent)}
    assert len(losses) == 1


def test_arms_with_one_seed_are_paired(tmp_path: Path) -> None:
    first = [trained(tiny_config(method, steps=1), tmp_path / method) for method in ("baseline", "oelm")]
    initial = [record.audit for record in first]
    digests = [
        json.loads((tmp_path / method / "freeze_audit.json").read_text())["before"] for method in ("baseline", "oelm")
    ]
    assert {name for name in digests[0] if digests[0][name] != digests[1][name]} == set(initial[1].always_frozen)


def test_a_diverged_run_stops_and_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    healthy = tiny_config("baseline", steps=20, save_every=5)
    config = healthy.model_copy(update={"optim": healthy.optim.model_copy(update={"lr": 1e37, "warmup_steps": 0})})
    with pytest.raises(DivergedError, match=r"lower --max-lr \(now 1e\+37\)"):
        trained(config, tmp_path)
    state = RunFolder(tmp_path).state()
    assert state is not None
    assert state.state is RunState.DIVERGED
    assert "--max-lr" in (state.reason or "")
    assert not (tmp_path / "record.json").exists()


class _Poisoned(subjects.LanguageModelling):
    """Returns no number from step 12 on."""

    def loss(self, model, batch):  # type: ignore[no-untyped-def]
        loss = super().loss(model, batch)
        self.calls = getattr(self, "calls", 0) + model.training
        return type(loss)(loss.total * (float("nan") if self.calls > 12 else 1.0), loss.count)


def test_what_was_saved_before_the_divergence_is_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"steps": 20, "save_every": 5, "validate_every": 20}
    with monkeypatch.context() as patch:
        patch.setattr(subjects, "LanguageModelling", _Poisoned)
        with pytest.raises(DivergedError, match=r"in step 13; .*last checkpoint is intact"):
            trained(tiny_config("oelm", **settings), tmp_path / "run")
    trained(tiny_config("oelm", **settings), tmp_path / "run", resume=True)
    trained(tiny_config("oelm", **settings), tmp_path / "straight")
    assert last_weights(tmp_path / "run") == last_weights(tmp_path / "straight")
    assert timeless_events(tmp_path / "run") == timeless_events(tmp_path / "straight")


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_a_signal_saves_at_once_and_the_run_resumes_to_the_same_result(tmp_path: Path, number: int, code: int) -> None:
    settings = {"method": "oelm+until=150", "steps": 300, "save_every": 300, "log_every": 1, "validate_every": 300}
    files, command = RunFolder(tmp_path / "run"), flags(**settings, out_dir=tmp_path / "run")
    run = started(command)
    until(lambda: files.events_file.exists() and files.events_file.stat().st_size > 3000, alive=run.process.is_alive)
    run.signal(number)
    ended = run.ended()
    assert (ended.code, ended.err) == (code, "")
    assert "--resume" in ended.out
    state = files.state()
    assert state is not None
    assert state.state is RunState.INTERRUPTED
    (saved,) = (tmp_path / "run" / "checkpoint").glob("step-*")
    assert 1 <= int(saved.name.removeprefix("step-")) < 300
    assert started(command).ended().code == 2, "without --resume an unfinished run is refused"
    assert started([*command, "--resume"]).ended().code == 0
    trained(tiny_config(**settings), tmp_path / "straight")  # type: ignore[arg-type]
    assert last_weights(tmp_path / "run") == last_weights(tmp_path / "straight")
    assert timeless_events(tmp_path / "run") == timeless_events(tmp_path / "straight")
    assert timeless_record(tmp_path / "run") == timeless_record(tmp_path / "straight")


def _slow_validation(config: RunConfig, folder: Path) -> None:
    """A run whose validation takes long, watched by a heart that beats fast."""
    import time

    from oelm.train import folder as folder_module

    class Slow(subjects.LanguageModelling):
        def validation_batches(self, part, parts):  # type: ignore[no-untyped-def]
            (folder / "validating").touch()
            time.sleep(2.0)  # longer than a second process takes to be refused
            yield from super().validation_batches(part, parts)

    folder_module.HEARTBEAT_SECONDS = 0.05
    subjects.LanguageModelling = Slow  # type: ignore[misc]
    trained(config, folder)


@pytest.mark.slow
def test_the_heart_beats_through_a_long_validation_and_a_second_process_is_refused(tmp_path: Path) -> None:
    config, files = tiny_config(steps=3, validate_every=3), RunFolder(tmp_path)
    run, beats, refused = running(_slow_validation, config, tmp_path), set(), None
    until((tmp_path / "validating").exists, alive=run.process.is_alive)
    while run.process.is_alive():
        state = files.state()  # whole whenever it is read
        assert state is not None
        beats.add((state.state, state.heartbeat_at))
        refused = refused or started(flags(method="oelm", steps=3, validate_every=3, out_dir=tmp_path)).ended()
    assert run.ended().code == 0
    assert len({beat for state, beat in beats if state is RunState.RUNNING}) > 3
    assert refused is not None
    assert refused.code == 2
    assert "another process is training" in refused.err
    assert files.record().result.loss == trained(config, tmp_path.with_name("alone")).result.loss


def test_changed_data_is_refused(tmp_path: Path) -> None:
    config = tiny_config()
    other = config.model_copy(update={"data": config.data.model_copy(update={"digest": "0" * 16})})
    with pytest.raises(DataError, match="has changed"):
        trained(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_plan_that_matches_nothing_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(FreezeError, match="99"):
        trained(tiny_config("oelm+layers=99"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_config_for_more_processes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="for 2 processes and there are 1"):
        trained(tiny_config(processes=2), tmp_path / "run")


def test_float64_keeps_weights_and_audit_in_float64(tmp_path: Path) -> None:
    record = trained(tiny_config("oelm", precision=Precision.FLOAT64, steps=2), tmp_path)
    assert len(record.audit.always_frozen) == 4
    assert record.audit.unchanged


def test_all_processes_end_together_when_the_leader_may_not_begin(finished: Path) -> None:
    runs = parallel(flags(method="oelm+until=30", batch_size=1, steps=60, out_dir=finished))
    leader, other = [run.ended() for run in runs]
    assert leader.code == other.code == 2
    assert "finished run" in leader.err
    assert other.err == ""
