"""New matrices for a site: their directions, then the length of their rows."""

# H heads  K head width  D model width

import math

import torch
from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.config.method import KeySource, Projection, Scale
from oelm.method.projections import PROJECTIONS, HeadShape, key_heads
from oelm.surgery.operation import Operation, Pretrained
from oelm.surgery.orthogonal import head_norms, polar_heads, qr_heads
from oelm.surgery.sites import Projector, Site


def new_matrices(operation: Operation, site: Site, seed: int) -> tuple[Tensor, Tensor]:
    """Q and K of this site after the operation, (H, K, D) in float64; the model is not changed.

    Each draw has its own stream, named by kind, layer and side: the same for a model with any head on top.
    """
    q_HKD = _directions(operation, operation.method.query, site.query, seed, (site.kind, site.layer, "query"))
    if operation.method.key_source is KeySource.OWN:
        k_HKD = _directions(operation, operation.method.key, site.key, seed, (site.kind, site.layer, "key"))
    else:
        k_HKD = q_HKD[_paired(operation, site)]
    if operation.pretrained is Pretrained.KEEP:
        return q_HKD, k_HKD
    # Attention without 1/sqrt(K): the division belongs into the query's rows, or logits start sqrt(K) too large.
    query_share = 1.0 if site.divides_logits else 1 / math.sqrt(site.query.head_width)
    q_HKD = q_HKD * query_share * _lengths(operation, operation.method.query, site.query, query_share)
    return q_HKD, k_HKD * _lengths(operation, operation.method.key, site.key, 1.0)


def _directions(
    operation: Operation, projection: Projection, old: Projector, seed: int, stream: tuple[str | int, ...]
) -> Tensor:
    w_HKD = old.w_HKD.cpu().double()
    match operation.pretrained:
        case Pretrained.KEEP:
            return w_HKD
        case Pretrained.QR:
            return qr_heads(_has_room(w_HKD, old.head_width, old.name))
        case Pretrained.POLAR:
            return polar_heads(_has_room(w_HKD, old.head_width, old.name))
        case None:
            rows = {Projection.HEADWISE_ORTHOGONAL: old.head_width, Projection.GLOBAL_ORTHOGONAL: old.linear.out_features}
            _has_room(w_HKD, rows.get(projection, 1), old.name)
            return PROJECTIONS[projection](HeadShape(*w_HKD.shape), generator_for(seed, "convert", *stream))


def _lengths(operation: Operation, projection: Projection, old: Projector, share: float) -> Tensor:
    """The factor of each head's rows: the pre-trained length (norm-matched), or the original study's."""
    if operation.method.scale is Scale.NORM_MATCHED:
        norms_H11: Tensor = head_norms(old.w_HKD.cpu()).view(-1, 1, 1) / share
        return norms_H11
    return torch.tensor(operation.unit_gain(projection, old.linear.in_features), dtype=torch.float64)


def _has_room(w_HKD: Tensor, rows: int, name: str) -> Tensor:
    width = w_HKD.shape[2]
    if rows > width:
        raise ConfigError(f"{name}: there are no {rows} orthogonal rows of width {width}", "take oelm or oelm-random")
    return w_HKD


def _paired(operation: Operation, site: Site) -> list[int]:
    """The query head of each key head; there is none to name where several queries share a key."""
    if site.query.heads != site.key.heads:
        raise ConfigError(
            f"{operation.method.name}: {site.query.heads} query heads share {site.key.heads} key heads, so a key "
            "cannot take its query's matrix",
            "give K its own projection (oelm), or take a model without grouped queries",
        )
    return key_heads(operation.method.key_source, site.query.heads)
