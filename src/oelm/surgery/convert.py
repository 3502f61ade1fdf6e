"""The method on a Hugging Face model, in one call."""

from collections.abc import Collection

import torch
from transformers import PreTrainedModel

from oelm.config.method import FreezingPlan, Method, Pretrained
from oelm.method.freezing import chosen, frozen_names
from oelm.method.geometry import gram_error, row_norm
from oelm.method.weights import Weight
from oelm.surgery.audit import Audit, SideAudit, SiteAudit
from oelm.surgery.conversion import Conversion, digests_of, freeze
from oelm.surgery.operation import Operation, parse_operation
from oelm.surgery.orthogonal import head_norms
from oelm.surgery.rewrite import new_matrices, refuse_impossible
from oelm.surgery.sites import Projector, Site, open_sites
from oelm.surgery.table import build_table

# Shares of a run's length mean something only once that is known; at step 0 of a long run every calendar has begun.
_LONG_RUN = 10**9


def convert(
    model: PreTrainedModel,
    method: str | Method = "oelm",
    *,
    seed: int = 0,
    attention: Collection[str] | None = None,
    train_biases: bool = False,
) -> Audit:
    """Rewrite and freeze Q and K of a transformers model in place; print the audit to see what was done.

    Methods are oelm's (`oelm`, `oelm-random-matched`, ...) and three for pre-trained matrices: `keep`, `oelm-qr` and
    `oelm-polar`. `+matched` gives new rows the length of the pre-trained ones. Exactly the matrices that the plan
    freezes are rewritten; a method without a plan rewrites all, and `baseline` none. `attention` chooses of `encoder`,
    `decoder` and `cross`. Call it before the optimiser is made: fused weights become new parameters.
    """
    operation = parse_operation(method)
    plan = operation.method.plan
    sites = open_sites(model, attention)
    for site in sites:
        refuse_impossible(operation, site)
    table = build_table(model, sites, plan, train_biases=train_biases)
    rewritten = _rewritten(operation, sites, table)
    frozen = frozen_names(plan, table, 0, _LONG_RUN)
    audits = tuple(_write(operation, site, seed, rewritten, frozen) for site in sites)
    conversion = Conversion(
        operation=operation,
        seed=seed,
        attention=tuple(dict.fromkeys(site.kind for site in sites)),
        train_biases=train_biases,
        digests=digests_of(model, frozen),
    )
    freeze(model, conversion)
    return _audit(model, conversion, audits)


def _rewritten(operation: Operation, sites: tuple[Site, ...], table: tuple[Weight, ...]) -> frozenset[str]:
    """The names of the projectors that get a new matrix."""
    if operation.pretrained is Pretrained.KEEP:
        return frozenset()
    every = frozenset(projector.name for site in sites for projector in (site.query, site.key))
    plan: FreezingPlan | None = operation.method.plan
    if plan is None:
        return every
    covered = {weight.name for weight in chosen(plan, table)}
    return frozenset(name for name in every if f"{name}.weight" in covered)


def _write(operation: Operation, site: Site, seed: int, rewritten: frozenset[str], frozen: frozenset[str]) -> SiteAudit:
    before = {side.name: row_norm(side.w_HKD.cpu()) for side in (site.query, site.key)}
    if rewritten & before.keys():
        for side, w_HKD in zip((site.query, site.key), new_matrices(operation, site, seed), strict=True):
            if side.name in rewritten:
                with torch.no_grad():
                    side.linear.weight.copy_(w_HKD.flatten(0, 1))

    def audit_side(side: Projector) -> SideAudit:
        w_HKD = side.w_HKD.cpu()
        return SideAudit(
            name=side.name,
            heads=side.heads,
            head_width=side.head_width,
            written=side.name in rewritten,
            frozen=f"{side.name}.weight" in frozen,
            gram_error=gram_error(w_HKD / head_norms(w_HKD).view(-1, 1, 1)),
            row_norm=row_norm(w_HKD),
            row_norm_before=before[side.name],
        )

    return SiteAudit(layer=site.layer, kind=site.kind, query=audit_side(site.query), key=audit_side(site.key))


def _audit(model: PreTrainedModel, conversion: Conversion, sites: tuple[SiteAudit, ...]) -> Audit:
    counts = {"trained": 0, "frozen": 0, "otherwise": 0}
    for name, parameter in model.named_parameters():
        kind = "frozen" if name in conversion.frozen else "trained" if parameter.requires_grad else "otherwise"
        counts[kind] += parameter.numel()
    return Audit(
        model=type(model).__name__,
        operation=conversion.operation,
        seed=conversion.seed,
        train_biases=conversion.train_biases,
        sites=sites,
        trained=counts["trained"],
        frozen=counts["frozen"],
        frozen_otherwise=counts["otherwise"],
        frozen_names=tuple(sorted(conversion.frozen)),
    )
