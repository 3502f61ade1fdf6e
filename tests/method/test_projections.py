import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oelm.base.runtime import generator_for
from oelm.config.method import KeySource, Projection, Scale
from oelm.method.projections import (
    PROJECTIONS,
    HeadShape,
    frame_coordinates,
    frame_matrix,
    gain,
    key_heads,
    orthonormal_rows,
)

SHAPE = HeadShape(heads=4, head_width=8, model_width=32)
RANDOM = sorted(set(Projection) - {Projection.COORDINATE_FRAME, Projection.STORED_FRAME})
ORTHOGONAL = (
    Projection.HEADWISE_ORTHOGONAL,
    Projection.GLOBAL_ORTHOGONAL,
    Projection.COORDINATE_FRAME,
    Projection.STORED_FRAME,
)

shapes = st.builds(
    lambda heads, head_width, more: HeadShape(heads, head_width, heads * head_width + more),
    st.integers(1, 5),
    st.integers(1, 7),
    st.integers(0, 4),
)


def draw(projection: Projection, shape: HeadShape = SHAPE, seed: int = 0) -> Tensor:
    return PROJECTIONS[projection](shape, generator_for(seed, "test"))


def within(w_HKD: Tensor) -> float:
    """max |W_h W_h^T - I|, written out."""
    return max((w_KD @ w_KD.T - torch.eye(len(w_KD), dtype=w_KD.dtype)).abs().max().item() for w_KD in w_HKD)


def across(w_HKD: Tensor) -> float:
    """max |W_h W_g^T| over h != g, written out."""
    heads = range(len(w_HKD))
    return max(((w_HKD[h] @ w_HKD[g].T).abs().max().item() for h in heads for g in heads if h != g), default=0.0)


def test_the_table_is_total() -> None:
    assert set(PROJECTIONS) == set(Projection)


@given(shapes, st.sampled_from(list(Projection)), st.integers(0, 3))
def test_shape_dtype_and_own_stream(shape: HeadShape, projection: Projection, seed: int) -> None:
    before = torch.get_rng_state()
    w_HKD = draw(projection, shape, seed)
    assert w_HKD.shape == tuple(shape)
    assert w_HKD.dtype is torch.float64
    assert w_HKD.is_contiguous()
    torch.randn(3)  # neither another stream ...
    draw(Projection.NORMAL, shape, seed + 1)  # ... nor another draw disturbs this one
    assert torch.equal(w_HKD, draw(projection, shape, seed))
    torch.set_rng_state(before)
    draw(projection, shape, seed)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("projection", RANDOM)
def test_another_seed_draws_another_matrix(projection: Projection) -> None:
    assert not torch.equal(draw(projection, seed=0), draw(projection, seed=1))
    generator = generator_for(0, "test")
    assert not torch.equal(PROJECTIONS[projection](SHAPE, generator), PROJECTIONS[projection](SHAPE, generator))


@given(shapes, st.sampled_from(ORTHOGONAL))
def test_each_orthogonal_head_is_orthonormal(shape: HeadShape, projection: Projection) -> None:
    assert within(draw(projection, shape)) < 1e-12


def test_headwise_is_not_global() -> None:
    """The Gram error within heads is 0 for both; what tells them apart is the overlap across heads."""
    headwise, one = draw(Projection.HEADWISE_ORTHOGONAL), draw(Projection.GLOBAL_ORTHOGONAL)
    assert within(headwise) < 1e-12
    assert across(headwise) > 0.2
    assert within(one) < 1e-12
    assert across(one) < 1e-12


@given(shapes)
def test_global_heads_never_overlap(shape: HeadShape) -> None:
    assert across(draw(Projection.GLOBAL_ORTHOGONAL, shape)) < 1e-12


@pytest.mark.parametrize("projection", [Projection.NORMAL, Projection.XAVIER])
def test_random_matrices_are_not_orthogonal(projection: Projection) -> None:
    assert within(draw(projection)) > 0.1


@pytest.mark.parametrize("projection", Projection)
def test_rows_have_unit_norm(projection: Projection) -> None:
    norms = draw(projection, HeadShape(8, 32, 256)).norm(dim=-1)
    assert norms.square().mean().sqrt().item() == pytest.approx(1, abs=1e-12 if projection in ORTHOGONAL else 0.02)
    # Orthonormal rows have norm 1 each; random ones scatter around it.
    scatter = norms.std().item()
    assert scatter < 1e-12 if projection in ORTHOGONAL else 0.01 < scatter < 0.1


def test_normal_is_normal_and_xavier_is_uniform() -> None:
    shape = HeadShape(8, 32, 256)
    normal, xavier = draw(Projection.NORMAL, shape), draw(Projection.XAVIER, shape)
    bound = math.sqrt(3 / 256)
    assert xavier.abs().max().item() == pytest.approx(bound, rel=1e-3)
    assert normal.abs().max().item() > 1.5 * bound

    def kurtosis(w: Tensor) -> float:
        return (w.pow(4).mean() / w.square().mean().square()).item()

    assert kurtosis(normal) == pytest.approx(3.0, abs=0.1)
    assert kurtosis(xavier) == pytest.approx(1.8, abs=0.05)


@given(shapes)
def test_a_coordinate_frame_reads_its_own_coordinates(shape: HeadShape) -> None:
    x_D = torch.arange(shape.model_width, dtype=torch.float64)
    read_HK = draw(Projection.COORDINATE_FRAME, shape) @ x_D
    expected = [[h * shape.head_width + k for k in range(shape.head_width)] for h in range(shape.heads)]
    assert read_HK.tolist() == expected


def test_frames_that_are_thin_or_strided() -> None:
    thin = HeadShape(heads=3, head_width=2, model_width=12)
    assert frame_coordinates(thin, strided=False).tolist() == [[0, 1], [4, 5], [8, 9]]
    assert frame_coordinates(thin, strided=True).tolist() == [[0, 3], [1, 4], [2, 5]]
    full = HeadShape(heads=3, head_width=4, model_width=12)
    assert torch.equal(frame_matrix(full, strided=False), draw(Projection.COORDINATE_FRAME, full))
    assert frame_coordinates(full, strided=True).tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    for shape in (thin, full):
        x_D = torch.arange(12, dtype=torch.float64)
        for strided in (False, True):
            w_HKD = frame_matrix(shape, strided=strided)
            assert (w_HKD @ x_D).tolist() == frame_coordinates(shape, strided=strided).tolist()
            assert max(within(w_HKD), across(w_HKD)) == 0


def test_signs_are_fixed_by_the_diagonal_of_r() -> None:
    """W G = R must be upper triangular with a positive diagonal; LAPACK's own choice of signs is neither."""
    rows, width = 5, 9
    gaussian = torch.randn(width, rows, dtype=torch.float64, generator=generator_for(0, "qr"))
    triangular = orthonormal_rows(rows, width, generator_for(0, "qr")) @ gaussian
    assert triangular.tril(-1).abs().max() < 1e-12
    assert triangular.diagonal().min() > 0
    naive = torch.linalg.qr(gaussian).Q.T @ gaussian
    assert naive.diagonal().min() < 0


def test_rows_are_uniformly_distributed() -> None:
    """Haar: a row and its negative are equally likely. The first entry of a naive QR has one sign."""
    generator, naive_generator = generator_for(0, "haar"), generator_for(0, "haar")
    ours, naive = [], []
    for _ in range(400):
        ours.append(orthonormal_rows(3, 4, generator))
        naive.append(torch.linalg.qr(torch.randn(4, 3, dtype=torch.float64, generator=naive_generator)).Q.T)
    ours, naive = torch.stack(ours), torch.stack(naive)
    error = 4 * math.sqrt(1 / 4 / 400)  # entries have variance 1/4; four standard errors
    assert ours.mean(0).abs().max() < error
    assert naive.mean(0).abs().max() > error
    # Second moments of Haar: E[w w^T] = I / 4 for each row.
    second = torch.einsum("nki,nkj->kij", ours, ours) / 400
    assert (second - torch.eye(4, dtype=torch.float64) / 4).abs().max() < 0.06


def test_gain_differs_from_one_only_for_normal_as_the_original_had_it() -> None:
    for projection in Projection:
        for scale in Scale:
            special = (projection, scale) == (Projection.NORMAL, Scale.AS_ORIGINAL)
            assert gain(projection, scale, 512) == (pytest.approx(0.02 * math.sqrt(512)) if special else 1.0)
    shape = HeadShape(4, 16, 64)
    entries = gain(Projection.NORMAL, Scale.AS_ORIGINAL, 64) * draw(Projection.NORMAL, shape)
    assert entries.std().item() == pytest.approx(0.02, rel=0.05)


def test_which_query_head_a_key_head_takes() -> None:
    assert key_heads(KeySource.TIED, 4) == [0, 1, 2, 3]
    assert key_heads(KeySource.ROLLED, 4) == [0, 2, 2, 0]
    assert key_heads(KeySource.ROLLED, 1) == [0]
    with pytest.raises(ValueError, match="own"):
        key_heads(KeySource.OWN, 4)


@given(st.integers(1, 8).map(lambda half: 2 * half))
def test_rolling_moves_every_second_head_to_the_next(heads: int) -> None:
    rolled = key_heads(KeySource.ROLLED, heads)
    assert [h for h in range(heads) if rolled[h] != h] == list(range(1, heads, 2))
    assert all(rolled[h] == (h + 1) % heads for h in range(1, heads, 2))
