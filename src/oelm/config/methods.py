"""The named methods, and the grammar `name+extra+extra=value` by which they are varied."""

from collections.abc import Callable

from pydantic import ValidationError

from oelm.base.errors import ConfigError
from oelm.config.method import (
    AllButLast,
    BitFit,
    EveryNth,
    Extras,
    FreezingPlan,
    From,
    FrozenEmbeddings,
    KeySource,
    Lora,
    Method,
    Moment,
    OnlyLayers,
    Pretrained,
    Projection,
    Scale,
    TopDownThaw,
    TopLayers,
    Until,
)
from oelm.config.settings import complaint

_FROZEN = FreezingPlan()
_SHIFT_AND_GAIN = Extras(shift=True, gain=True)


def _both(
    name: str,
    projection: Projection,
    *,
    plan: FreezingPlan | None = None,
    scale: Scale = Scale.AS_ORIGINAL,
    key_source: KeySource = KeySource.OWN,
    extras: Extras = Extras(),  # noqa: B008 (frozen value)
) -> Method:
    return Method(
        name=name,
        query=projection,
        key=projection,
        key_source=key_source,
        scale=scale,
        plan=plan,
        extras=extras,
    )


_NAMED = (
    _both("baseline", Projection.NORMAL),
    _both("oelm", Projection.HEADWISE_ORTHOGONAL, plan=_FROZEN),
    _both("oelm-random", Projection.NORMAL, plan=_FROZEN),
    _both("oelm-random-matched", Projection.NORMAL, plan=_FROZEN, scale=Scale.NORM_MATCHED),
    _both("oelm-global", Projection.GLOBAL_ORTHOGONAL, plan=_FROZEN),
    _both("orthogonal-trained", Projection.HEADWISE_ORTHOGONAL),
    _both("global-trained", Projection.GLOBAL_ORTHOGONAL),
    _both("frame-trained", Projection.STORED_FRAME),
    _both("oelm-ffn", Projection.HEADWISE_ORTHOGONAL, plan=FreezingPlan(ffn_share=1.0)),
    Method(name="oelm-q", query=Projection.COORDINATE_FRAME, key=Projection.NORMAL),
    _both("oelm-frame", Projection.COORDINATE_FRAME, key_source=KeySource.TIED, extras=_SHIFT_AND_GAIN),
    _both(
        "oelm-lowrank",
        Projection.COORDINATE_FRAME,
        key_source=KeySource.TIED,
        extras=Extras(shift=True, gain=True, rank=8),
    ),
    _both(
        "oelm-core",
        Projection.HEADWISE_ORTHOGONAL,
        plan=_FROZEN,
        key_source=KeySource.TIED,
        extras=Extras(shift=True, gain=True, core=True),
    ),
    Method(
        name="blind",
        query=Projection.COORDINATE_FRAME,
        key=Projection.COORDINATE_FRAME,
        key_source=KeySource.TIED,
        blind=True,
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _NAMED}

_KEPT = _both("keep", Projection.NORMAL, plan=_FROZEN)
_COMPARED = _both("", Projection.NORMAL).model_copy(update={"pretrained": Pretrained.KEEP})
_ORTHOGONALISED = _both("oelm-qr", Projection.HEADWISE_ORTHOGONAL, plan=_FROZEN)
PRETRAINED_METHODS: dict[str, Method] = {
    "keep": _KEPT.model_copy(update={"pretrained": Pretrained.KEEP}),
    "oelm-qr": _ORTHOGONALISED.model_copy(update={"pretrained": Pretrained.QR}),
    "oelm-polar": _ORTHOGONALISED.model_copy(update={"name": "oelm-polar", "pretrained": Pretrained.POLAR}),
    "oelm-exact": _ORTHOGONALISED.model_copy(update={"name": "oelm-exact", "pretrained": Pretrained.EXACT}),
    **{
        comparator.kind: _COMPARED.model_copy(update={"name": comparator.kind, "comparator": comparator})
        for comparator in (Lora(), BitFit(), FrozenEmbeddings(), TopLayers())
    },
}
"""Methods that need pre-trained matrices: for Hugging Face models, not for a GPT from scratch."""

SUMMARIES: dict[str, str] = {
    "baseline": "Q and K trained, normal(0.02)",
    "oelm": "head-wise orthogonal, frozen: the method",
    "oelm-random": "normal(0.02), frozen: the original's ablation, at its scale",
    "oelm-random-matched": "normal with unit rows, frozen: the same ablation without the scale confound",
    "oelm-global": "one orthogonal matrix for all heads, frozen",
    "orthogonal-trained": "head-wise orthogonal, trained: is it the init?",
    "global-trained": "one orthogonal matrix, trained",
    "frame-trained": "Q = K = coordinate frames at the start, trained: is it the init of oelm-frame?",
    "oelm-ffn": "oelm with the whole FFN frozen too",
    "oelm-q": "Q a coordinate frame (no matrix, no matmul), K trained",
    "oelm-frame": "Q = K = coordinate frames + key shift + gain: no Q/K matrix at all",
    "oelm-lowrank": "oelm-frame + a trained rank-8 update of Q and K",
    "oelm-core": "head-wise orthogonal, K tied to Q, frozen + key shift + gain + core",
    "blind": "no Q, no K: attention is uniform over the past. The negative control, which must fail",
    "keep": "pre-trained models only: Q and K frozen as they are",
    "oelm-qr": "pre-trained models only: Q and K orthogonalised per head by QR, frozen (what the original did)",
    "oelm-polar": "pre-trained models only: the nearest orthogonal frame per head, frozen",
    "oelm-exact": "pre-trained models only: rows made orthogonal without changing any logit, frozen",
    "lora": "pre-trained models only, a comparator: LoRA of rank 8 on Q and V (+rank=16)",
    "bitfit": "pre-trained models only, a comparator: only biases and the new head are trained",
    "frozen-embeddings": "pre-trained models only, a comparator: all but the embeddings is trained",
    "top-layers": "pre-trained models only, a comparator: only the top 2 layers are trained (+top=1)",
}

ORIGINAL_NAMES = {"baseline": "baseline", "oelm_v2": "oelm", "oelm_random": "oelm-random"}
"""The original's `--model_type`. Its `oelm` is left out on purpose: `from_original` says why."""


def freeze_ratio(ratio: float) -> FreezingPlan:
    """The plan that freezes this share of the block matrices (12 L D^2): Q/K are 1/6, the FFN 2/3 of them.

    With an FFN of four times the width; with another one, the achieved ratio is printed by `oelm inspect` and `train`.
    0.25 is Q/K and 1/8 of the FFN's hidden units, 0.5 Q/K and half of them. 0.075, the original's name
    for Q/K only (its share of *all* parameters), stands for 1/6.
    """
    if ratio == 0.075:
        return FreezingPlan()
    share = (ratio - 1 / 6) / (2 / 3)
    if not -1e-3 <= share <= 1 + 1e-9:
        raise ConfigError(
            f"freeze ratio {ratio:g} cannot be reached with Q/K frozen",
            "choose 0.075 (Q/K only) or 0.167 to 0.833",
        )
    return FreezingPlan(ffn_share=min(1.0, max(0.0, round(share, 6))))


_Apply = Callable[[Method, str], Method]


class _TakesNoValueError(Exception):
    """A modifier that takes no value, such as +shift, was given one."""


def _flag(change: Callable[..., Method], **changes: object) -> _Apply:
    """A modifier without a value."""

    def apply(method: Method, text: str) -> Method:
        if text:
            raise _TakesNoValueError
        return change(method, **changes)

    return apply


def _valued(change: Callable[..., Method], **readers: Callable[[str], object]) -> _Apply:
    """A modifier whose value sets a field."""
    return lambda method, text: change(method, **{name: read(text) for name, read in readers.items()})


def _moment(text: str) -> Moment:
    number = float(text)
    return int(number) if number >= 1 and number.is_integer() else number


def _changed(method: Method, **changes: object) -> Method:
    """A changed copy, validated anew (pydantic's `model_copy` does not validate)."""
    return Method.model_validate({**dict(method), **changes})


def _with_extras(method: Method, **changes: object) -> Method:
    return _changed(method, extras=Extras.model_validate({**dict(method.extras), **changes}))


def _with_plan(method: Method, **changes: object) -> Method:
    plan = dict(method.plan) if method.plan else {"query": False, "key": False}
    if method.plan is None and not (changes.keys() & {"query", "key"}):
        raise ConfigError(
            f"{method.name} freezes nothing, so there is no plan to vary",
            "start from a frozen method such as oelm",
        )
    return _changed(method, plan=FreezingPlan.model_validate({**plan, **changes}))


def _query(method: Method, text: str) -> Method:
    _refuse_pretrained(method, "query")
    query = Projection(text)
    return _changed(method, query=query, key=method.key if method.key_source is KeySource.OWN else query)


def _key(method: Method, text: str) -> Method:
    _refuse_pretrained(method, "key")
    return _changed(method, key=Projection(text))


def _refuse_pretrained(method: Method, name: str) -> None:
    if method.pretrained is not None:
        raise ConfigError(f"{method.name} draws no matrix: it takes the pre-trained ones", f"leave +{name} out")


def _freeze(method: Method, text: str) -> Method:
    if text in ("q", "k", "qk"):
        return _with_plan(method, query="q" in text, key="k" in text, ffn_share=0.0)
    return _with_plan(method, query=True, key=True, ffn_share=freeze_ratio(float(text)).ffn_share)


def _layers(text: str) -> OnlyLayers:
    return OnlyLayers(layers=tuple(int(index) for index in text.split(",")))


def _thaw(text: str) -> TopDownThaw:
    start, end = text.split("..")
    return TopDownThaw(start=_moment(start), end=_moment(end))


def _rank(method: Method, text: str) -> Method:
    if isinstance(method.comparator, Lora):
        return _changed(method, comparator=Lora(rank=int(text)))
    return _with_extras(method, rank=int(text))


def _top(method: Method, text: str) -> Method:
    if not isinstance(method.comparator, TopLayers):
        raise ConfigError(f"+top belongs to top-layers, not to {method.name}", "write top-layers+top=1")
    return _changed(method, comparator=TopLayers(count=int(text)))


def _equal(method: Method, text: str) -> Method:
    if text:
        raise _TakesNoValueError
    if method.pretrained not in (Pretrained.EXACT, Pretrained.EXACT_EQUAL):
        raise ConfigError(f"+equal belongs to oelm-exact, not to {method.name}", "write oelm-exact+equal")
    return _changed(method, pretrained=Pretrained.EXACT_EQUAL)


_PROJECTIONS = ", ".join(Projection)
_norm = _flag(_with_extras, norm=True, gain=True)
_gain = _valued(_with_extras, gain=lambda _: True, gain_start=lambda text: float(text or 1))
_rolled = _flag(_changed, key_source=KeySource.ROLLED)
_matched = _flag(_changed, scale=Scale.NORM_MATCHED)
_all_but_last = _valued(_with_plan, layers=lambda text: AllButLast(count=int(text)))
_until = _valued(_with_plan, when=lambda text: Until(end=_moment(text)))
_from = _valued(_with_plan, when=lambda text: From(start=_moment(text)))
_every = _valued(_with_plan, when=lambda text: EveryNth(n=int(text)))

MODIFIERS: dict[str, tuple[_Apply, str]] = {
    "shift": (_flag(_with_extras, shift=True), "+shift: learned key shift"),
    "norm": (_norm, "+norm: q and k divided by their RMS per head, with a learned gain"),
    "gain": (_gain, "+gain: learned logit gain per head, 1 at init (+gain=2: 2 at init)"),
    "bias": (_flag(_with_extras, bias=True), "+bias: trained biases of Q and K"),
    "core": (_flag(_with_extras, core=True), "+core: trained K x K matrix per head between Q and K"),
    "rank": (_rank, "+rank=8: trained rank-8 update of Q and K (lora+rank=16: the rank of its adapters)"),
    "top": (_top, "+top=1: how many layers top-layers trains"),
    "thin": (_valued(_changed, thin=int), "+thin=8: heads of Q and K are 8 wide, below V's"),
    "layer-lr": (_valued(_with_extras, layer_lr=float), "+layer-lr=0.9: each layer's lr is 0.9 of the one above"),
    "qk-lr": (_valued(_with_extras, query_key_lr=float), "+qk-lr=0.3: the Q/K side's lr is 0.3 of the rest's"),
    "query": (_query, f"+query=xavier: how Q is drawn, of {_PROJECTIONS}"),
    "key": (_key, "+key=normal: how K is drawn, if it is not Q's"),
    "tied": (_flag(_changed, key_source=KeySource.TIED), "+tied: K takes Q's matrix"),
    "rolled": (_rolled, "+rolled: every second K head takes the next Q head's frame"),
    "one-draw": (_flag(_changed, one_draw=True), "+one-draw: every layer takes the bottom layer's draw of Q and K"),
    "strided": (_flag(_changed, strided=True), "+strided: every second layer's frames read coordinates h, h+H, ..."),
    "matched": (_matched, "+matched: unit rows, not the original's scale (pre-trained: as long as before)"),
    "equal": (_equal, "+equal: oelm-exact's directions with rows of one length"),
    "freeze": (_freeze, "+freeze=q, k, qk or a ratio (0.25): what is frozen"),
    "layers": (_valued(_with_plan, layers=_layers), "+layers=0,1: only in these layers"),
    "all-but-last": (_all_but_last, "+all-but-last=1: in all but the top layers"),
    "until": (_until, "+until=1000 (or 0.1 of all steps): frozen before, trained after"),
    "from": (_from, "+from=0.1 (or a step): trained before, frozen from there on"),
    "thaw": (_valued(_with_plan, when=_thaw), "+thaw=0.2..0.8: layers thaw from the top over this span"),
    "every": (_every, "+every=4: trained in every 4th step only"),
}
"""By name: what it does to a method, given the text after `=`, and how it is written."""


def parse_method(text: str) -> Method:
    """The method of a name such as `oelm`, `baseline+shift+gain` or `oelm+until=0.1`."""
    name, *modifiers = text.strip().split("+")
    named = {**METHODS, **PRETRAINED_METHODS}
    if name not in named:
        raise ConfigError(f"unknown method {name!r}", f"choose one of {', '.join(named)}; see `oelm methods`")
    method = named[name]
    applied: dict[str, str] = {}
    for modifier in _in_order(modifiers, text):
        key, _, value = modifier.partition("=")
        apply, usage = MODIFIERS[key]
        try:
            changed = apply(method, value)
        except _TakesNoValueError as error:
            raise ConfigError(f"+{key} takes no value (given: {value!r})", f"write +{key}") from error
        except ValidationError as error:
            raise ConfigError(f"method {text!r}: {complaint(error)}", f"write it as {usage}") from error
        except ValueError as error:
            raise ConfigError(f"method {text!r}: cannot read +{modifier}", f"write it as {usage}") from error
        if changed != method:  # a modifier that the method has already is not part of its name
            applied[key] = modifier
        method = changed
    return _changed(method, name="+".join([name, *applied.values()]))


def _in_order(modifiers: list[str], text: str) -> list[str]:
    """The modifiers in the order of the table, whatever the order they were written in: one method has one name."""
    known = list(MODIFIERS)
    for modifier in modifiers:
        key = modifier.partition("=")[0]
        if key not in known:
            raise ConfigError(f"unknown modifier +{key} in method {text!r}", f"choose of +{', +'.join(known)}")
    return sorted(modifiers, key=lambda modifier: known.index(modifier.partition("=")[0]))


def from_original(model_type: str) -> Method:
    """The method that the original study called `model_type`."""
    if model_type == "oelm":
        raise ConfigError(
            "the original's model type 'oelm' is ambiguous: one global orthogonal matrix, trained in its first runs "
            "(freezing was not active) and frozen in later ones",
            "use --method global-trained or --method oelm-global; for the head-wise method, --method oelm "
            "(the original's oelm_v2)",
        )
    if model_type not in ORIGINAL_NAMES:
        raise ConfigError(f"unknown model type {model_type!r}", f"choose one of {', '.join(ORIGINAL_NAMES)}")
    return METHODS[ORIGINAL_NAMES[model_type]]


CARRIED: dict[str, str | None] = {
    "shift": "shift",
    "norm": "norm",
    "gain": "gain",
    "gain_start": "gain={:g}",
    "bias": "bias",
    "thin": "thin={}",
    "layer_lr": "layer-lr={:g}",
    "query_key_lr": "qk-lr={:g}",
    "core": None,
    "rank": None,
}
"""By the field of `Extras`, and `thin`: the modifier that a fair control has too. Core and rank replace Q and K."""


def control_of(method: Method) -> str:
    """The name of the fair control: the baseline with all that it can carry too."""
    return "+".join(["baseline", *carried(method)])


def carried(method: Method) -> tuple[str, ...]:
    """What of a method a trained Q/K can carry as well, as modifiers in the order of the table.

    How Q and K are drawn, shared and frozen is the method itself: not that.
    """
    values = {**dict(method.extras), "thin": method.thin}
    on = method.extras.changed | ({"thin"} if method.thin is not None else set())
    if on & {"norm", "gain_start"}:  # they bring a gain
        on -= {"gain"}
    return tuple(text.format(values[name]) for name, text in CARRIED.items() if name in on and text is not None)
