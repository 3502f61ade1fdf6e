"""Frozen means frozen, sums with counts, and the arithmetic around them."""

import math
import shutil

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from builders import VARIETY
from oelm.base.errors import FreezeError
from oelm.base.runtime import sum_dtype
from oelm.config.run import Precision
from oelm.data.tokens import TokenFolder
from oelm.experiments.subjects import build_model, language_modelling
from oelm.method.freezing import frozen_names
from oelm.model.ledger import weight_table
from oelm.tasks.task import Batch, LossSum, Task
from oelm.train.engine import Engine
from train.toys import (
    RAGGED_OPTIM,
    RaggedTask,
    engine_for,
    gradients,
    ragged_engine,
    set_gradients,
    tiny_config,
    tokens,
)

THAWS = (
    "oelm+until=3",
    "oelm+thaw=2..4",
    "oelm+every=3",
    "oelm-ffn+until=3",
    "oelm+freeze=q+layers=1+every=2",
    "oelm-core+from=3",
)


def lm_task(**changes: object) -> Task:
    return language_modelling(tiny_config(**changes), TokenFolder.open(tokens()))  # type: ignore[arg-type]


def copies(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def moved(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


def one_step(engine: Engine, task: Task, step: int) -> None:
    engine.accumulate(task, step)
    engine.update(lr=1e-2)


@pytest.mark.parametrize("method", VARIETY)
def test_the_trained_set_is_the_plans_and_only_it_moves(method: str) -> None:
    config = tiny_config(method, weight_decay=0.5, layers=3)
    table = weight_table(config.model, config.method)
    frozen = frozen_names(config.method.plan, table, 0, config.train.steps)
    engine, task = engine_for(config), lm_task(layers=3)
    engine.ensure_frozen(frozen)
    stored = {weight.name for weight in table if weight.stored}
    assert engine.optimised_names == engine.trained.keys() == stored - frozen
    before = copies(engine.model)
    for step in range(3):  # a low-rank update's `down` has no gradient before its `up` has left zero
        engine.accumulate(task, step)
        assert gradients(engine).keys() == stored - frozen
        engine.update(lr=1e-2)
    assert moved(engine.model, before) == stored - frozen
    assert engine.moments().keys() == stored - frozen


@pytest.mark.parametrize("method", THAWS)
def test_a_calendar_moves_in_each_step_what_the_plan_says(method: str) -> None:
    config = tiny_config(method, weight_decay=0.5)
    table = weight_table(config.model, config.method)
    engine, task, sizes = engine_for(config), lm_task(), set()
    for step in range(7):
        frozen = frozen_names(config.method.plan, table, step, 20)
        engine.ensure_frozen(frozen)
        before = copies(engine.model)
        one_step(engine, task, step)
        assert moved(engine.model, before) == before.keys() - frozen, step
        assert engine.optimised_names == before.keys() - frozen
        sizes.add(len(frozen))
    assert len(sizes) > 1, "the calendar never changed"


def test_a_zeroed_gradient_is_not_a_freeze() -> None:
    """The twin of the tests above: AdamW decays what has a zero gradient, and the same check notices."""
    config = tiny_config("baseline", weight_decay=0.5)
    engine, task = engine_for(config), lm_task()
    engine.ensure_frozen(frozenset())
    query = engine.model.get_parameter("layers.0.attention.q.weight")
    before = copies(engine.model)
    for step in range(3):
        engine.accumulate(task, step)
        assert query.grad is not None
        query.grad.zero_()
        engine.update(lr=1e-2)
    assert "layers.0.attention.q.weight" in moved(engine.model, before)


def test_moments_survive_a_pause() -> None:
    engine, task = engine_for(tiny_config("baseline")), lm_task()
    engine.ensure_frozen(frozenset())
    one_step(engine, task, 0)
    name = "layers.0.attention.q.weight"
    first = engine.moments()[name]["exp_avg"].clone()
    engine.ensure_frozen(frozenset({name}))
    one_step(engine, task, 1)
    assert torch.equal(engine.moments()[name]["exp_avg"], first), "parked moments stand still"
    engine.ensure_frozen(frozenset())
    assert engine.moments()[name]["step"].item() == 1
    one_step(engine, task, 2)
    assert engine.moments()[name]["step"].item() == 2
    assert engine.moments()["layers.0.attention.v.weight"]["step"].item() == 3


def test_a_freeze_leaves_no_gradient_behind() -> None:
    engine = engine_for(tiny_config("baseline"))
    engine.ensure_frozen(frozenset())
    engine.accumulate(lm_task(), 0)
    assert engine.ensure_frozen(frozenset({"layers.0.attention.q.weight"}))
    assert gradients(engine) == {}
    assert not engine.ensure_frozen(frozenset({"layers.0.attention.q.weight"})), "nothing changed the second time"


def test_an_unknown_tensor_cannot_be_frozen() -> None:
    engine = engine_for(tiny_config("baseline"))
    with pytest.raises(FreezeError, match=r"layers\.9"):
        engine.ensure_frozen(frozenset({"layers.9.attention.q.weight"}))


class MeanOfMeans(RaggedTask):
    """The wrong task: every micro-batch counts as one."""

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        right = super().loss(model, batch)
        return LossSum(right.total / right.count, torch.tensor(1))


def _gradients_of(task: RaggedTask, accumulate: int) -> dict[str, Tensor]:
    engine = ragged_engine(accumulate=accumulate)
    engine.ensure_frozen(frozenset())
    engine.accumulate(task, 0)
    return gradients(engine)


def _difference(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    assert first.keys() == second.keys()
    return max((first[name] - second[name]).abs().max().item() for name in first)


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_accumulation_of_ragged_counts_is_one_big_batch(parts: int) -> None:
    whole = _gradients_of(RaggedTask(), 1)
    assert _difference(_gradients_of(RaggedTask(), parts), whole) < 1e-12
    assert _difference(_gradients_of(MeanOfMeans(), parts), whole) > 1e-4


def test_the_loss_is_the_mean_over_all_counts() -> None:
    one, four = ragged_engine(), ragged_engine(accumulate=4)
    losses = []
    for engine in (one, four):
        engine.ensure_frozen(frozenset())
        engine.accumulate(RaggedTask(), 0)
        update = engine.update(lr=1e-2)
        assert update.tokens == 8 * 8
        losses.append(update.loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_clipping_bounds_the_gradient_and_reports_its_norm() -> None:
    engine = ragged_engine()
    engine.ensure_frozen(frozenset())
    set_gradients(engine, 1.0)
    weights = sum(p.numel() for p in engine.model.parameters())
    assert engine.update(lr=1e-2).gradient_norm == pytest.approx(weights**0.5)
    first = {name: state["exp_avg"] for name, state in engine.moments().items()}  # (1 - beta1) x the clipped gradient
    norm = sum(moment.square().sum().item() for moment in first.values()) ** 0.5
    assert norm / (1 - RAGGED_OPTIM.beta1) == pytest.approx(RAGGED_OPTIM.clip, rel=1e-5)


def test_a_gradient_below_the_clip_is_left_alone() -> None:
    engine = ragged_engine()
    engine.ensure_frozen(frozenset())
    set_gradients(engine, 1e-4)
    engine.update(lr=1e-2)
    moment = engine.moments()["final_norm.bias"]["exp_avg"]
    assert moment[0].item() == pytest.approx(1e-4 * (1 - RAGGED_OPTIM.beta1), rel=1e-6)


def test_a_gradient_that_is_no_number_updates_nothing() -> None:
    engine = ragged_engine()
    engine.ensure_frozen(frozenset())
    engine.accumulate(RaggedTask(), 0)
    gradient = engine.model.get_parameter("final_norm.bias").grad
    assert gradient is not None
    gradient[0] = float("nan")
    before = copies(engine.model)
    norm = engine.update(lr=1e-2).gradient_norm
    assert norm != norm
    assert moved(engine.model, before) == set()
    assert engine.moments()["final_norm.weight"]["exp_avg"].count_nonzero() == 0


def test_a_loss_that_is_no_number_updates_nothing_either() -> None:
    """Although the gradient beside it is finite, and a leap would be let through."""
    engine = ragged_engine()
    engine.ensure_frozen(frozenset())
    set_gradients(engine, 1.0)
    engine._sums[0] = math.inf
    before = copies(engine.model)
    update = engine.update(lr=1e-2)
    assert (math.isfinite(update.gradient_norm), update.finite, update.applied) == (True, False, False)
    assert moved(engine.model, before) == set()


def test_moments_that_were_gathered_since_are_forgotten() -> None:
    """Going back to a checkpoint of before a thaw: what was frozen then has no moments again."""
    engine, task = engine_for(tiny_config("baseline")), lm_task()
    name = "layers.0.attention.q.weight"
    engine.ensure_frozen(frozenset({name}))
    one_step(engine, task, 0)
    saved = engine.moments()
    engine.ensure_frozen(frozenset())
    one_step(engine, task, 1)
    assert name in engine.moments()
    engine.set_moments(saved)
    assert engine.moments().keys() == saved.keys()
    one_step(engine, task, 2)
    assert engine.moments()[name]["step"].item() == 1


class WithoutFloat64(TorchDispatchMode):
    """As on MPS, which no machine of ours has: no operation gives a tensor of float64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.dtype is torch.float64 for leaf in tree_leaves(result)):
            raise TypeError(f"{func} makes a tensor of float64")
        return result


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.FLOAT16])
def test_a_step_on_mps_needs_no_float64(monkeypatch: pytest.MonkeyPatch, precision: Precision) -> None:
    config, task = tiny_config(precision=precision), lm_task()
    model = build_model(config)
    monkeypatch.setattr("oelm.train.engine.sum_dtype", lambda _: sum_dtype(torch.device("mps")))
    with WithoutFloat64():
        engine = engine_for(config, model)
        engine.ensure_frozen(frozenset())
        engine.accumulate(task, 0)
        assert engine.update(lr=1e-2, most_loss=10.0).applied


def test_dropout_is_a_function_of_the_step() -> None:
    config = tiny_config("baseline", dropout=0.3)
    engine, task = engine_for(config), lm_task()
    engine.ensure_frozen(frozenset())

    def loss(step: int) -> float:
        engine.model.zero_grad(set_to_none=True)
        engine.accumulate(task, step)
        return engine._sums[0].item()

    first = loss(4)
    torch.rand(7)  # whatever else draws from the global stream
    assert loss(4) == first
    engine.model.eval()
    assert loss(4) == first, "accumulate trains, whatever validation left behind"
    assert engine_for(tiny_config("baseline")).model.training


def test_evaluation_sees_no_dropout_and_leaves_no_trace() -> None:
    engine, task = engine_for(tiny_config("baseline", dropout=0.5)), lm_task()
    engine.ensure_frozen(frozenset())
    before = copies(engine.model)
    assert engine.evaluate(task) == engine.evaluate(task)
    assert moved(engine.model, before) == set()
    assert gradients(engine) == {}
    assert engine.model.training


def test_bf16_is_near_float32_and_not_the_same() -> None:
    losses = {}
    for precision in (Precision.FLOAT32, Precision.BF16):
        engine, task = engine_for(tiny_config("baseline", precision=precision)), lm_task()
        engine.ensure_frozen(frozenset())
        one_step(engine, task, 0)
        assert all(p.dtype is torch.float32 for p in engine.model.parameters())
        assert all(t.dtype is torch.float32 for state in engine.moments().values() for t in state.values())
        losses[precision] = engine.evaluate(task)["loss"]
    assert losses[Precision.BF16] != losses[Precision.FLOAT32]
    assert losses[Precision.BF16] == pytest.approx(losses[Precision.FLOAT32], rel=1e-2)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")  # of torch's own compiler
@pytest.mark.parametrize(("method", "style"), [("oelm", "gpt"), ("oelm-core+freeze=0.5", "llama")])
def test_a_compiled_model_trains_the_same_and_respects_a_thaw(method: str, style: str) -> None:
    config = tiny_config(method, layers=1, precision=Precision.FLOAT64, style=style)
    frozen = frozen_names(config.method.plan, weight_table(config.model, config.method), 0, 20)
    results = []
    for compiled in (False, True):
        engine, task = engine_for(config, build_model(config), compile_model=compiled), lm_task()
        for step, held in enumerate((frozen, frozenset[str]())):
            engine.ensure_frozen(held)
            before = copies(engine.model)
            engine.accumulate(task, step)
            assert gradients(engine).keys() == before.keys() - held
            engine.update(lr=1e-2)
            assert moved(engine.model, before) == before.keys() - held
        results.append(copies(engine.model))
    eager, compiled_weights = results
    assert _difference(eager, compiled_weights) < 1e-9
