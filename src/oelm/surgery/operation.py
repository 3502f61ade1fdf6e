"""What is done to a Hugging Face model's Q and K: a method, drawn afresh or made from the pre-trained matrix."""

from dataclasses import dataclass
from typing import assert_never

from torch import Tensor

from oelm.base.errors import ConfigError
from oelm.config.method import (
    Always,
    BitFit,
    Comparator,
    FrozenEmbeddings,
    KeySource,
    Lora,
    Method,
    Pretrained,
    Projection,
    Scale,
    TopLayers,
)
from oelm.config.methods import parse_method
from oelm.method.extras import CHANGES_THE_START
from oelm.method.projections import gain
from oelm.surgery.orthogonal import head_norms, row_norms


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A method and, unless Q and K are drawn afresh, what becomes of the pre-trained matrices."""

    method: Method
    pretrained: Pretrained | None

    @property
    def is_exact(self) -> bool:
        """Q and K are turned together."""
        return self.pretrained in (Pretrained.EXACT, Pretrained.EXACT_EQUAL)

    @property
    def keeps_function(self) -> bool:
        """Whether the model still computes what it did."""
        starts_alike = not self.method.extras.changed & CHANGES_THE_START
        return self.pretrained is not None and self.pretrained.keeps_function and starts_alike

    def directions(self, w_HKD: Tensor) -> Tensor:
        """The rows brought to norm 1: each head by its root mean square, or each row where lengths differ by design."""
        if self.pretrained is Pretrained.EXACT:
            return w_HKD.double() / row_norms(w_HKD).unsqueeze(2)
        return w_HKD.double() / head_norms(w_HKD).view(-1, 1, 1)

    def makes_orthogonal(self, projection: Projection) -> bool:
        """Each head's rows come out orthogonal."""
        if self.pretrained is None:
            return projection not in (Projection.NORMAL, Projection.XAVIER)
        return self.pretrained is not Pretrained.KEEP

    def unit_gain(self, projection: Projection, model_width: int) -> float:
        """The norm of rows whose size does not follow the pre-trained ones."""
        return 1.0 if self.pretrained else gain(projection, self.method.scale, model_width)


def parse_operation(method: str | Method) -> Operation:
    """The operation of a method or its name; refused if Hugging Face attention cannot run it.

    A trained normal projection is what the model has already: `baseline` leaves it alone.
    """
    if isinstance(method, str):
        method = parse_method(method)
    unchanged = method.plan is None and method.query is Projection.NORMAL is method.key
    pretrained = Pretrained.KEEP if unchanged else method.pretrained
    _refuse_what_attention_cannot_run(method, pretrained)
    return Operation(method=method, pretrained=pretrained)


def refuse_comparator(method: Method) -> None:
    """Refuse what has nothing to do with Q and K: a run may compare with it, and in a script it is a line or two."""
    if method.comparator is not None:
        raise ConfigError(
            f"{method.name} is a comparator for `oelm finetune` and studies, not a conversion of Q and K",
            f"run oelm finetune --method {method.name}, or in your own script {_by_hand(method.comparator)}",
        )


def _by_hand(comparator: Comparator) -> str:
    """What a comparator is without oelm."""
    match comparator:
        case Lora(rank=rank):
            return f"peft.get_peft_model(model, peft.LoraConfig(r={rank}, lora_alpha={2 * rank}))"
        case BitFit():
            return "set requires_grad to False for all parameters but the biases and the new head"
        case FrozenEmbeddings():
            return "call requires_grad_(False) on the model's embedding layers"
        case TopLayers(count=count):
            return f"set requires_grad to False for all parameters but those of the top {count} layers and the new head"
        case _:
            assert_never(comparator)


def _refuse_what_attention_cannot_run(method: Method, pretrained: Pretrained | None) -> None:
    _refuse_parts(method)
    plan = method.plan
    if plan is not None and 0 < plan.ffn_share < 1:
        raise ConfigError(
            f"{method.name} freezes {plan.ffn_share:.3g} of each FFN, and its weights cannot be frozen in part",
            "freeze Q and K only (oelm) or the whole FFN too (oelm-ffn)",
        )
    frozen = method.query is Projection.COORDINATE_FRAME or (plan is not None and isinstance(plan.when, Always))
    if method.key_source is not KeySource.OWN and not frozen:
        raise ConfigError(
            f"{method.name}: a {method.key_source} key is stored beside the query here, and training would part them",
            "freeze both for good (oelm+tied), or train it in oelm's own GPT",
        )
    if method.key_source is not KeySource.OWN and pretrained not in (None, Pretrained.QR, Pretrained.POLAR):
        raise ConfigError(
            f"{method.name} keeps the pre-trained keys, so they cannot be {method.key_source}",
            "take oelm-qr, oelm-polar or oelm",
        )
    if method.scale is Scale.NORM_MATCHED and pretrained in (Pretrained.EXACT, Pretrained.EXACT_EQUAL):
        raise ConfigError(f"{method.name}: oelm-exact has lengths of its own", "leave +matched out")


def _refuse_parts(method: Method) -> None:
    """Parts of our attention that Hugging Face's has not."""
    if method.thin is not None:
        raise ConfigError(
            f"{method.name} has a Q/K width of its own, and Hugging Face's attention has no place for one",
            "take another method, such as oelm, or train it in oelm's own GPT",
        )
    if method.one_draw:
        raise ConfigError(
            f"{method.name} gives all layers one draw, which is for models from scratch",
            "leave +one-draw out, or train it in oelm's own GPT",
        )
