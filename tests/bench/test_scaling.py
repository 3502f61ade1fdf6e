"""The fit finds what was put in, and costs are the ledger's."""

import pytest

from oelm.bench.scaling import cost_of, fit, grid
from oelm.bench.spec import BenchRequest, What, specs_of
from oelm.config.methods import parse_method
from oelm.model.ledger import count_flops


def small():
    (spec,) = specs_of(BenchRequest(what=(What.SCALING,)))
    return spec


def test_the_grid_changes_one_measure_at_a_time():
    centre, *others = [
        (point.shape.layers, point.shape.width, point.shape.context, point.batch_size) for point in grid(small())
    ]
    assert centre == (4, 256, 256, 4)
    assert len(set(others)) == len(others) == 12
    assert all(sum(a != b for a, b in zip(centre, other, strict=True)) == 1 for other in others)


@pytest.mark.parametrize("method", ["baseline", "oelm", "oelm-frame"])
def test_costs_are_the_ledgers(method):
    spec = small()
    cost = cost_of(spec, parse_method(method))
    counted = count_flops(spec.shape, parse_method(method), total_steps=1, tokens=spec.batch_size * spec.shape.context)
    assert cost.matmul + cost.attention == pytest.approx(counted.run)
    assert cost.attention == 6 * 4 * 256 * 4 * 257 * 256


def test_the_fit_finds_the_coefficients_that_made_the_times():
    points = grid(small())
    true = {"fixed": 3e-3, "matmul": 2e-11, "attention": 5e-11, "weights": 1e-9}
    seconds = []
    for point in points:
        cost = cost_of(point, parse_method("oelm"))
        seconds.append(
            true["fixed"]
            + true["matmul"] * cost.matmul
            + true["attention"] * cost.attention
            + true["weights"] * cost.weights
        )
    found = fit("oelm", points, seconds)
    for name, value in true.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6), name
    assert found.rms_residual < 1e-9


def test_times_of_another_law_leave_residuals():
    points = grid(small())
    seconds = [1e-3 * point.shape.layers**2 for point in points]
    found = fit("baseline", points, seconds)
    assert found.rms_residual > 0.1
    assert min(found.fixed, found.matmul, found.attention, found.weights) >= 0
