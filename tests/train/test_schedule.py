import math

import pytest

from oelm.config.run import OptimConfig, Schedule
from oelm.train.schedule import learning_rate

OPTIM = OptimConfig(lr=0.2, min_lr_ratio=0.1, warmup_steps=10)


@pytest.mark.parametrize(("step", "rate"), [(0, 0.02), (4, 0.1), (9, 0.2), (10, 0.2), (60, 0.11), (110, 0.02)])
def test_known_values(step: int, rate: float) -> None:
    assert learning_rate(OPTIM, step, 110) == pytest.approx(rate)


def test_it_rises_then_falls_and_never_reaches_zero_before_the_end() -> None:
    rates = [learning_rate(OPTIM, step, 110) for step in range(110)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert min(rates) >= 0.02


def test_without_warmup_it_begins_at_the_peak() -> None:
    optim = OptimConfig(lr=1.0, warmup_steps=0)
    assert learning_rate(optim, 0, 8) == 1.0
    assert learning_rate(optim, 2, 8) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert learning_rate(optim, 0, 1) == 1.0


@pytest.mark.parametrize(("step", "rate"), [(4, 0.1), (10, 0.2), (35, 0.155), (60, 0.11), (110, 0.02)])
def test_a_straight_line(step: int, rate: float) -> None:
    linear = OPTIM.model_copy(update={"schedule": Schedule.LINEAR})
    assert learning_rate(linear, step, 110) == pytest.approx(rate)
    if step == 35:  # the cosine stays higher in the first half
        assert learning_rate(OPTIM, step, 110) > rate + 0.01
