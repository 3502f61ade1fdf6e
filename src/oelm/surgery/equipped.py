"""Extras inside a Hugging Face model's attention, as `method/extras.py` defines them.

They act on what the layers of Q and K put out. All that follows is transformers' own: rotary positions, masks, softmax
by any implementation. Their tensors stand in the attention module, as `oelm`, under the names they have in our GPT.

A shifted key needs the key before it. Caches hold keys as attention reads them, and padding before a text would pass
for its first key: a model with a key shift reads whole texts, padded on the right if at all, and refuses the rest.
"""

# B batch  T time  D model width  H heads  K head width  E = H K

import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from oelm.base.errors import CheckpointError, ConfigError
from oelm.base.runtime import generator_for
from oelm.config.method import Extras
from oelm.method.extras import SIDES, ExtraTensor, Side, extra_tensors, rows_of
from oelm.method.weights import HeadShape, Weight
from oelm.surgery.architectures import Attention
from oelm.surgery.model_folder import weight_files
from oelm.surgery.sites import Site

_NAME = "oelm"


class AttentionExtras(nn.Module):
    """The extras of one attention: their tensors, and what they do to its queries and keys."""

    def __init__(self, extras: Extras, site: Site, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows, self.head_width = rows_of(extras), site.query.head_width
        for tensor in _tensors(extras, site):
            start = tensor.start(tensor.size, generator_for(seed, "convert", site.kind, site.layer, tensor.name))
            device = site.query.linear.weight.device
            _register(self, tensor.name, nn.Parameter(start.to(device, dtype, copy=True)))

    def on_queries(self, _linear: nn.Module, inputs: tuple[Tensor, ...], q_BTE: Tensor) -> Tensor:
        """A forward hook of the layer that makes queries."""
        return self._entered("q", inputs[0], q_BTE)

    def on_keys(self, _linear: nn.Module, inputs: tuple[Tensor, ...], k_BTE: Tensor) -> Tensor:
        """A forward hook of the layer that makes keys."""
        return self._entered("k", inputs[0], k_BTE)

    def _entered(self, side: Side, x_BTD: Tensor, y_BTE: Tensor) -> Tensor:
        own, y_BTHK = dict(self.named_parameters()), y_BTE.reshape(*y_BTE.shape[:-1], -1, self.head_width)
        for row in self.rows:
            y_BTHK = row.enter(side, y_BTHK, x_BTD, own)
        return y_BTHK.flatten(-2).to(y_BTE.dtype)


def equip(model: PreTrainedModel, sites: Collection[Site], extras: Extras, seed: int) -> None:
    """Put the extras into these attentions, where they start as in our GPT."""
    for site in sites if rows_of(extras) else ():
        part = AttentionExtras(extras, site, seed, model.dtype)
        model.get_submodule(site.module).add_module(_NAME, part)
        site.query.linear.register_forward_hook(part.on_queries)
        site.key.linear.register_forward_hook(part.on_keys)
        if extras.shift and site.kind is not Attention.CROSS:  # which reads a whole text at once
            model.get_submodule(site.module).register_forward_pre_hook(_refuse_past, with_kwargs=True)
    if extras.shift:
        for module in {model, model.base_model}:
            module.register_forward_pre_hook(_refuse_left_padding, with_kwargs=True)
        for settings in (model.config, getattr(model, "generation_config", None)):
            if settings is not None and hasattr(settings, "use_cache"):
                settings.use_cache = False


def extra_weights(extras: Extras, sites: Collection[Site]) -> Iterator[Weight]:
    """The rows of the weight table: the tensors that `equip` makes."""
    for site in sites:
        for tensor in _tensors(extras, site):
            name = f"{site.module}.{_NAME}.{tensor.name}"
            yield Weight(name=name, role=tensor.role, count=math.prod(tensor.size), layer=site.layer)


def read_extras(model: PreTrainedModel, folder: Path) -> None:
    """Give the extras of an equipped model the values in its folder, which `from_pretrained` has no place for."""
    wanted = {name: tensor for name, tensor in model.named_parameters() if f".{_NAME}." in name}
    for file in (file for file in weight_files(folder) if file.suffix == ".safetensors"):
        with safe_open(file, "pt") as stored:
            for name in wanted.keys() & set(stored.keys()):
                wanted.pop(name).data.copy_(stored.get_tensor(name))
    if wanted:
        raise CheckpointError(
            f"{folder} lacks {sorted(wanted)[0]}, of the extras that its config speaks of ({len(wanted)} such tensors)",
            "restore the folder as oelm.save or a trainer wrote it",
        )


def _tensors(extras: Extras, site: Site) -> Iterator[ExtraTensor]:
    """Those of queries by the number of query heads, those of keys by the number of key heads."""
    for side, projector in zip(SIDES, site.sides, strict=True):
        shape = HeadShape(projector.heads, projector.head_width, projector.linear.in_features)
        yield from (tensor for tensor in extra_tensors(extras, shape) if tensor.side == side)


def _register(module: nn.Module, path: str, parameter: nn.Parameter) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(module, parent):
            module.add_module(parent, nn.Module())
        module = module.get_submodule(parent)
    module.register_parameter(name, parameter)


def _refuse_past(attention: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    for cache in (*inputs, *named.values()):
        if isinstance(cache, Cache) and cache.get_seq_length(getattr(attention, "layer_idx", None) or 0):
            raise ConfigError(
                "a shifted key needs the key before it, and the cache of this model does not hold that",
                "give whole texts: model.generate(..., use_cache=False)",
            )


def _refuse_left_padding(_model: nn.Module, _inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    mask_BT = None if torch.compiler.is_compiling() else named.get("attention_mask")
    if isinstance(mask_BT, Tensor) and mask_BT.ndim == 2 and not bool(mask_BT[:, 0].all()):
        raise ConfigError(
            "a shifted key needs the key before it, and padding on the left would pass for one",
            "pad on the right (tokenizer.padding_side = 'right'), or give one text at a time",
        )
