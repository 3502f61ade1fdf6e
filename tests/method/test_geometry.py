import math

import pytest
import torch
from torch import Tensor

from oelm.base.runtime import generator_for
from oelm.config.method import Projection, Scale
from oelm.method.geometry import cross_head_overlap, gram_error, logit_std, row_norm, unit_rows
from oelm.method.projections import PROJECTIONS, gain
from oelm.method.weights import HeadShape

SHAPE = HeadShape(4, 6, 24)


def draw(projection: Projection, shape: HeadShape = SHAPE, *purpose: str) -> Tensor:
    return PROJECTIONS[projection](shape, generator_for(0, "geometry", *purpose))


def test_row_norm_is_the_gain_whatever_the_directions() -> None:
    w_HKD = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
    assert row_norm(w_HKD) == pytest.approx(math.sqrt((25 + 1) / 2))
    assert row_norm(7 * draw(Projection.HEADWISE_ORTHOGONAL)) == pytest.approx(7)
    assert row_norm(unit_rows(3 * draw(Projection.NORMAL))) == pytest.approx(1)


@pytest.mark.parametrize("projection", Projection)
def test_gram_error_by_its_definition(projection: Projection) -> None:
    w_HKD = draw(projection)
    unit = w_HKD / math.sqrt(sum(float(row @ row) for head in w_HKD for row in head) / 24)
    worst = max(abs(float(head[i] @ head[j]) - float(i == j)) for head in unit for i in range(6) for j in range(6))
    assert gram_error(0.3 * w_HKD) == pytest.approx(worst, abs=1e-12)


def test_gram_error_tells_orthogonal_from_random() -> None:
    assert gram_error(5 * draw(Projection.HEADWISE_ORTHOGONAL)) < 1e-12
    assert gram_error(draw(Projection.NORMAL)) > 0.1
    uneven = draw(Projection.HEADWISE_ORTHOGONAL).clone()
    uneven[0, 0] *= 2
    assert gram_error(uneven) > 0.5  # orthogonal but not of equal length


@pytest.mark.parametrize("projection", Projection)
def test_cross_head_overlap_by_its_definition(projection: Projection) -> None:
    w_HKD = unit_rows(draw(projection))
    products = [
        float(w_HKD[h, i] @ w_HKD[g, j])
        for h in range(4)
        for g in range(4)
        if h != g
        for i in range(6)
        for j in range(6)
    ]
    expected = math.sqrt(sum(product**2 for product in products) / len(products))
    assert cross_head_overlap(0.3 * draw(projection)) == pytest.approx(expected, abs=1e-12)


def test_cross_head_overlap_tells_headwise_from_global() -> None:
    shape = HeadShape(8, 16, 128)
    assert cross_head_overlap(draw(Projection.HEADWISE_ORTHOGONAL, shape)) == pytest.approx(1 / math.sqrt(128), rel=0.1)
    assert cross_head_overlap(draw(Projection.GLOBAL_ORTHOGONAL, shape)) < 1e-12
    assert cross_head_overlap(draw(Projection.NORMAL, HeadShape(1, 8, 8))) == 0


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (Projection.NORMAL, Projection.NORMAL),
        (Projection.HEADWISE_ORTHOGONAL, Projection.XAVIER),
        (Projection.COORDINATE_FRAME, Projection.COORDINATE_FRAME),
    ],
)
def test_logit_std_is_what_random_tokens_see(query: Projection, key: Projection) -> None:
    q_HKD, k_HKD = 2 * draw(query, SHAPE, "q"), 0.7 * draw(key, SHAPE, "k")
    generator = generator_for(0, "monte carlo")
    x_ND = torch.randn(40_000, 24, dtype=torch.float64, generator=generator)
    y_ND = torch.randn(40_000, 24, dtype=torch.float64, generator=generator)
    logits_HN = torch.einsum("hkd,nd,hke,ne->hn", q_HKD, x_ND, k_HKD, y_ND) / math.sqrt(6)
    sampled = logits_HN.square().mean().sqrt().item()
    assert logit_std(q_HKD, k_HKD) == pytest.approx(sampled, rel=0.02)
    assert logit_std(q_HKD, k_HKD) != pytest.approx(sampled * math.sqrt(6), rel=0.02)  # without 1/sqrt(K)


@pytest.mark.parametrize(("width", "heads", "ratio"), [(512, 8, 4.9), (768, 12, 3.3)])
def test_the_original_compared_logits_of_different_size(width: int, heads: int, ratio: float) -> None:
    shape = HeadShape(heads, 64, width)

    def std(projection: Projection, scale: Scale) -> float:
        size = gain(projection, scale, width)
        return logit_std(size * draw(projection, shape, "q"), size * draw(projection, shape, "k"))

    orthogonal = std(Projection.HEADWISE_ORTHOGONAL, Scale.AS_ORIGINAL)
    assert orthogonal == pytest.approx(1)
    assert orthogonal / std(Projection.NORMAL, Scale.AS_ORIGINAL) == pytest.approx(ratio, abs=0.06)
    assert orthogonal / std(Projection.NORMAL, Scale.NORM_MATCHED) == pytest.approx(1, abs=0.02)
