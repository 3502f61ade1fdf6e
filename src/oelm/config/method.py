"""What a method is made of: how Q and K are drawn, what stays frozen and when, and the small extras."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oelm.config.settings import GrownSettings, Settings


class Projection(StrEnum):
    """How one attention matrix is drawn. Canonical shape (H, K, D), unit rows; see `method/projections.py`."""

    NORMAL = "normal"
    XAVIER = "xavier"
    GLOBAL_ORTHOGONAL = "global-orthogonal"
    HEADWISE_ORTHOGONAL = "headwise-orthogonal"
    COORDINATE_FRAME = "coordinate-frame"
    STORED_FRAME = "stored-frame"
    """The same rows as a matrix, which can be trained."""


class KeySource(StrEnum):
    """Where the key projection comes from."""

    OWN = "own"
    """K has a projection of its own."""
    TIED = "tied"
    """K_h = Q_h: one matrix and one matmul serve both."""
    ROLLED = "rolled"
    """K_h = Q_{h+1} for every second head and K_h = Q_h for the others: again one matmul serves both."""


class Scale(StrEnum):
    """The size of the rows."""

    NORM_MATCHED = "norm-matched"
    """Rows of norm 1 (in expectation), whatever the projection: arms differ in direction only.
    On a pre-trained model: as long as the rows that are replaced."""
    AS_ORIGINAL = "as-original"
    """As the original study: entries of std 0.02 for `normal`, rows of norm 1 for all others."""


Moment = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)]
"""A point in training: a whole number of steps, or a share of all steps between 0 and 1."""


class Always(Settings):
    """Frozen from the first step to the last."""

    kind: Literal["always"] = "always"


class Until(Settings):
    """Frozen before `end`, trained from there on."""

    kind: Literal["until"] = "until"
    end: Moment


class From(Settings):
    """Trained before `start`, frozen from there on: a method that has been trained, and is never called frozen."""

    kind: Literal["from"] = "from"
    start: Moment


class TopDownThaw(Settings):
    """The top layer thaws at `start`, the bottom layer at `end`, the others evenly between."""

    kind: Literal["top-down-thaw"] = "top-down-thaw"
    start: Moment
    end: Moment

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if type(self.start) is type(self.end) and self.start > self.end:
            raise ValueError(f"the thaw starts at {self.start:g}, after its end at {self.end:g}; swap them")
        return self


class EveryNth(Settings):
    """Trained in every n-th step only (steps n-1, 2n-1, ...), frozen in between."""

    kind: Literal["every-nth"] = "every-nth"
    n: Annotated[int, Field(ge=2)]


When = Annotated[Always | Until | From | TopDownThaw | EveryNth, Field(discriminator="kind")]


class AllLayers(Settings):
    """Every layer."""

    kind: Literal["all"] = "all"


class OnlyLayers(Settings):
    """The layers with these indices, counted from 0 at the bottom."""

    kind: Literal["only"] = "only"
    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class AllButLast(Settings):
    """Every layer except the last (top) `count`."""

    kind: Literal["all-but-last"] = "all-but-last"
    count: Annotated[int, Field(ge=1)]


LayerChoice = Annotated[AllLayers | OnlyLayers | AllButLast, Field(discriminator="kind")]


class FreezingPlan(Settings):
    """Which weights are frozen, and when.

    `ffn_share` is the share of each FFN's hidden units that is frozen with Q and K: a unit's incoming row, its bias
    (in Llama style its gate row) and its outgoing column together. At 1 the whole FFN is frozen, output bias included.
    """

    query: bool = True
    key: bool = True
    ffn_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    layers: LayerChoice = AllLayers()
    when: When = Always()

    @model_validator(mode="after")
    def _freezes_something(self) -> Self:
        if not (self.query or self.key or self.ffn_share):
            raise ValueError("a freezing plan must name Q, K or a share of the FFN; for none, leave the plan out")
        return self


class Extras(GrownSettings):
    """Small trained additions, off by default, usable with any arm."""

    later: ClassVar[frozenset[str]] = frozenset({"gain_start", "norm", "bias", "query_key_lr"})

    shift: bool = False
    """Learned key shift: k_t <- (1-m_h) k_t + m_h k_{t-1}."""
    gain: bool = False
    """Learned gain exp(g_h) on each head's logits."""
    gain_start: Annotated[float, Field(gt=0)] = 1.0
    """What the gain is at init."""
    norm: bool = False
    """Queries and keys are divided by their root mean square, head by head; the gain then decides their size."""
    bias: bool = False
    """Learned biases of Q and K, zero at init: q = W_Q x + b_q, k = W_K x + b_k."""
    core: bool = False
    """A trained K x K matrix per head between the two projections: score q_h S_h k_h, S_h = I at init."""
    rank: Annotated[int, Field(ge=0)] = 0
    """Rank of a trained update B A of Q and of K, zero at init; 0 for none."""
    layer_lr: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Learning rate of layer l relative to the layer above it: 0.9 trains lower layers more gently."""
    query_key_lr: Annotated[float, Field(gt=0)] = 1.0
    """Learning rate of everything on the Q/K side (matrices and extras) relative to the rest."""

    @model_validator(mode="after")
    def _parts_have_a_gain(self) -> Self:
        if self.gain_start != 1 and not self.gain:
            raise ValueError(f"a gain that starts at {self.gain_start:g} needs a gain; write +gain={self.gain_start:g}")
        if self.norm and not self.gain:
            raise ValueError("normed queries and keys need a gain, or logits have one size for ever; write +norm")
        return self

    @property
    def changed(self) -> frozenset[str]:
        """The names of those that are not at their default: what is on."""
        fields = type(self).model_fields.items()
        return frozenset(name for name, field in fields if getattr(self, name) != field.default)

    @property
    def touch_queries_or_keys(self) -> bool:
        """Whether any of them needs a query or a key."""
        return bool(self.changed - {"layer_lr"})


class Pretrained(StrEnum):
    """What becomes of a pre-trained matrix that is not replaced by a fresh draw."""

    KEEP = "keep"
    """It stays as it is."""
    QR = "qr"
    """Each head's rows are orthogonalised one after the other (QR), as the original did."""
    POLAR = "polar"
    """Each head takes the orthogonal frame nearest to it (the polar factor)."""
    EXACT = "exact"
    """Q_h and K_h are turned together until their rows are orthogonal; logits change by rounding alone."""
    EXACT_EQUAL = "exact-equal"
    """The same directions, with rows of one length."""

    @property
    def keeps_function(self) -> bool:
        """Whether the model still computes what it did."""
        return self in (Pretrained.KEEP, Pretrained.EXACT)


class Lora(Settings):
    """Everything frozen; low-rank updates of Q and V by PEFT (alpha is twice the rank), and a new head, are trained."""

    kind: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1)] = 8


class BitFit(Settings):
    """Only biases and a new head are trained."""

    kind: Literal["bitfit"] = "bitfit"


class FrozenEmbeddings(Settings):
    """Token and position embeddings are frozen, all else is trained."""

    kind: Literal["frozen-embeddings"] = "frozen-embeddings"


class TopLayers(Settings):
    """Only the last (top) `count` layers and what follows them are trained."""

    kind: Literal["top-layers"] = "top-layers"
    count: Annotated[int, Field(ge=1)] = 2


Comparator = Annotated[Lora | BitFit | FrozenEmbeddings | TopLayers, Field(discriminator="kind")]
"""What others would freeze of a pre-trained model: arms beside which freezing Q and K has to stand."""


class Method(GrownSettings):
    """A named way to make, freeze and equip the Query/Key projections."""

    later: ClassVar[frozenset[str]] = frozenset({"blind", "thin", "one_draw", "strided", "comparator"})

    name: str
    query: Projection
    key: Projection
    pretrained: Pretrained | None = None
    """Make Q and K from a pre-trained model's matrices instead of drawing them; None draws."""
    key_source: KeySource = KeySource.OWN
    scale: Scale = Scale.AS_ORIGINAL
    plan: FreezingPlan | None = None
    extras: Extras = Extras()
    blind: bool = False
    """No queries and no keys: attention is uniform over the past. The projections stand for nothing then."""
    thin: Annotated[int, Field(ge=1)] | None = None
    """Width of each head's Q and K where it is below that of V; None for the same width."""
    one_draw: bool = False
    """Every layer's Q and K start as the bottom layer's: one draw, of which each layer stores its own copy."""
    strided: bool = False
    """In every second layer, from layer 1 on, a frame's head h reads coordinates h, h+H, h+2H, ... of H heads."""

    comparator: Comparator | None = None
    """Q and K are trained or frozen like all else, as somebody else would; nothing of the above then applies."""

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if self.comparator is not None and (self.plan or self.extras.touch_queries_or_keys or self.thin):
            raise ValueError(f"{self.comparator.kind} stands for itself; it has no plan and no extras")
        return self

    @model_validator(mode="after")
    def _levers_fit(self) -> Self:
        frames = [projection is Projection.COORDINATE_FRAME for projection in (self.query, self.key)]
        changed = self.extras.touch_queries_or_keys or self.thin or self.one_draw or self.strided
        if self.blind and (changed or not all(frames) or self.key_source is not KeySource.TIED):
            raise ValueError("blind attention has no Q and K to draw, share or equip; take another method for that")
        if self.one_draw and (all(frames) or self.pretrained is not None):
            raise ValueError("only drawn matrices can be one draw: frames are the same in every layer already")
        if self.strided and not any(frames):
            raise ValueError("only a coordinate frame can be strided; start from one, such as oelm-frame")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        shared = self.key_source is not KeySource.OWN
        if shared and self.key is not self.query:
            raise ValueError(f"a {self.key_source} key has the query's projection; give both the same one")
        if self.plan is None:
            return self
        if shared and self.plan.query != self.plan.key:
            raise ValueError(f"with a {self.key_source} key, Q and K are one matrix: freeze both or neither")
        stored_query = self.plan.query and self.query is not Projection.COORDINATE_FRAME
        stored_key = self.plan.key and self.key is not Projection.COORDINATE_FRAME
        if not (stored_query or stored_key or self.plan.ffn_share):
            raise ValueError("the freezing plan matches nothing: a coordinate frame stores no matrix to freeze")
        return self
