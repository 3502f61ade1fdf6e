"""float16: the loss is scaled, a step that overflows is skipped and counted, and a resumed run scales on."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor

from oelm.base.errors import DivergedError
from oelm.base.files import read_json, write_json
from oelm.config.record import StepEvent
from oelm.config.run import Precision
from oelm.data.tokens import TokenFolder
from oelm.experiments import subjects
from oelm.experiments.subjects import language_modelling
from oelm.tasks.language_modelling import LanguageModelling
from oelm.tasks.task import Batch, Task
from oelm.train.engine import Engine
from oelm.train.folder import RunFolder
from oelm.train.loss_scale import LossScale
from oelm.train.run_record import read_events
from train.processes import parallel
from train.test_resume import stopped_at
from train.toys import (
    engine_for,
    flags,
    gradients,
    last_weights,
    timeless_events,
    timeless_record,
    tiny_config,
    tokens,
    trained,
    without_digests,
)


def task_of(precision: Precision = Precision.FLOAT16) -> Task:
    return language_modelling(tiny_config(precision=precision), TokenFolder.open(tokens()))


def engine(precision: Precision = Precision.FLOAT16, **changes: object) -> Engine:
    made = engine_for(tiny_config("baseline", precision=precision, **changes))
    made.ensure_frozen(frozenset())
    return made


def test_the_rule_is_that_of_torch() -> None:
    finite = [True] * 5 + [False] * 3 + [True] * 4100 + [False] + [True] * 1999
    ours = LossScale()
    scale, tracker = torch.full((), 65536.0), torch.zeros((), dtype=torch.int32)
    for step in finite:
        ours.update(finite=step)
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(not step)), 2.0, 0.5, 2000)
        assert (ours.value, ours.good_steps) == (scale.item(), tracker.item())


def unscaled_gradients(value: float) -> dict[str, Tensor]:
    made = engine()
    assert made.loss_scale is not None
    made.loss_scale.value = value
    made.accumulate(task_of(), 0)
    return {name: gradient / made._scaled_by for name, gradient in gradients(made).items()}


def test_gradients_do_not_depend_on_the_scale_unless_it_is_too_small() -> None:
    usual, smaller, tiny = (unscaled_gradients(value) for value in (65536.0, 16384.0, 2.0**-16))
    for name, gradient in usual.items():
        assert torch.allclose(gradient, smaller[name], rtol=1e-2, atol=1e-5), name
    lost = [name for name, gradient in usual.items() if gradient.any() and not tiny[name].any()]
    assert "layers.0.attention.q.weight" in lost, "the twin: float16 has no number for them"


def test_the_update_divides_by_the_scale() -> None:
    half, exact = engine(), engine(Precision.FLOAT32)
    for made in (half, exact):
        made.accumulate(task_of(), 0)
    assert half.update(lr=1e-2).gradient_norm == pytest.approx(exact.update(lr=1e-2).gradient_norm, rel=1e-2)


def test_float16_is_near_float32_and_not_the_same() -> None:
    losses = {}
    for precision in (Precision.FLOAT32, Precision.FLOAT16):
        made = engine(precision)
        made.accumulate(task_of(), 0)
        made.update(lr=1e-2)
        assert all(p.dtype is torch.float32 for p in made.model.parameters())
        losses[precision] = made.evaluate(task_of())["loss"]
    assert losses[Precision.FLOAT16] != losses[Precision.FLOAT32]
    assert losses[Precision.FLOAT16] == pytest.approx(losses[Precision.FLOAT32], rel=1e-2)


def test_an_overflow_changes_nothing_but_the_scale() -> None:
    made = engine()
    assert made.loss_scale is not None
    made.loss_scale.value = 2.0**40
    before = [p.detach().clone() for p in made.model.parameters()]
    made.accumulate(task_of(), 0)
    assert not torch.isfinite(torch.tensor(made.update(lr=1e-2).gradient_norm))
    assert all(torch.equal(*pair) for pair in zip(before, made.model.parameters(), strict=True))
    assert made.loss_scale == LossScale(2.0**39, 0, usual_count=32.0)


def test_micro_batches_are_scaled_alike() -> None:
    found: list[dict[str, Tensor]] = []
    for changes in ({"batch_size": 2}, {"batch_size": 1, "accumulate": 2}):
        made = engine(**changes)
        made.accumulate(task_of(), 0)
        found.append({name: g / made._scaled_by for name, g in gradients(made).items()})
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], rtol=2e-2, atol=2e-4), name


class Shrinking(LanguageModelling):
    """Its first step counts twice as many tokens as each later one."""

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        batch = super().training_batch(step, part, parts)
        return batch if step == 0 else {name: tensor[:1] for name, tensor in batch.items()}


def test_a_resumed_run_scales_by_the_same_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where counts are ragged, the first micro-batch after a resume is not that of the run."""
    monkeypatch.setattr(subjects, "LanguageModelling", Shrinking)
    task, straight, resumed = task_of(), engine(), engine()
    straight.accumulate(task, 0)
    straight.model.zero_grad(set_to_none=True)
    assert straight.loss_scale is not None
    saved = asdict(straight.loss_scale)  # as the loop saves it, and `assemble` reads it
    resumed.loss_scale = LossScale(**saved)
    for made in (straight, resumed):
        made.accumulate(task, 1)
    assert resumed._scaled_by == straight._scaled_by
    after = dict(resumed.model.named_parameters())
    assert all(torch.equal(p.grad, after[n].grad) for n, p in straight.model.named_parameters() if p.grad is not None)  # type: ignore[arg-type]
    del saved["usual_count"]
    assert LossScale(**saved).usual_count is None, "a checkpoint from before it was kept"


def overflowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs begin with a scale that is far too large."""
    monkeypatch.setattr(LossScale, "__init__", _too_large)


def _too_large(self: LossScale, value: float = 2.0**30, good_steps: int = 0, usual_count: float | None = None) -> None:
    self.value, self.good_steps, self.usual_count = value, good_steps, usual_count


@pytest.mark.slow
def test_skipped_steps_are_counted_and_resumed_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overflowing(monkeypatch)
    config = tiny_config("oelm", precision=Precision.FLOAT16, steps=60, save_every=20, validate_every=30)
    record = trained(config, tmp_path / "straight")
    steps = [e for e in read_events(RunFolder(tmp_path / "straight").events_file) if isinstance(e, StepEvent)]
    assert record.skipped_steps > 0
    assert [step.skipped_steps for step in steps][-1] == record.skipped_steps
    saved = read_json(tmp_path / "straight/checkpoint/step-00000060/training.json")["progress"]
    skipped = record.skipped_steps
    assert saved["loss_scale"] == {"value": 2.0 ** (30 - skipped), "good_steps": 60 - skipped, "usual_count": 32.0}
    stopped_at(40, tmp_path / "run", tmp_path / "straight")
    trained(config, tmp_path / "run", resume=True)
    assert last_weights(tmp_path / "run") == last_weights(tmp_path / "straight")
    assert timeless_events(tmp_path / "run") == timeless_events(tmp_path / "straight")
    assert timeless_record(tmp_path / "run") == timeless_record(tmp_path / "straight")


def test_a_resume_that_loses_the_scale_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above."""
    overflowing(monkeypatch)
    config = tiny_config("oelm", precision=Precision.FLOAT16, steps=30, save_every=20)
    trained(config, tmp_path / "straight")
    stopped_at(20, tmp_path / "run", tmp_path / "straight")
    path = tmp_path / "run/checkpoint/step-00000020"
    without_digests(path)
    values = read_json(path / "training.json")
    write_json(path / "training.json", {**values, "progress": {**values["progress"], "loss_scale": None}})
    trained(config, tmp_path / "run", resume=True)
    assert last_weights(tmp_path / "run") != last_weights(tmp_path / "straight")


def test_a_run_that_diverges_in_float16_stops(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        trained(tiny_config("oelm", precision=Precision.FLOAT16, lr=1e6, warmup_steps=0), tmp_path / "run")
    assert not LossScale(1.0).exhausted
    assert LossScale(0.5).exhausted


@pytest.mark.slow
def test_two_processes_scale_and_skip_alike(tmp_path: Path) -> None:
    settings = {"method": "oelm", "steps": 20, "save_every": 10}
    for run in parallel([*flags(**settings, out_dir=tmp_path / "two", batch_size=1), "--fp16"]):
        ended = run.ended()
        assert ended.code == 0, ended.err
    alone = trained(tiny_config(**settings, precision=Precision.FLOAT16), tmp_path / "one")  # type: ignore[arg-type]
    record = RunFolder(tmp_path / "two").record()
    assert (record.fingerprint, record.skipped_steps) == (alone.fingerprint, alone.skipped_steps)
    assert record.loss == pytest.approx(alone.loss, rel=5e-3)
    one, two = (read_json(tmp_path / name / "checkpoint/step-00000020/training.json") for name in ("one", "two"))
    assert one["progress"]["loss_scale"] == two["progress"]["loss_scale"]
