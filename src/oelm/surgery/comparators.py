"""What others would freeze: LoRA, BitFit, embeddings, all but the top layers. The table says what stays fixed."""

import re
from dataclasses import replace
from typing import Any, assert_never

import torch
from torch import nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError
from oelm.base.streams import stream_seed
from oelm.config.method import BitFit, Comparator, FrozenEmbeddings, Lora, TopLayers
from oelm.method.weights import Role, Weight, layer_count
from oelm.surgery.fused import SplitLinear

_EMBEDDINGS = frozenset({Role.TOKEN_EMBEDDING, Role.POSITION_EMBEDDING})
_ADAPTER = "lora_"
_LAST_NORM = re.compile(r"^(?!.*embed)(?:.*\.)?(?:ln_f|norm|final_norm|(?:final_|post_)?layer_?norm)\.(?:weight|bias)$")
"""A norm after the last layer, as architectures call it; not DeBERTa's `LayerNorm`, which every layer reads."""
_DECODER = re.compile(r"(?:^|\.)decoder\.")


def tuned(
    model: PreTrainedModel, table: tuple[Weight, ...], comparator: Comparator | None, seed: int
) -> tuple[Weight, ...]:
    """The table of the model under a comparator, with what it leaves alone marked as fixed; LoRA is put in first."""
    if comparator is None:
        return table
    match comparator:
        case Lora(rank=rank):
            table = _with_adapters(model, table, rank, seed)
            trained = {weight.name for weight in table if weight.role is Role.LOW_RANK}
        case BitFit():
            trained = {weight.name for weight in table if weight.name.endswith("bias")}
        case FrozenEmbeddings():
            trained = {weight.name for weight in table if weight.role not in _EMBEDDINGS}
        case TopLayers(count=count):
            trained = _from_layer_on(table, layer_count(table) - count)
        case _:
            assert_never(comparator)
    if not trained:
        raise ConfigError(
            f"{comparator.kind} would train nothing of this {type(model).__name__}: it has no such weights",
            "take lora, top-layers or keep",
        )
    trained |= new_head(model)
    return tuple(replace(weight, fixed=weight.name not in trained) for weight in table)


def head_alone(model: PreTrainedModel, table: tuple[Weight, ...]) -> tuple[Weight, ...]:
    """The table of a linear probe: everything but the new head is fixed."""
    trained = new_head(model)
    return tuple(replace(weight, fixed=weight.name not in trained) for weight in table)


def new_head(model: PreTrainedModel) -> set[str]:
    """What stands outside of the pre-trained model itself (a tied output layer does not), and BERT's pooler."""
    inside = {id(parameter) for parameter in model.base_model.parameters()}
    return {
        name
        for name, parameter in model.named_parameters()
        if (id(parameter) not in inside or ".pooler." in name) and not _is_output_embedding(model, parameter)
    }


def merge(model: nn.Module) -> None:
    """Add every adapter's update to its matrix and take the adapter away; without adapters, nothing."""
    for name, module in list(model.named_modules()):
        if hasattr(module, "base_layer") and hasattr(module, "merge"):
            module.merge()
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, module.base_layer)


def _is_output_embedding(model: PreTrainedModel, parameter: nn.Parameter) -> bool:
    output: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return output is not None and any(parameter is own for own in output.parameters())


def _from_layer_on(table: tuple[Weight, ...], first: int) -> set[str]:
    """The weights of this layer and those above, and the norms that follow the last one."""
    if first < 1:
        raise ConfigError(
            f"top-layers would train all of the {layer_count(table)} layers", "write top-layers+top=1, or baseline"
        )
    has_decoder = any(weight.layer is not None and _DECODER.search(weight.name) for weight in table)
    behind = {
        weight.name
        for weight in table
        if weight.layer is None
        and weight.role is Role.NORM
        and _LAST_NORM.search(weight.name)
        and (not has_decoder or _DECODER.search(weight.name))
    }
    return behind | {weight.name for weight in table if weight.layer is not None and weight.layer >= first}


def _with_adapters(model: PreTrainedModel, table: tuple[Weight, ...], rank: int, seed: int) -> tuple[Weight, ...]:
    """Adapters by PEFT, drawn from the seed; matrices that got one have a new name, and keep their role and layer."""
    layers = {weight.name.rpartition(".")[0]: weight.layer for weight in table}
    old = {weight.name: weight for weight in table}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "init", "adapters"))
        _inject(model, rank, [weight.name.removesuffix(".weight") for weight in table if _is_adapted(weight)])
    weights = []
    for name, parameter in model.named_parameters():
        if _ADAPTER in name:
            layer = layers.get(name.split(f".{_ADAPTER}")[0])
            weights.append(Weight(name=name, role=Role.LOW_RANK, count=parameter.numel(), layer=layer))
        else:
            weights.append(replace(old[name.replace(".base_layer.", ".")], name=name))
    return tuple(weights)


def _is_adapted(weight: Weight) -> bool:
    """Queries and values, as in LoRA's paper; at every place that the architecture's row names."""
    return weight.role in (Role.QUERY, Role.VALUE) and weight.name.endswith(".weight")


def _inject(model: PreTrainedModel, rank: int, targets: list[str]) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigError("lora needs the package peft", "pip install 'oelm[peft]'") from error
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets), model)
    for module in model.modules():
        if isinstance(module, SplitLinear):
            module.adapters_are_merged = True  # by `merge`
