"""Steps that would harm the weights: what each policy does, that it is written down, and that it resumes exactly."""

import math
import os
import signal
from pathlib import Path
from typing import ClassVar

import pytest

from oelm.base.errors import DivergedError
from oelm.base.files import read_json
from oelm.config.record import BadStepEvent, StepEvent
from oelm.config.run import BadSteps, Precision, RunConfig
from oelm.experiments import subjects
from oelm.tasks.classification import Classification
from oelm.tasks.regression import Regression
from oelm.train.bad_steps import most_loss
from oelm.train.checkpoint import Checkpoints, Progress
from oelm.train.folder import RunFolder
from oelm.train.run_record import read_events
from oelm.train.stopping import Interrupted
from tasks.examples import batches, encoded
from train.toys import last_weights, timeless_events, tiny_config, trained

STEPS = {"steps": 20, "save_every": 5, "validate_every": 20, "log_every": 1}


class Poisoned(subjects.LanguageModelling):
    """A loss that is not a number in update 8 (counted from 1), and one of 30 nats in update 13."""

    dies_at = -1
    poisons: ClassVar[dict[int, int]] = {7: 1, 12: 2}

    def training_batch(self, step, part, parts):  # type: ignore[no-untyped-def]
        if step == self.dies_at:
            raise ZeroDivisionError
        batch = super().training_batch(step, part, parts)
        return {**batch, "poison": batch["tokens"].new_tensor(self.poisons.get(step, 0))}

    def loss(self, model, batch):  # type: ignore[no-untyped-def]
        plain = {name: tensor for name, tensor in batch.items() if name != "poison"}
        loss, poison = super().loss(model, plain), int(batch.get("poison", 0))
        total = loss.total * {0: 1.0, 1: math.nan, 2: 10.0, 3: 1.0}[poison]
        return type(loss)(total + {3: math.inf}.get(poison, 0.0), loss.count)

    def tokens(self, batch):  # type: ignore[no-untyped-def]
        return super().tokens({name: tensor for name, tensor in batch.items() if name != "poison"})


class Overflowing(Poisoned):
    """A loss that is infinite beside a gradient that is not, in updates 1 and 8."""

    poisons: ClassVar[dict[int, int]] = {0: 3, 7: 3}


class Stopped(Poisoned):
    """The leap alone, and a signal that stops the run when the batch of one of these steps is made."""

    poisons: ClassVar[dict[int, int]] = {12: 2}
    stops_at: ClassVar[set[int]] = set()

    def training_batch(self, step, part, parts):  # type: ignore[no-untyped-def]
        if step in self.stops_at:
            self.stops_at.remove(step)
            os.kill(os.getpid(), signal.SIGTERM)
        return super().training_batch(step, part, parts)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "LanguageModelling", Poisoned)


def config(policy: str) -> RunConfig:
    return tiny_config("oelm", **STEPS, bad_steps=policy)  # type: ignore[arg-type]


def bad_steps(folder: Path) -> list[BadStepEvent]:
    return [event for event in read_events(RunFolder(folder).events_file) if isinstance(event, BadStepEvent)]


def step_events(folder: Path) -> list[StepEvent]:
    return [event for event in read_events(RunFolder(folder).events_file) if isinstance(event, StepEvent)]


def test_a_squared_error_does_not_leap() -> None:
    """Its unit is that of the labels: a nat means nothing there."""
    progress = Progress()
    progress.usual_loss = 0.5
    examples = batches(encoded(classes=None))
    assert most_loss(config("skip"), Classification(examples, classes=2), progress) == 1.5
    assert most_loss(config("skip"), Regression(examples), progress) == math.inf


@pytest.mark.usefixtures("poisoned")
def test_by_default_the_run_stops_and_says_where(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"the loss is nan in step 8; .*last checkpoint is intact"):
        trained(tiny_config("oelm", **STEPS), tmp_path / "run")  # type: ignore[arg-type]
    (event,) = bad_steps(tmp_path / "run")
    assert (event.step, event.action, len(event.batch)) == (8, BadSteps.STOP, 64)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("policy", ["skip", "roll-back"])
def test_the_run_goes_on_and_counts(tmp_path: Path, policy: str) -> None:
    record = trained(config(policy), tmp_path / "run")
    found = bad_steps(tmp_path / "run")
    assert [(event.step, event.action.value) for event in found] == [(8, policy), (13, policy)]
    assert "nan" in found[0].reason
    assert "leapt" in found[1].reason
    assert found[0].batch != found[1].batch
    assert record.skipped_steps == 2
    steps = step_events(tmp_path / "run")
    assert [event.step for event in steps] == [step for step in range(1, 21) if step not in (8, 13)]
    assert all(event.loss < 10 for event in steps)


@pytest.mark.usefixtures("poisoned")
def test_the_policies_differ(tmp_path: Path) -> None:
    """To skip keeps steps 6, 7, 11 and 12; to roll back gives them up."""
    for policy in ("skip", "roll-back"):
        trained(config(policy), tmp_path / policy)
    assert last_weights(tmp_path / "skip") != last_weights(tmp_path / "roll-back")
    assert config("skip").fingerprint != config("roll-back").fingerprint != config("stop").fingerprint


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("policy", ["skip", "roll-back"])
@pytest.mark.parametrize("asked_at", [6, 11])
def test_an_interrupted_run_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, asked_at: int
) -> None:
    """Stopped after the step before and after the leap; the policy sees the same history again."""
    trained(config(policy), tmp_path / "straight")
    killed = tmp_path / "killed"
    with monkeypatch.context() as patch:
        patch.setattr(Poisoned, "dies_at", asked_at)
        with pytest.raises(ZeroDivisionError):
            trained(config(policy), killed)
    trained(config(policy), killed, resume=True)
    assert last_weights(killed) == last_weights(tmp_path / "straight")
    assert timeless_events(killed) == timeless_events(tmp_path / "straight")


def test_a_stop_does_not_change_where_a_roll_back_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last checkpoint that was due, not to one that a signal asked for, however many there are of those."""
    monkeypatch.setattr(subjects, "LanguageModelling", Stopped)
    settings = tiny_config("oelm", **{**STEPS, "save_every": 8}, bad_steps="roll-back")  # type: ignore[arg-type]
    trained(settings, tmp_path / "straight")
    stopped, kept = tmp_path / "stopped", []
    for asked_at in (8, 9):  # the leap is in update 13
        Stopped.stops_at.add(asked_at)
        with pytest.raises(Interrupted):
            trained(settings, stopped, resume=(stopped / "checkpoint").exists())
        kept.append([int(path.name[5:]) for path in Checkpoints(stopped / "checkpoint", "").steps()])
    trained(settings, stopped, resume=True)
    assert last_weights(stopped) == last_weights(tmp_path / "straight")
    assert timeless_events(stopped) == timeless_events(tmp_path / "straight")
    assert kept == [[8, 9], [8, 9, 11]]


@pytest.mark.usefixtures("poisoned")
def test_a_batch_has_one_digest_however_it_is_split(tmp_path: Path) -> None:
    for name, split in (("whole", {"batch_size": 2}), ("split", {"batch_size": 1, "accumulate": 2})):
        trained(tiny_config("oelm", **STEPS, **split, bad_steps="skip"), tmp_path / name)  # type: ignore[arg-type]
    whole, split = ([event.batch for event in bad_steps(tmp_path / name)] for name in ("whole", "split"))
    assert whole == split
    assert len(set(whole)) == 2


class Hopeless(subjects.LanguageModelling):
    """Never a number again from update 8 on."""

    def loss(self, model, batch):  # type: ignore[no-untyped-def]
        loss = super().loss(model, batch)
        self.calls = getattr(self, "calls", 0) + model.training
        return type(loss)(loss.total * (float("nan") if self.calls > 7 else 1.0), loss.count)


@pytest.mark.parametrize("policy", ["skip", "roll-back"])
def test_what_does_not_get_better_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setattr(subjects, "LanguageModelling", Hopeless)
    with pytest.raises(DivergedError, match=r"in step 18"):
        trained(config(policy), tmp_path / "run")
    assert len(bad_steps(tmp_path / "run")) == 11


@pytest.mark.usefixtures("poisoned")
def test_in_float16_it_is_an_overflow(tmp_path: Path) -> None:
    """As with torch's scaler: passed over and counted, even where the policy is to stop."""
    record = trained(tiny_config("oelm", **STEPS, precision=Precision.FLOAT16), tmp_path / "run")  # type: ignore[arg-type]
    assert record.skipped_steps == 1
    assert bad_steps(tmp_path / "run") == []
    saved = read_json(tmp_path / "run/checkpoint/step-00000020/training.json")["progress"]
    assert saved["loss_scale"] == {"value": 32768.0, "good_steps": 12, "usual_count": 32.0}
    assert all(math.isfinite(event.loss) for event in step_events(tmp_path / "run"))


def test_in_float16_a_loss_overflows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as an overflow although the gradient is finite: nothing is applied, and the scale is lowered."""
    monkeypatch.setattr(subjects, "LanguageModelling", Overflowing)
    record = trained(tiny_config("oelm", **STEPS, precision=Precision.FLOAT16), tmp_path / "run")  # type: ignore[arg-type]
    assert record.skipped_steps == 2
    assert bad_steps(tmp_path / "run") == []
    saved = read_json(tmp_path / "run/checkpoint/step-00000020/training.json")["progress"]
    assert (saved["loss_scale"]["value"], saved["loss_scale"]["good_steps"]) == (16384.0, 12)
    steps = step_events(tmp_path / "run")
    assert [event.step for event in steps] == [step for step in range(1, 21) if step not in (1, 8)]
    assert all(1 < loss < 10 for loss in (saved["usual_loss"], *(event.loss for event in steps)))


def test_the_logged_mean_is_of_usable_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first step that is bad leaves nothing behind, such as a usual loss of 0 that every later one leaps from."""
    monkeypatch.setattr(subjects, "LanguageModelling", Overflowing)
    for every in (1, 5):
        every_so_many = tiny_config("oelm", **{**STEPS, "log_every": every}, bad_steps="skip")  # type: ignore[arg-type]
        assert trained(every_so_many, tmp_path / str(every)).skipped_steps == 2
        assert [event.step for event in bad_steps(tmp_path / str(every))] == [1, 8]
    single = {event.step: event.loss for event in step_events(tmp_path / "1")}
    for event in step_events(tmp_path / "5"):
        usable = [single[step] for step in range(event.step - 4, event.step + 1) if step in single]
        assert event.loss == pytest.approx(sum(usable) / len(usable))


def test_in_float16_too_what_does_not_get_better_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale is 65,536 = 2^16: seventeen halvings, and there is nothing left to lower."""
    monkeypatch.setattr(subjects, "LanguageModelling", Hopeless)
    long = {**STEPS, "steps": 40, "validate_every": 40}
    with pytest.raises(DivergedError, match=r"the loss is nan in step 24"):
        trained(tiny_config("oelm", **long, precision=Precision.FLOAT16), tmp_path / "run")  # type: ignore[arg-type]


@pytest.mark.usefixtures("poisoned")
def test_without_a_checkpoint_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    late = tiny_config("oelm", **{**STEPS, "save_every": 20}, bad_steps="roll-back")  # type: ignore[arg-type]
    with pytest.raises(DivergedError, match="before there was a checkpoint"):
        trained(late, tmp_path / "run")
