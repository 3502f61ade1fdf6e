"""Where each architecture keeps its Queries and Keys: one row each.

`docs/architectures.md` adds one in ten lines, from outside (`convert(model, architecture=row)`) or here: a row in
`ARCHITECTURES` and a tiny config in `tests/surgery/models.py`. The tests do the rest: a wrong path finds nothing,
swapped names and a wrong head layout change the logits, and `between` is tried out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from transformers import PreTrainedModel

from oelm.base.errors import ConfigError

_ATTRIBUTE = "oelm_architecture"


class Attention(StrEnum):
    """The kinds of attention that can be chosen separately."""

    ENCODER = "encoder"
    """Self-attention of an encoder."""
    DECODER = "decoder"
    """Self-attention of a decoder, or of CLIP's causal text tower."""
    CROSS = "cross"
    """Attention of a decoder to an encoder."""


@dataclass(frozen=True, kw_only=True)
class Fused:
    """Several projections in one weight, in this order. It is split first, so a place can name a part: `c_attn.q`."""

    parts: tuple[str, ...]
    per_head: bool = False
    """Head after head, each with its rows of all parts (GPT-NeoX), instead of part after part."""
    key_heads: str | None = None
    """The attribute of the attention module with the number of key and value heads; None: parts of equal size."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One kind of attention: `<stack>.<layer>.<module>` is the attention module, `query` and `key` live in it."""

    stack: str
    module: str
    query: str
    key: str
    fused: Mapping[str, Fused] = field(default_factory=dict)
    """The modules in it that hold several projections in one weight."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One row: what is needed to find, reshape and name the weights of a transformers model.

    Queries and keys are stacks of heads, head h in rows hK .. hK+K-1; the number of heads is rows / K, so grouped
    queries need no column of their own. `value`, `output` and `ffn` are patterns of module paths within a layer.
    """

    names: tuple[str, ...]
    """transformers' names (`config.model_type`) of the models that are laid out like this."""
    places: Mapping[Attention, Place]
    head_width: str
    """The attribute of the attention module that holds K."""
    value: str
    output: str
    ffn: str
    divides_logits: bool = True
    """Attention divides q.k by sqrt(K). Where it does not (T5), the division belongs into the query's rows."""
    between: str = ""
    """What stands between the projections and their product, such as rotary positions; nothing for plain attention."""
    adds_to_logits: bool = False
    """A trained bias by distance is added to q.k (T5, MPNet): attention looks somewhere even without q and k."""
    positions_after_padding: bool = False
    """Positions are counted from behind the padding's id, so that many fewer can be read (RoBERTa)."""

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of layers, from the bottom of the model to its top."""
        return tuple(dict.fromkeys(place.stack for place in self.places.values()))


ROTARY = "rotary positions"
"""What may stand between where extras are added: they come before it."""
_NORMED = "a norm of q and k, and rotary positions"

_BERT = Architecture(
    names=("bert", "electra"),
    places={
        Attention.ENCODER: Place(stack="encoder.layer", module="attention.self", query="query", key="key"),
        Attention.CROSS: Place(stack="encoder.layer", module="crossattention.self", query="query", key="key"),
    },
    head_width="attention_head_size",
    value=r"(cross)?attention\.self\.value",
    output=r"(cross)?attention\.output\.dense",
    ffn=r"(intermediate|output)\.dense",
)
_LLAMA = Architecture(
    names=("llama", "mistral", "qwen2", "gemma", "gemma2", "smollm3"),
    places={Attention.DECODER: Place(stack="layers", module="self_attn", query="q_proj", key="k_proj")},
    head_width="head_dim",
    value=r"self_attn\.v_proj",
    output=r"self_attn\.o_proj",
    ffn=r"mlp\.(gate|up|down)_proj",
    between=ROTARY,
)
_BART = Architecture(
    names=("bart", "mbart", "whisper"),
    places={
        Attention.ENCODER: Place(stack="encoder.layers", module="self_attn", query="q_proj", key="k_proj"),
        Attention.DECODER: Place(stack="decoder.layers", module="self_attn", query="q_proj", key="k_proj"),
        Attention.CROSS: Place(stack="decoder.layers", module="encoder_attn", query="q_proj", key="k_proj"),
    },
    head_width="head_dim",
    value=r"(self|encoder)_attn\.v_proj",
    output=r"(self|encoder)_attn\.out_proj",
    ffn=r"fc[12]",
)
_VIT = Architecture(
    names=("vit", "deit"),
    places={Attention.ENCODER: Place(stack="layers", module="attention", query="q_proj", key="k_proj")},
    head_width="head_dim",
    value=r"attention\.v_proj",
    output=r"attention\.o_proj",
    ffn=r"mlp\.fc[12]",
)

ARCHITECTURES = (
    _BERT,
    replace(_BERT, names=("roberta", "xlm-roberta", "camembert"), positions_after_padding=True),
    Architecture(
        names=("distilbert",),
        places={Attention.ENCODER: Place(stack="transformer.layer", module="attention", query="q_lin", key="k_lin")},
        head_width="attention_head_size",
        value=r"attention\.v_lin",
        output=r"attention\.out_lin",
        ffn=r"ffn\.lin[12]",
    ),
    Architecture(
        names=("albert",),  # one layer, used again and again
        places={
            Attention.ENCODER: Place(
                stack="albert_layer_groups", module="albert_layers.0.attention", query="query", key="key"
            )
        },
        head_width="attention_head_size",
        value=r"albert_layers\.0\.attention\.value",
        output=r"albert_layers\.0\.attention\.dense",
        ffn=r"albert_layers\.0\.ffn(_output)?",
    ),
    Architecture(
        names=("mpnet",),
        places={Attention.ENCODER: Place(stack="encoder.layer", module="attention.attn", query="q", key="k")},
        head_width="attention_head_size",
        value=r"attention\.attn\.v",
        output=r"attention\.attn\.o",
        ffn=r"(intermediate|output)\.dense",
        adds_to_logits=True,
        positions_after_padding=True,
    ),
    Architecture(
        names=("deberta-v2",),
        places={
            Attention.ENCODER: Place(stack="encoder.layer", module="attention.self", query="query_proj", key="key_proj")
        },
        head_width="attention_head_size",
        value=r"attention\.self\.value_proj",
        output=r"attention\.output\.dense",
        ffn=r"(intermediate|output)\.dense",
        between="disentangled positions, which go through the same projections",
    ),
    Architecture(
        names=("modernbert",),
        places={
            Attention.ENCODER: Place(
                stack="layers",
                module="attn",
                query="Wqkv.q",
                key="Wqkv.k",
                fused={"Wqkv": Fused(parts=("q", "k", "v"))},
            )
        },
        head_width="head_dim",
        value=r"attn\.Wqkv\.v",
        output=r"attn\.Wo",
        ffn=r"mlp\.W[io]",
        between=ROTARY,
    ),
    Architecture(
        names=("gpt2",),
        places={
            Attention.DECODER: Place(
                stack="h",
                module="attn",
                query="c_attn.q",
                key="c_attn.k",
                fused={"c_attn": Fused(parts=("q", "k", "v"))},
            ),
            Attention.CROSS: Place(
                stack="h",
                module="crossattention",
                query="q_attn.q",
                key="c_attn.k",
                fused={"q_attn": Fused(parts=("q",)), "c_attn": Fused(parts=("k", "v"))},
            ),
        },
        head_width="head_dim",
        value=r"(attn|crossattention)\.c_attn\.v",
        output=r"(attn|crossattention)\.c_proj",
        ffn=r"mlp\.c_(fc|proj)",
    ),
    Architecture(
        names=("gpt_neo",),
        places={Attention.DECODER: Place(stack="h", module="attn.attention", query="q_proj", key="k_proj")},
        head_width="head_dim",
        value=r"attn\.attention\.v_proj",
        output=r"attn\.attention\.out_proj",
        ffn=r"mlp\.c_(fc|proj)",
        divides_logits=False,
    ),
    Architecture(
        names=("gpt_neox",),
        places={
            Attention.DECODER: Place(
                stack="layers",
                module="attention",
                query="query_key_value.q",
                key="query_key_value.k",
                fused={"query_key_value": Fused(parts=("q", "k", "v"), per_head=True)},
            )
        },
        head_width="head_size",
        value=r"attention\.query_key_value\.v",
        output=r"attention\.dense",
        ffn=r"mlp\.dense_(h_to_4h|4h_to_h)",
        between=ROTARY,
    ),
    Architecture(
        names=("opt",),
        places={Attention.DECODER: Place(stack="decoder.layers", module="self_attn", query="q_proj", key="k_proj")},
        head_width="head_dim",
        value=r"self_attn\.v_proj",
        output=r"self_attn\.out_proj",
        ffn=r"fc[12]",
    ),
    _LLAMA,
    replace(_LLAMA, names=("qwen3", "gemma3_text", "olmo2"), between=_NORMED),
    replace(
        _LLAMA,
        names=("phi3",),
        places={
            Attention.DECODER: Place(
                stack="layers",
                module="self_attn",
                query="qkv_proj.q",
                key="qkv_proj.k",
                fused={"qkv_proj": Fused(parts=("q", "k", "v"), key_heads="num_key_value_heads")},
            )
        },
        value=r"self_attn\.qkv_proj\.v",
        ffn=r"mlp\.(gate_up|down)_proj",
    ),
    Architecture(
        names=("t5", "mt5"),
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
        adds_to_logits=True,
    ),
    _BART,
    _VIT,
    replace(
        _VIT,
        names=("dinov2",),
        places={Attention.ENCODER: Place(stack="encoder.layer", module="attention", query="q_proj", key="k_proj")},
        ffn=r"mlp\.(fc[12]|(gate|up|down)_proj)",
    ),
    replace(
        _BART,
        names=("clip", "clip_text_model", "clip_vision_model"),
        places={
            Attention.ENCODER: Place(
                stack="vision_model.encoder.layers", module="self_attn", query="q_proj", key="k_proj"
            ),
            Attention.DECODER: Place(
                stack="text_model.encoder.layers", module="self_attn", query="q_proj", key="k_proj"
            ),
        },
        ffn=r"mlp\.fc[12]",
    ),
)


def architecture_of(model: PreTrainedModel) -> Architecture:
    """The row of this model: the one that `convert` was given, or the table's."""
    given = getattr(model, _ATTRIBUTE, None)
    return given if isinstance(given, Architecture) else architecture_named(model.config.model_type)


def set_architecture(model: PreTrainedModel, row: Architecture) -> None:
    """Let the model be read by this row instead of the table's."""
    setattr(model, _ATTRIBUTE, row)


def architecture_named(model_type: str) -> Architecture:
    """The row of the table for one of transformers' model types."""
    for row in ARCHITECTURES:
        if model_type in row.names:
            return row
    known = ", ".join(name for row in ARCHITECTURES for name in row.names)
    raise ConfigError(
        f"it is not known where a {model_type!r} model keeps its queries and keys (known: {known})",
        "give it a row: oelm.convert(model, ..., architecture=oelm.Architecture(...)), see docs/architectures.md",
    )
