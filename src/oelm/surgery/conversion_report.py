"""The report of a conversion: what was found, written and frozen, measured on the model as it stands."""

from dataclasses import dataclass

from oelm.config.method import Pretrained, Projection, Scale
from oelm.method.extras import rows_of
from oelm.method.freezing import describe
from oelm.surgery.architectures import Attention
from oelm.surgery.damage import Damage
from oelm.surgery.operation import Operation

_MADE = {
    Pretrained.KEEP: "as pre-trained",
    Pretrained.QR: "pre-trained, orthogonalised per head by QR",
    Pretrained.POLAR: "pre-trained, the nearest orthogonal frame per head",
    Pretrained.EXACT: "pre-trained, turned until rows are orthogonal; logits change by rounding alone",
    Pretrained.EXACT_EQUAL: "pre-trained, turned until rows are orthogonal, then given one length",
}


@dataclass(frozen=True, kw_only=True)
class SideAudit:
    """Q or K of one site."""

    name: str
    heads: int
    head_width: int
    written: bool
    frozen: bool
    gram_error: float
    """max |W_h W_h^T - I| over heads, rows brought to norm 1; NaN of a quantised matrix, and of zeros."""
    row_norm: float
    row_norm_before: float


@dataclass(frozen=True, kw_only=True)
class SiteAudit:
    """One attention."""

    layer: int
    kind: Attention
    query: SideAudit
    key: SideAudit


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What `convert` has done. `print(audit)` shows it."""

    model: str
    operation: Operation
    seed: int
    train_biases: bool
    sites: tuple[SiteAudit, ...]
    trained: int
    frozen: int
    """Frozen by this conversion, from the start."""
    frozen_otherwise: int
    """Frozen by someone else before."""
    frozen_names: tuple[str, ...]
    damage: Damage | None = None
    """What the conversion did to the answers on a probe batch, where one was given."""

    @property
    def total(self) -> int:
        """All parameters, tied ones once."""
        return self.trained + self.frozen + self.frozen_otherwise

    @property
    def worst_gram_error(self) -> float:
        """The largest Gram error of all that was written; 0 if nothing was."""
        sides = [side for site in self.sites for side in (site.query, site.key)]
        return max((side.gram_error for side in sides if side.written), default=0.0)

    def __str__(self) -> str:
        return "\n".join([*_heading(self), *_rows(self.sites), *_totals(self)])


def _heading(audit: Audit) -> list[str]:
    method = audit.operation.method
    kinds = {kind: sum(site.kind is kind for site in audit.sites) for kind in Attention}
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    biases = "Q/K biases train" if audit.train_biases else "Q/K biases frozen with them"
    stores_frames = Projection.COORDINATE_FRAME in (method.query, method.key)
    frozen = [f"{'zeros' if method.blind else 'frames'} stored as frozen matrices"] if stores_frames else []
    frozen += [describe(method.plan)] if method.plan or not stores_frames else []
    extras = ", ".join(row.what for row in rows_of(method.extras))
    return [
        f"{method.name} on {audit.model}, seed {audit.seed}",
        f"attention found: {found}",
        f"Q and K: {_made(audit.operation)}; {'; '.join(frozen)}"
        + (f"; {biases}" if method.plan or stores_frames else ""),
        *([f"added to attention, and trained: {extras}"] if extras else []),
    ]


def _made(operation: Operation) -> str:
    method = operation.method
    if method.blind:
        return "zeros, so that attention is uniform"
    if operation.pretrained is Pretrained.KEEP or operation.is_exact:
        return _MADE[operation.pretrained or Pretrained.KEEP]
    made = _MADE[operation.pretrained] if operation.pretrained else f"drawn afresh, {method.query}"
    matched = method.scale is Scale.NORM_MATCHED
    return f"{made}, rows as long as {'the pre-trained ones' if matched else 'in the original study'}"


def _rows(sites: tuple[SiteAudit, ...]) -> list[str]:
    rows = ["layer  attention  side  heads x width  Gram error  row norm (before)  "]
    for site in sites:
        for label, side in (("Q", site.query), ("K", site.key)):
            state = ", ".join(word for word, on in (("written", side.written), ("frozen", side.frozen)) if on)
            rows.append(
                f"{site.layer:5d}  {site.kind:9s}  {label:4s}  {f'{side.heads} x {side.head_width}':13s}  "
                f"{side.gram_error:10.1e}  {side.row_norm:8.4f} ({side.row_norm_before:.4f})  {state}"
            )
    return [row.rstrip() for row in rows]


def _totals(audit: Audit) -> list[str]:
    share = audit.frozen / audit.total
    lines = [f"{audit.total:,} weights: {audit.trained:,} trained, {audit.frozen:,} frozen ({share:.1%})"]
    if audit.frozen_otherwise:
        lines.append(f"besides, {audit.frozen_otherwise:,} were frozen before and stay so")
    if audit.damage is not None:
        lines.append(f"on the probe batch: {audit.damage}")
    method = audit.operation.method
    if method.extras.changed & {"layer_lr", "query_key_lr"}:
        lines.append("layer-lr and qk-lr are kept by oelm's training loop; any other loop has its own rates")
    plan = method.plan
    if plan is not None and plan.when.kind != "always":
        otherwise = "trains them to the end" if plan.when.kind == "from" else "leaves them frozen"
        lines.append(
            "the calendar is kept by oelm's training loop, and under transformers' Trainer by "
            f"callbacks=[oelm.FreezeCallback()]; any other loop {otherwise}"
        )
    return lines
