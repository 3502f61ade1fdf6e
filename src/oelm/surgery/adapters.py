"""Adapters (LoRA) on a converted model, saved such that they load on the plain one.

A converted GPT-2 has V in a layer of its own, `c_attn.v`, which the plain model does not have: PEFT would leave such an
adapter out without a word. On the fused layer it is the same update, with rows of zeros for the other parts:

    W + s B A with B = [0; 0; B_v];   of several parts of one layer: A = [A_q; A_v], and B in blocks
"""

# R rank  D width

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from oelm.base.errors import ConfigError
from oelm.surgery.fused import SplitLinear

_FILE = "adapter_model.safetensors"


def adapted_base(model: Any) -> nn.Module | None:
    """The model inside PEFT's wrapper; None if there is no wrapper."""
    wrapped = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    return model.get_base_model() if wrapped else None


def save_adapter(model: Any, base: nn.Module, folder: Path) -> None:
    """Write the active adapter of a model under PEFT, parts of fused layers as an adapter of the whole layer."""
    split = {path: module for path, module in base.named_modules() if isinstance(module, SplitLinear)}
    adapted = {path: parts for path, module in split.items() if (parts := _adapted_parts(module))}
    config = model.peft_config[model.active_adapter]
    if not adapted:
        model.save_pretrained(folder)
        return
    if not _is_plain_lora(config):
        raise ConfigError(
            "the adapter is on a part of a fused weight, and only plain LoRA of one rank, one alpha and without biases "
            "can be written for the whole",
            "adapt other layers, or save the merged model: model.merge_and_unload().save_pretrained(folder)",
        )
    state = _adapter_state(model)
    for path, parts in adapted.items():
        state |= _of_the_whole(split[path], f"base_model.model.{path}", parts, state)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, folder / _FILE, metadata={"format": "pt"})
    _config_of_the_whole(model, config, split, adapted).save_pretrained(str(folder))


def refuse_lost_parts(model: nn.Module) -> None:
    """Refuse what transformers' own `add_adapter` put on a part of a fused layer: it would be saved under that name."""
    for path, module in model.named_modules():
        if isinstance(module, SplitLinear) and (parts := _adapted_parts(module)):
            raise ConfigError(
                f"{path}.{parts[0]} is a part of a fused weight: saved after add_adapter, its adapter does nothing on "
                "the plain model",
                "adapt with peft.get_peft_model(model, config): oelm.save then writes it for the whole layer",
            )


def _is_plain_lora(config: Any) -> bool:
    """The update is alpha / R B A, alike for all layers, on the base as it was, and nothing besides."""
    if config.peft_type != "LORA" or config.bias != "none":
        return False
    varied = config.rank_pattern or config.alpha_pattern or config.use_rslora or config.use_dora or config.lora_bias
    return not varied and config.init_lora_weights in (True, False, "gaussian")


def _adapted_parts(module: SplitLinear) -> list[str]:
    return [part for part in module.sizes if hasattr(module.get_submodule(part), "base_layer")]


def _adapter_state(model: Any) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning about parts of fused weights, which are handled here
        state: dict[str, Tensor] = get_peft_model_state_dict(
            model, adapter_name=model.active_adapter, save_embedding_layers=False
        )
    return state


def _of_the_whole(module: SplitLinear, name: str, parts: list[str], state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A and B of the fused layer; those of its parts are taken out of `state`."""
    down = [state.pop(f"{name}.{part}.lora_A.weight") for part in parts]
    up = dict(zip(parts, (state.pop(f"{name}.{part}.lora_B.weight") for part in parts), strict=True))
    rank, columns = down[0].shape[0], []
    for part in parts:
        blocks = {
            other: up[part] if other == part else up[part].new_zeros(size, rank) for other, size in module.sizes.items()
        }
        columns.append(module.fuse(blocks, "rows"))
    return {f"{name}.lora_A.weight": torch.cat(down), f"{name}.lora_B.weight": torch.cat(columns, dim=1)}


def _config_of_the_whole(model: Any, config: Any, split: dict[str, SplitLinear], adapted: dict[str, list[str]]) -> Any:
    """The adapter's config with fused layers as targets; scale alpha / R stays what it was."""
    inside = {f"{path}.{part}" for path, parts in adapted.items() for part in parts}
    changed = copy.deepcopy(config)
    changed.target_modules = {
        *adapted,
        *(name for name in model.base_model.targeted_module_names if name not in inside),
    }
    changed.rank_pattern = {path: config.r * len(parts) for path, parts in adapted.items()}
    changed.alpha_pattern = {path: config.lora_alpha * len(parts) for path, parts in adapted.items()}
    changed.fan_in_fan_out = any(split[path].transposed for path in adapted)
    changed.inference_mode = True
    return changed
