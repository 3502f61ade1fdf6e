"""The method on a Hugging Face model, in one call."""

import math
import warnings
from collections.abc import Collection, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.config.method import FreezingPlan, Method, Pretrained
from oelm.method.extras import rows_of
from oelm.method.freezing import chosen, frozen_names
from oelm.method.geometry import gram_error, row_norm
from oelm.method.weights import Weight
from oelm.surgery.architectures import Architecture, set_architecture
from oelm.surgery.conversion import Conversion, digests_of, freeze, read_marker, refuse_absent_weights
from oelm.surgery.conversion_report import Audit, SideAudit, SiteAudit
from oelm.surgery.damage import Damage, answers
from oelm.surgery.equipped import equip
from oelm.surgery.operation import Operation, parse_operation, refuse_comparator
from oelm.surgery.rewrite import new_matrices, refuse_impossible
from oelm.surgery.sites import Projector, Site, open_sites
from oelm.surgery.table import build_table

# Shares of a run's length mean something only once that is known; at step 0 of a long run every calendar has begun.
_LONG_RUN = 10**9


def convert(
    model: PreTrainedModel,
    method: str | Method = "keep",
    *,
    seed: int = 0,
    attention: Collection[str] | None = None,
    train_biases: bool = False,
    probe: Mapping[str, Tensor] | None = None,
    architecture: Architecture | None = None,
) -> Audit:
    """Freeze, and where the method says so rewrite, Q and K of a transformers model in place; print the audit.

    `keep` freezes them as they are and `oelm-exact` makes their rows orthogonal without changing what the model
    computes. Every other method (`oelm`, `oelm-random-matched`, ..., and from the pre-trained matrices `oelm-qr`,
    `oelm-polar`) changes it, and warns: `probe`, the inputs of one forward pass, measures by how much. `+matched` gives
    new rows the length of the pre-trained ones. Exactly the matrices that the plan freezes are rewritten; a method
    without a plan rewrites all, and `baseline` none. Extras (`keep+core`, `oelm+gain`, ...) are added to attention and
    train. By default all attention is converted, and the biases of Q and K are frozen too: `attention` chooses of
    `encoder`, `decoder` and `cross`, `train_biases` trains the biases. `seed` decides what is drawn. `architecture`
    describes a model that oelm does not know. Call it before the optimiser is made: fused weights become new
    parameters.
    """
    _refuse_wrapped(model)
    refuse_absent_weights(model)
    if architecture is not None:
        set_architecture(model, architecture)
    refuse_comparator(parse_operation(method).method)
    audit = apply(model, method, seed=seed, attention=attention, train_biases=train_biases, probe=probe)
    _warn_of_damage(model, audit)
    return audit


def apply(
    model: PreTrainedModel,
    method: str | Method,
    *,
    seed: int,
    attention: Collection[str] | None,
    train_biases: bool,
    probe: Mapping[str, Tensor] | None = None,
) -> Audit:
    """`convert` without its warning: for runs whose method is what is studied."""
    operation = parse_operation(method)
    plan = operation.method.plan
    _refuse_earlier_extras(model)
    sites = open_sites(model, attention)
    for site in sites:
        refuse_impossible(operation, site)
    table = build_table(model, sites, operation.method, train_biases=train_biases)
    rewritten = _rewritten(operation, sites, table)
    frozen = frozen_names(plan, table, 0, _LONG_RUN)
    before = None if probe is None else answers(model, probe)
    audits = tuple(_write(operation, site, seed, rewritten, frozen) for site in sites)
    equip(model, sites, operation.method.extras, seed)
    conversion = Conversion(
        operation=operation,
        seed=seed,
        attention=tuple(dict.fromkeys(site.kind for site in sites)),
        train_biases=train_biases,
        digests=digests_of(model, frozen),
    )
    freeze(model, conversion)
    damage = before.damage_to(answers(model, probe)) if before is not None and probe is not None else None
    return _audit(model, conversion, audits, damage=damage)


def _refuse_wrapped(model: object) -> None:
    """Refuse a model inside something else, and say how to get it out."""
    outside = f"this is a {type(model).__name__}"
    if hasattr(model, "peft_config") or getattr(model, "_hf_peft_config_loaded", False):
        raise ConfigError(
            f"{outside} with adapters, and conversion has to come first",
            "oelm.convert(model), then peft.get_peft_model(model, ...)",
        )
    if hasattr(model, "_orig_mod"):
        raise ConfigError(f"{outside}: a compiled model", "oelm.convert(model), then torch.compile(model)")
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            f"{outside}, not a transformers model", "give the model itself, before it is wrapped for training"
        )


def _refuse_earlier_extras(model: PreTrainedModel) -> None:
    """Refuse a model that has, or that `from_pretrained` has loaded without, the extras of an earlier conversion."""
    earlier = read_marker(model.config, where="the model's config")
    if earlier is not None and rows_of(earlier.operation.method.extras):
        raise ConfigError(
            f"this model was converted before, as {earlier.operation.method.name}, with extras inside its attention",
            "go on with it (oelm.load(folder) has the extras too), or convert the model that it was made from",
        )


def _warn_of_damage(model: PreTrainedModel, audit: Audit) -> None:
    """A model built from a config has nothing to lose; one that was loaded has."""
    measured = audit.damage is not None
    if not (audit.damage.is_noticeable if audit.damage else _changes(model, audit)):
        return
    name = audit.operation.method.name
    how_much = f": {audit.damage}" if measured else " (give probe=batch to measure by how much)"
    warnings.warn(
        f"{name} has changed what this {audit.model} computes{how_much}. Training has to make that good; "
        "`keep` freezes Q and K without changing anything.",
        stacklevel=3,
    )


def _changes(model: PreTrainedModel, audit: Audit) -> bool:
    return bool(model.name_or_path) and not audit.operation.keeps_function


def _rewritten(operation: Operation, sites: tuple[Site, ...], table: tuple[Weight, ...]) -> frozenset[str]:
    """The names of the projectors that get a new matrix."""
    if operation.pretrained is Pretrained.KEEP:
        return frozenset()
    every = frozenset(projector.name for site in sites for projector in site.sides)
    plan: FreezingPlan | None = operation.method.plan
    if plan is None:
        return every
    covered = {weight.name for weight in (*chosen(plan, table), *(row for row in table if row.fixed))}
    names = {name for name in every if f"{name}.weight" in covered}
    if operation.is_exact:  # one without the other would change the logits
        names |= {side.name for site in sites for side in site.sides if names & {site.query.name, site.key.name}}
    return frozenset(names)


def _write(operation: Operation, site: Site, seed: int, rewritten: frozenset[str], frozen: frozenset[str]) -> SiteAudit:
    before = {side.name: row_norm(side.w_HKD.cpu()) if side.is_plain else math.nan for side in site.sides}
    if rewritten & before.keys():
        for side, w_HKE in zip(site.sides, new_matrices(operation, site, seed), strict=True):
            if side.name in rewritten:
                _store(side, w_HKE)

    def audit_side(side: Projector) -> SideAudit:
        w_HKD = side.w_HKD.cpu() if side.is_plain else None
        return SideAudit(
            name=side.name,
            heads=side.heads,
            head_width=side.head_width,
            written=side.name in rewritten,
            frozen=f"{side.name}.weight" in frozen,
            gram_error=math.nan if w_HKD is None else gram_error(operation.directions(w_HKD)),
            row_norm=math.nan if w_HKD is None else row_norm(w_HKD),
            row_norm_before=before[side.name],
        )

    return SiteAudit(layer=site.layer, kind=site.kind, query=audit_side(site.query), key=audit_side(site.key))


@torch.no_grad()
def _store(side: Projector, w_HKE: Tensor) -> None:
    """Write a matrix and, if it has one column more than the matrix, its bias."""
    width = side.linear.in_features
    side.linear.weight.copy_(w_HKE[..., :width].flatten(0, 1))
    if w_HKE.shape[2] > width and side.linear.bias is not None:
        side.linear.bias.copy_(w_HKE[..., width].flatten())


def _audit(
    model: PreTrainedModel, conversion: Conversion, sites: tuple[SiteAudit, ...], *, damage: Damage | None
) -> Audit:
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
        damage=damage,
    )
