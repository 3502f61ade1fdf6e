"""New matrices for a site: their directions, then the length of their rows."""

# H heads  K head width  D model width

import math

import torch
from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.config.method import KeySource, Pretrained, Projection, Scale
from oelm.method.projections import PROJECTIONS, HeadShape, key_heads
from oelm.surgery.operation import Operation
from oelm.surgery.orthogonal import head_norms, polar_heads, qr_heads
from oelm.surgery.sites import Projector, Site


def refuse_impossible(operation: Operation, site: Site) -> None:
    """Refuse keys that have no query of their own to take after, and more orthogonal rows than there is room for."""
    method = operation.method
    if method.key_source is not KeySource.OWN and site.query.heads != site.key.heads:
        raise ConfigError(
            f"{method.name}: {site.query.heads} query heads share {site.key.heads} key heads, so a key cannot take "
            "its query's matrix",
            "give K its own projection (oelm), or take a model without grouped queries",
        )
    for side, projection in ((site.query, method.query), (site.key, method.key)):
        rows, width = _orthogonal_rows(operation, projection, side), side.linear.in_features
        if rows > width:
            raise ConfigError(
                f"{method.name}: {side.name} has no room for {rows} orthogonal rows of width {width}",
                "take oelm-random-matched or keep",
            )


def _orthogonal_rows(operation: Operation, projection: Projection, side: Projector) -> int:
    if not operation.makes_orthogonal(projection):
        return 0
    fresh_global = operation.pretrained is None and projection is Projection.GLOBAL_ORTHOGONAL
    return side.linear.out_features if fresh_global else side.head_width


def new_matrices(operation: Operation, site: Site, seed: int) -> tuple[Tensor, Tensor]:
    """Q and K of this site after the operation, (H, K, D) in float64; the model is not changed.

    Each draw has its own stream, named by kind, layer and side: the same for a model with any head on top.
    """
    q_HKD = _directions(operation, operation.method.query, site.query, seed, (site.kind, site.layer, "query"))
    if operation.method.key_source is KeySource.OWN:
        k_HKD = _directions(operation, operation.method.key, site.key, seed, (site.kind, site.layer, "key"))
    else:
        k_HKD = q_HKD[key_heads(operation.method.key_source, site.query.heads)]
    if operation.pretrained is Pretrained.KEEP:
        return q_HKD, k_HKD
    q_HKD = q_HKD * _row_norms(operation, operation.method.query, site.query, divides_logits=site.divides_logits)
    return q_HKD, k_HKD * _row_norms(operation, operation.method.key, site.key, divides_logits=True)


def _directions(
    operation: Operation, projection: Projection, old: Projector, seed: int, stream: tuple[str | int, ...]
) -> Tensor:
    w_HKD = old.w_HKD.cpu().double()
    match operation.pretrained:
        case Pretrained.KEEP:
            return w_HKD
        case Pretrained.QR:
            return qr_heads(w_HKD)
        case Pretrained.POLAR:
            return polar_heads(w_HKD)
        case None:
            return PROJECTIONS[projection](HeadShape(*w_HKD.shape), generator_for(seed, "convert", *stream))


def _row_norms(operation: Operation, projection: Projection, old: Projector, *, divides_logits: bool) -> Tensor:
    """The length of each head's rows: the pre-trained one (norm-matched), or the original study's.

    Where attention does not divide by sqrt(K), a query made afresh must carry that factor; a pre-trained one has it.
    """
    if operation.method.scale is Scale.NORM_MATCHED:
        return head_norms(old.w_HKD.cpu()).view(-1, 1, 1)
    norm = operation.unit_gain(projection, old.linear.in_features)
    return torch.tensor(norm if divides_logits else norm / math.sqrt(old.head_width), dtype=torch.float64)
