"""Where each architecture keeps its Queries and Keys: one row each.

To add one: append a row to `ARCHITECTURES` and a tiny config to `tests/surgery/models.py`; the tests do the rest
(a wrong path finds nothing, swapped names and a wrong head layout change the logits).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from transformers import PreTrainedModel

from oelm.base.errors import ConfigError


class Attention(StrEnum):
    """The kinds of attention that can be chosen separately."""

    ENCODER = "encoder"
    """Self-attention of an encoder."""
    DECODER = "decoder"
    """Self-attention of a decoder."""
    CROSS = "cross"
    """Attention of a decoder to an encoder."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One kind of attention: `<stack>.<layer>.<module>` is the attention module, `query` and `key` live in it.

    `fused` names modules that hold several projections in one weight, with their parts in order. They are split
    first, so `query` and `key` may name a part: `c_attn.q`.
    """

    stack: str
    module: str
    query: str
    key: str
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One row: what is needed to find, reshape and name the weights of a transformers model.

    Queries and keys are stacks of heads, head h in rows hK .. hK+K-1; the number of heads is rows / K, so grouped
    queries need no column of their own. `value`, `output` and `ffn` are patterns of module paths within a layer.
    """

    model_type: str
    places: Mapping[Attention, Place]
    head_width: str
    """The attribute of the attention module that holds K."""
    value: str
    output: str
    ffn: str
    divides_logits: bool = True
    """Attention divides q.k by sqrt(K). Where it does not (T5), the division belongs into the query's rows."""

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of layers, from the bottom of the model to its top."""
        return tuple(dict.fromkeys(place.stack for place in self.places.values()))


_BERT_PLACES = {
    Attention.ENCODER: Place(stack="encoder.layer", module="attention.self", query="query", key="key"),
    Attention.CROSS: Place(stack="encoder.layer", module="crossattention.self", query="query", key="key"),
}
_BERT_OUTPUT = r"(cross)?attention\.output\.dense"

ARCHITECTURES = (
    Architecture(
        model_type="bert",
        places=_BERT_PLACES,
        head_width="attention_head_size",
        value=r"(cross)?attention\.self\.value",
        output=_BERT_OUTPUT,
        ffn=r"(intermediate|output)\.dense",
    ),
    Architecture(
        model_type="roberta",
        places=_BERT_PLACES,
        head_width="attention_head_size",
        value=r"(cross)?attention\.self\.value",
        output=_BERT_OUTPUT,
        ffn=r"(intermediate|output)\.dense",
    ),
    Architecture(
        model_type="gpt2",
        places={
            Attention.DECODER: Place(
                stack="h", module="attn", query="c_attn.q", key="c_attn.k", fused={"c_attn": ("q", "k", "v")}
            ),
            Attention.CROSS: Place(
                stack="h",
                module="crossattention",
                query="q_attn.q",
                key="c_attn.k",
                fused={"q_attn": ("q",), "c_attn": ("k", "v")},
            ),
        },
        head_width="head_dim",
        value=r"(attn|crossattention)\.c_attn\.v",
        output=r"(attn|crossattention)\.c_proj",
        ffn=r"mlp\.c_(fc|proj)",
    ),
    Architecture(
        model_type="llama",
        places={Attention.DECODER: Place(stack="layers", module="self_attn", query="q_proj", key="k_proj")},
        head_width="head_dim",
        value=r"self_attn\.v_proj",
        output=r"self_attn\.o_proj",
        ffn=r"mlp\.(gate|up|down)_proj",
    ),
    Architecture(
        model_type="t5",
        places={
            Attention.ENCODER: Place(stack="encoder.block", module="layer.0.SelfAttention", query="q", key="k"),
            Attention.DECODER: Place(stack="decoder.block", module="layer.0.SelfAttention", query="q", key="k"),
            Attention.CROSS: Place(stack="decoder.block", module="layer.1.EncDecAttention", query="q", key="k"),
        },
        head_width="key_value_proj_dim",
        value=r"layer\.\d\.(Self|EncDec)Attention\.v",
        output=r"layer\.\d\.(Self|EncDec)Attention\.o",
        ffn=r"layer\.\d\.DenseReluDense\.w(i|o|i_0|i_1)",
        divides_logits=False,
    ),
    Architecture(
        model_type="bart",
        places={
            Attention.ENCODER: Place(stack="encoder.layers", module="self_attn", query="q_proj", key="k_proj"),
            Attention.DECODER: Place(stack="decoder.layers", module="self_attn", query="q_proj", key="k_proj"),
            Attention.CROSS: Place(stack="decoder.layers", module="encoder_attn", query="q_proj", key="k_proj"),
        },
        head_width="head_dim",
        value=r"(self|encoder)_attn\.v_proj",
        output=r"(self|encoder)_attn\.out_proj",
        ffn=r"fc[12]",
    ),
    Architecture(
        model_type="vit",
        places={Attention.ENCODER: Place(stack="layers", module="attention", query="q_proj", key="k_proj")},
        head_width="head_dim",
        value=r"attention\.v_proj",
        output=r"attention\.o_proj",
        ffn=r"mlp\.fc[12]",
    ),
)


def architecture_of(model: PreTrainedModel) -> Architecture:
    """The row of this model."""
    model_type = model.config.model_type
    for row in ARCHITECTURES:
        if row.model_type == model_type:
            return row
    known = ", ".join(row.model_type for row in ARCHITECTURES)
    raise ConfigError(
        f"it is not known where a {model_type!r} model keeps its queries and keys (known: {known})",
        "use one of these, or add a row to ARCHITECTURES in oelm/surgery/architectures.py "
        "and a tiny config to tests/surgery/models.py",
    )
