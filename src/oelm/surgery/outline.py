"""The weights of a model before it is fetched: its shape alone, from a folder that is here or from its name."""

import copy
from functools import lru_cache
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from oelm.config.method import Method
from oelm.config.model import HuggingFaceModel
from oelm.method.weights import Weight
from oelm.surgery.comparators import head_alone, tuned
from oelm.surgery.model_folder import local_folder
from oelm.surgery.operation import parse_operation
from oelm.surgery.pretrained import read_config
from oelm.surgery.rewrite import refuse_impossible
from oelm.surgery.sites import open_sites
from oelm.surgery.table import build_table

_LARGE_BERT = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_BASE_BART = {
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}
_KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base-uncased": ("bert", {}),
    "bert-base-cased": ("bert", {"vocab_size": 28996}),
    "bert-base-multilingual-cased": ("bert", {"vocab_size": 119547}),
    "bert-large-uncased": ("bert", _LARGE_BERT),
    "roberta-base": ("roberta", {"max_position_embeddings": 514, "type_vocab_size": 1}),
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "t5-small": ("t5", {}),
    "t5-base": ("t5", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
    "bart-base": ("bart", _BASE_BART),
    "bart-large": ("bart", {}),
}
"""Published dimensions, by name without the owner: the architecture, and where it departs from its defaults."""
_OWNERS = ("google-bert", "FacebookAI", "openai-community", "google-t5", "facebook")


def outlined_table(pretrained: HuggingFaceModel, outputs: int | None, method: Method) -> tuple[Weight, ...] | None:
    """The table that a run will have, nothing fetched and nothing drawn; None of a model that is not known here.

    `outputs` is the width of the head, None for a model that writes texts.
    """
    model = _outline(pretrained.source, pretrained.revision, outputs)
    if model is None:
        return None
    operation, sites = parse_operation(method), open_sites(model, pretrained.attention)
    for site in sites:
        refuse_impossible(operation, site)
    table = build_table(model, sites, method, train_biases=pretrained.train_biases)
    if pretrained.head_only:
        return head_alone(model, table)
    return table if method.comparator is None else tuned(copy.deepcopy(model), table, method.comparator, seed=0)


def is_published(source: str) -> bool:
    """Whether this is the name of a model of the Hub whose dimensions are known here."""
    owner, _, name = source.rpartition("/")
    return name in _KNOWN and owner in ("", *_OWNERS)


@lru_cache(maxsize=4)
def _outline(source: str, revision: str | None, outputs: int | None) -> PreTrainedModel | None:
    head = {} if outputs is None else {"num_labels": outputs}
    kind = AutoModelForSeq2SeqLM if outputs is None else AutoModelForSequenceClassification
    config = _config(source, revision, head)
    if config is None:
        return None
    with torch.device("meta"):
        return kind.from_config(config)  # type: ignore[no-any-return, no-untyped-call]


def _config(source: str, revision: str | None, head: dict[str, int]) -> PreTrainedConfig | None:
    folder = local_folder(source, revision)
    if folder is not None:
        return read_config(folder, **head)
    if not is_published(source):
        return None
    model_type, changes = _KNOWN[source.rpartition("/")[2]]
    config: PreTrainedConfig = AutoConfig.for_model(model_type, **head, **changes)
    return config
