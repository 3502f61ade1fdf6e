"""How the Query and Key matrices are drawn: the heart of the method.

An attention head scores two tokens by s(x, x') = (W_Q x) . (W_K x') / sqrt(K). OELM draws W_Q and W_K once,
orthogonal *within each head*, and never trains them. Every function here returns a stack W_HKD of unit rows in
float64 (QR in half precision fails; the caller casts once), and draws from the generator it is given and from
nothing else. The size of the rows is a separate number: `gain`.
"""

# H heads  K head width  D model width

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from oelm.config.method import KeySource, Projection, Scale
from oelm.method.weights import HeadShape


def orthonormal_rows(rows: int, width: int, generator: torch.Generator) -> Tensor:
    """`rows` random orthonormal vectors: W W^T = I, uniformly distributed.

    The transposed Q of A = QR with A_ij ~ N(0, 1); fixing the signs by diag(R) makes the distribution uniform (Haar).
    """
    gaussian = torch.randn(width, rows, dtype=torch.float64, generator=generator)
    orthonormal, triangular = torch.linalg.qr(gaussian)
    signs = torch.where(torch.diagonal(triangular) < 0, -1.0, 1.0).to(torch.float64)
    rows_by_width: Tensor = (orthonormal * signs).T.contiguous()
    return rows_by_width


def headwise_orthogonal(shape: HeadShape, generator: torch.Generator) -> Tensor:
    """W_h W_h^T = I for each head h; the heads are drawn independently, so they overlap."""
    heads = [orthonormal_rows(shape.head_width, shape.model_width, generator) for _ in range(shape.heads)]
    return torch.stack(heads)


def global_orthogonal(shape: HeadShape, generator: torch.Generator) -> Tensor:
    """W W^T = I for all heads together, so also W_h W_g^T = 0 for h != g: a rotation of the residual stream."""
    return orthonormal_rows(shape.heads * shape.head_width, shape.model_width, generator).view(shape)


def normal(shape: HeadShape, generator: torch.Generator) -> Tensor:
    """W_ij ~ N(0, 1/D): unit rows in expectation."""
    return torch.randn(shape, dtype=torch.float64, generator=generator) / math.sqrt(shape.model_width)


def xavier(shape: HeadShape, generator: torch.Generator) -> Tensor:
    """W_ij ~ U(-sqrt(3/D), sqrt(3/D)), which is Xavier's for a square matrix: unit rows in expectation."""
    uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
    return (2 * uniform - 1) * math.sqrt(3 / shape.model_width)


def coordinate_frame(shape: HeadShape, generator: torch.Generator) -> Tensor:  # noqa: ARG001 (nothing is random)
    """Head h reads coordinates hK .. hK+K-1: rows of the identity.

    Orthogonal, frozen and free: the model stores no matrix and runs no matmul, it only slices (see `model/attention`).
    """
    return torch.eye(shape.heads * shape.head_width, shape.model_width, dtype=torch.float64).view(shape)


def frame_coordinates(shape: HeadShape, *, strided: bool) -> Tensor:
    """(H, K): which coordinates of x each head of a frame reads, for heads that may be thinner than their slice D/H.

    Head h reads the first K of its slice, hD/H, hD/H+1, ...; or strided, the first K of h, h+H, h+2H, ...
    """
    head_H1, index_1K = torch.arange(shape.heads)[:, None], torch.arange(shape.head_width)[None]
    if strided:
        return head_H1 + index_1K * shape.heads
    return head_H1 * (shape.model_width // shape.heads) + index_1K


def frame_matrix(shape: HeadShape, *, strided: bool) -> Tensor:
    """The rows of the identity that a frame reads, as a matrix (H, K, D): for those who cannot slice."""
    return torch.eye(shape.model_width, dtype=torch.float64)[frame_coordinates(shape, strided=strided)]


def stored_frame(shape: HeadShape, generator: torch.Generator) -> Tensor:  # noqa: ARG001 (nothing is random)
    """The same rows as a matrix that can be trained: is it the frame, or only where training starts?"""
    return frame_matrix(shape, strided=False)


Draw = Callable[[HeadShape, torch.Generator], Tensor]

PROJECTIONS: Mapping[Projection, Draw] = {
    Projection.NORMAL: normal,
    Projection.XAVIER: xavier,
    Projection.GLOBAL_ORTHOGONAL: global_orthogonal,
    Projection.HEADWISE_ORTHOGONAL: headwise_orthogonal,
    Projection.COORDINATE_FRAME: coordinate_frame,
    Projection.STORED_FRAME: stored_frame,
}


def gain(projection: Projection, scale: Scale, model_width: int) -> float:
    """The norm of the rows. Only `normal` as the original had it (entries of std 0.02) differs from 1."""
    if scale is Scale.AS_ORIGINAL and projection is Projection.NORMAL:
        return 0.02 * math.sqrt(model_width)
    return 1.0


def key_heads(source: KeySource, heads: int) -> list[int]:
    """Which Q head's matrix each K head uses when K has none of its own."""
    match source:
        case KeySource.TIED:
            return list(range(heads))
        case KeySource.ROLLED:
            return [(head + 1) % heads if head % 2 else head for head in range(heads)]
        case KeySource.OWN:
            raise ValueError("a key with a projection of its own takes no query head's")
