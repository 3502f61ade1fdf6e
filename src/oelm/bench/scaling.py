"""How the time of a training step grows with width, depth, context and batch: measured over a grid, and fitted.

    seconds = fixed + matmul * F_matmul + attention * F_attention + weights * W

F_matmul are the FLOPs of products with weights, F_attention those of scores and mixing, W the trained weights, which
the optimiser reads and writes. 1 / matmul is the rate of matrix products in FLOP/s.
"""

from dataclasses import dataclass
from statistics import median

import numpy as np

from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Scaling, ScalingFit, ScalingPoint
from oelm.bench.ours import training
from oelm.bench.rounds import Emit, interleave
from oelm.bench.spec import BenchSpec
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import default_ffn_width
from oelm.config.settings import parse
from oelm.method.cost import backward_flops, forward_flops, frozen_share
from oelm.model.ledger import count_weights, products, weight_table

FACTORS = (0.25, 0.5, 2.0)


@dataclass(frozen=True)
class Cost:
    """What a step of one size costs on paper."""

    matmul: float
    attention: float
    weights: int


def grid(spec: BenchSpec) -> tuple[BenchSpec, ...]:
    """The size that was asked for, and each of its four measures a quarter, half and double, one at a time.

    A width keeps the width of its heads; what comes out twice, or with less than one head or layer, is left out.
    """
    shape = spec.shape
    found = {_key(spec): spec}
    for factor in FACTORS:
        heads = max(1, round(shape.heads * factor))
        layers, context = max(1, round(shape.layers * factor)), max(2, round(shape.context * factor))
        width = heads * shape.head_width
        batch = max(1, round(spec.batch_size * factor))
        wider = {"width": width, "heads": heads, "ffn_width": default_ffn_width(shape.style, width)}
        changes = (wider, {"layers": layers}, {"context": context})
        others = [_changed(spec, change, spec.batch_size) for change in changes]
        for other in (*others, _changed(spec, {}, batch)):
            found.setdefault(_key(other), other)
    return tuple(found.values())


def measure_scaling(spec: BenchSpec, runtime: Runtime, emit: Emit) -> Scaling:
    """Time the whole grid in turns for every method, then fit."""
    points = grid(spec)
    acts = {
        f"{name}/{index}": training(point, name, runtime).act
        for name in spec.methods
        for index, point in enumerate(points)
    }
    timed = interleave(
        acts,
        rounds=spec.rounds,
        repeats=spec.repeats,
        runtime=runtime,
        product=None,
        emit=lambda line: emit(f"scaling: {line}"),
    )
    fits = []
    for name in spec.methods:
        seconds = [median(timed.rounds[f"{name}/{index}"]) for index in range(len(points))]
        fits.append(fit(name, points, seconds))
    return Scaling(spec=spec, fits=tuple(fits))


def fit(name: str, points: tuple[BenchSpec, ...], seconds: list[float]) -> ScalingFit:
    """Non-negative least squares of (fitted - measured) / measured."""
    from scipy.optimize import nnls

    costs = [cost_of(point, parse_method(name)) for point in points]
    terms = np.array([[1.0, cost.matmul, cost.attention, cost.weights] for cost in costs])
    scale = terms.max(axis=0)  # the terms differ by ten orders of magnitude
    measured = np.array(seconds)
    coefficients = nnls(terms / scale / measured[:, None], np.ones(len(points)))[0] / scale
    fitted = terms @ coefficients
    return ScalingFit(
        method=name,
        fixed=float(coefficients[0]),
        matmul=float(coefficients[1]),
        attention=float(coefficients[2]),
        weights=float(coefficients[3]),
        points=tuple(map(_point, points, costs, seconds, fitted.tolist())),
    )


def cost_of(spec: BenchSpec, method: Method) -> Cost:
    """FLOPs of a step from the ledger, split into products with weights and products of activations."""
    every, table = products(spec.shape, method), weight_table(spec.shape, method)
    frozen, tokens = frozen_share(method.plan, table, 1), spec.batch_size * spec.shape.context
    weighted = tuple(product for product in every if product.weight is not None)
    attention = tuple(product for product in every if product.weight is None)
    return Cost(
        matmul=tokens * (forward_flops(weighted) + backward_flops(weighted, frozen)),
        attention=tokens * (forward_flops(attention) + backward_flops(attention, frozen)),
        weights=count_weights(spec.shape, method, total_steps=1).trained,
    )


def _point(spec: BenchSpec, cost: Cost, seconds: float, fitted: float) -> ScalingPoint:
    return ScalingPoint(
        layers=spec.shape.layers,
        width=spec.shape.width,
        context=spec.shape.context,
        batch_size=spec.batch_size,
        seconds=seconds,
        matmul_flops=cost.matmul,
        attention_flops=cost.attention,
        trained_weights=cost.weights,
        fitted_seconds=fitted,
    )


def _changed(spec: BenchSpec, change: dict[str, int], batch: int) -> BenchSpec:
    shape = {**spec.shape.model_dump(), **change}
    return parse(BenchSpec, {**spec.model_dump(), "shape": shape, "batch_size": batch}, "oelm bench --what scaling")


def _key(spec: BenchSpec) -> tuple[int, int, int, int]:
    return spec.shape.layers, spec.shape.width, spec.shape.context, spec.batch_size
