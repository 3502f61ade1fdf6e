"""New matrices for a site: their directions, then the length of their rows."""

# H heads  K head width  D model width

import math

import torch
from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.base.runtime import generator_for
from oelm.config.method import KeySource, Pretrained, Projection, Scale
from oelm.method.extras import rows_of
from oelm.method.projections import PROJECTIONS, frame_matrix, key_heads
from oelm.method.weights import HeadShape
from oelm.surgery.architectures import ROTARY
from oelm.surgery.operation import Operation
from oelm.surgery.orthogonal import exact_heads, head_norms, polar_heads, qr_heads, smallest_singular_share
from oelm.surgery.sites import Projector, Site

_FULL_RANK = 1e-8
"""The least share of the largest singular value that a head's smallest must have, for A to be safely invertible."""


def refuse_impossible(operation: Operation, site: Site) -> None:
    """Refuse keys that have no query of their own to take after, and more orthogonal rows than there is room for.

    And extras where something comes before them that comes after them in our GPT.
    """
    method = operation.method
    if rows_of(method.extras) and site.between not in ("", ROTARY):
        raise ConfigError(
            f"{method.name}: {site.between} stand between the projections and their product, and extras would not be "
            "what they are elsewhere",
            "take the method without extras, such as keep or oelm",
        )
    _refuse_quantised(operation, site)
    if operation.pretrained is Pretrained.KEEP:
        return
    if method.blind:
        _refuse_looking(method.name, site)
        return
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
    if operation.is_exact:
        _refuse_inexact(method.name, site)


def _refuse_quantised(operation: Operation, site: Site) -> None:
    """Quantised matrices may stay as they are, where there is a parameter to freeze."""
    quantised = next((side for side in site.sides if not side.is_plain), None)
    if quantised is None:
        return
    which = f"{quantised.name} is quantised ({type(quantised.linear).__name__})"
    if not any(side.tensors for side in site.sides):
        raise ConfigError(
            f"{which} into buffers, which nothing trains", "go on without a conversion: Q and K are fixed as it is"
        )
    if operation.pretrained is not Pretrained.KEEP:
        raise ConfigError(
            f"{operation.method.name}: {which} and cannot be rewritten",
            "take keep, which leaves it as it is, or convert the model before it is quantised",
        )


def _refuse_looking(name: str, site: Site) -> None:
    """Zeros for Q and K make attention uniform unless something else speaks in its logits."""
    if site.adds_to_logits or site.between not in ("", ROTARY):
        speaks = "a bias by distance" if site.adds_to_logits else site.between
        raise ConfigError(
            f"{name} would still look somewhere here: there is {speaks}, whatever Q and K are",
            "take oelm as the arm that should fail, or another model",
        )


def _refuse_inexact(name: str, site: Site) -> None:
    """A and A^-T cancel only if q meets k as the projections left them, one query head per key head."""
    reason = f"{site.between} stand between the projections and their product" if site.between else ""
    if site.query.heads != site.key.heads:
        reason = f"{site.query.heads} query heads share {site.key.heads} key heads"
    elif not reason and not site.query.linear.weight.is_meta:
        share = smallest_singular_share(site.query.w_HKD.cpu(), site.key.w_HKD.cpu())
        reason = f"a head of {site.query.name} uses fewer dimensions than it has" if share < _FULL_RANK else ""
    if reason:
        raise ConfigError(f"{name} would not be exact here: {reason}", "take keep, which changes nothing either")


def _orthogonal_rows(operation: Operation, projection: Projection, side: Projector) -> int:
    if not operation.makes_orthogonal(projection):
        return 0
    across_heads = projection is not Projection.HEADWISE_ORTHOGONAL
    return side.linear.out_features if operation.pretrained is None and across_heads else side.head_width


def new_matrices(operation: Operation, site: Site, seed: int) -> tuple[Tensor, Tensor]:
    """Q and K of this site after the operation, (H, K, D) in float64; the model is not changed.

    Where biases change too, they are a last column: (H, K, D + 1). Each draw has its own stream, named by
    kind, layer and side: the same for a model with any head on top.
    """
    if operation.method.blind:  # every logit is 0, and softmax gives each place that the mask allows the same weight
        return torch.zeros_like(_with_bias(site.query)), torch.zeros_like(_with_bias(site.key))
    if operation.is_exact:
        equal = operation.pretrained is Pretrained.EXACT_EQUAL
        width = site.query.linear.in_features
        return exact_heads(_with_bias(site.query), _with_bias(site.key), width, equal=equal)
    q_HKD = _directions(operation, operation.method.query, site.query, seed, (site.kind, site.layer, "query"))
    if operation.method.key_source is KeySource.OWN:
        k_HKD = _directions(operation, operation.method.key, site.key, seed, (site.kind, site.layer, "key"))
    else:
        k_HKD = q_HKD[key_heads(operation.method.key_source, site.query.heads)]
    if operation.pretrained is Pretrained.KEEP:
        return q_HKD, k_HKD
    q_HKD = q_HKD * _row_norms(operation, operation.method.query, site.query, divides_logits=site.divides_logits)
    return q_HKD, k_HKD * _row_norms(operation, operation.method.key, site.key, divides_logits=True)


def _with_bias(side: Projector) -> Tensor:
    """W_h with b_h, or zeros, as a last column (H, K, D + 1)."""
    w_HKD = side.w_HKD.cpu().double()
    bias = side.linear.bias
    bias_E = w_HKD.new_zeros(w_HKD.shape[:2]) if bias is None else bias.detach().cpu().double()
    return torch.cat([w_HKD, bias_E.view(*w_HKD.shape[:2], 1)], dim=2)


def _directions(
    operation: Operation, projection: Projection, old: Projector, seed: int, stream: tuple[str, int, str]
) -> Tensor:
    kind, layer, side = stream
    w_HKD = old.w_HKD.cpu().double()
    match operation.pretrained:
        case Pretrained.KEEP:
            return w_HKD
        case Pretrained.QR:
            return qr_heads(w_HKD)
        case Pretrained.POLAR:
            return polar_heads(w_HKD)
        case Pretrained.EXACT | Pretrained.EXACT_EQUAL:
            raise AssertionError("made together, in `new_matrices`")
        case None if projection is Projection.COORDINATE_FRAME:
            return frame_matrix(HeadShape(*w_HKD.shape), strided=operation.method.strided and layer % 2 == 1)
        case None:
            return PROJECTIONS[projection](HeadShape(*w_HKD.shape), generator_for(seed, "convert", kind, layer, side))


def _row_norms(operation: Operation, projection: Projection, old: Projector, *, divides_logits: bool) -> Tensor:
    """The length of each head's rows: the pre-trained one (norm-matched), or the original study's.

    Where attention does not divide by sqrt(K), a query made afresh must carry that factor; a pre-trained one has it.
    """
    if operation.method.scale is Scale.NORM_MATCHED:
        return head_norms(old.w_HKD.cpu()).view(-1, 1, 1)
    norm = operation.unit_gain(projection, old.linear.in_features)
    return torch.tensor(norm if divides_logits else norm / math.sqrt(old.head_width), dtype=torch.float64)
