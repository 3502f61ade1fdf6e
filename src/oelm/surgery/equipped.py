"""Extras inside a Hugging Face model's attention, as `method/extras.py` defines them.

They act on what the layers of Q and K put out. All that follows is transformers' own: rotary positions, masks, softmax
by any implementation. Their tensors stand in the attention module, as `oelm`, under the names they have in our GPT.

A shifted key needs the key before it: `shifted_keys.py` sees to it where there is a cache, or padding on the left.
"""

# B batch  T time  D model width  H heads  K head width  E = H K

import inspect
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from oelm.base.errors import CheckpointError
from oelm.base.runtime import generator_for
from oelm.config.method import Extras
from oelm.method.extras import SIDES, ExtraTensor, Side, extra_tensors, rows_of
from oelm.method.weights import HeadShape, Weight
from oelm.surgery.architectures import Attention
from oelm.surgery.model_folder import weight_files
from oelm.surgery.shifted_keys import LastToken, cache_in, keep_last_token, last_token, text_starts, with_predecessors
from oelm.surgery.sites import Site

_NAME = "oelm"
_LAYER = ("layer_idx", "layer_id")
"""What transformers calls the number of an attention's layer, its place in a cache; the latter in GPT-Neo."""


class AttentionExtras(nn.Module):
    """The extras of one attention: their tensors, and what they do to its queries and keys."""

    def __init__(self, extras: Extras, site: Site, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows, self.head_width = rows_of(extras), site.query.head_width
        self.kind, self.shifts = site.kind, extras.shift
        self.start_B: Tensor | None = None
        """Where the texts of this forward pass begin, if there may be padding before them."""
        self.cache: Cache | None = None
        """That of this forward pass, until the keys are made, and how many tokens it has seen."""
        self.seen = 0
        for tensor in _tensors(extras, site):
            start = tensor.start(tensor.size, generator_for(seed, "convert", site.kind, site.layer, tensor.name))
            device = site.query.linear.weight.device
            _register(self, tensor.name, nn.Parameter(start.to(device, dtype, copy=True)))

    def on_queries(self, _linear: nn.Module, inputs: tuple[Tensor, ...], q_BTE: Tensor) -> Tensor:
        """A forward hook of the layer that makes queries."""
        return self._entered("q", inputs[0], q_BTE)

    def on_keys(self, _linear: nn.Module, inputs: tuple[Tensor, ...], k_BTE: Tensor) -> Tensor:
        """A forward hook of the layer that makes keys."""
        x_BTD = inputs[0]
        if not self.shifts:
            return self._entered("k", x_BTD, k_BTE)
        (cache, self.cache), last = (self.cache, None), None
        if cache is not None:
            last, seen = last_token(cache, id(self), self.seen), self.seen + x_BTD.shape[1]
            keep_last_token(cache, id(self), LastToken(x_BTD[:, -1:], k_BTE[:, -1:], seen))
        x_BTD, k_BTE, lead = with_predecessors(x_BTD, k_BTE, last, self.start_B)
        return self._entered("k", x_BTD, k_BTE)[:, lead:]

    def before_attention(self, attention: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A forward pre-hook of the attention: the cache, as it is before this pass, and where texts begin.

        By its own mask where it has one: gradient checkpointing calls it again, when other texts may have been seen.
        """
        if not _has_window(attention) and (start_B := text_starts(named.get("attention_mask"))) is not None:
            self.start_B = start_B
        self.cache = cache_in(inputs, named)
        layer = next((index for name in _LAYER if (index := getattr(attention, name, None)) is not None), 0)
        self.seen = 0 if self.cache is None else int(self.cache.get_seq_length(layer))

    def _entered(self, side: Side, x_BTD: Tensor, y_BTE: Tensor) -> Tensor:
        own, y_BTHK = dict(self.named_parameters()), y_BTE.reshape(*y_BTE.shape[:-1], -1, self.head_width)
        for row in self.rows:
            y_BTHK = row.enter(side, y_BTHK, x_BTD, own)
        return y_BTHK.flatten(-2).to(y_BTE.dtype)


def equip(model: PreTrainedModel, sites: Collection[Site], extras: Extras, seed: int) -> None:
    """Put the extras into these attentions, where they start as in our GPT."""
    if not rows_of(extras):
        return
    _let_compile_see_hooks()
    for site in sites:
        part = AttentionExtras(extras, site, seed, model.dtype)
        model.get_submodule(site.module).add_module(_NAME, part)
        site.query.linear.register_forward_hook(part.on_queries)
        site.key.linear.register_forward_hook(part.on_keys)
        if extras.shift and site.kind is not Attention.CROSS:  # which reads a whole text at once
            model.get_submodule(site.module).register_forward_pre_hook(part.before_attention, with_kwargs=True)
    for module in model.modules() if extras.shift else ():
        if isinstance(module, PreTrainedModel):  # the model, and every stack that has a mask of its own
            module.register_forward_pre_hook(_find_starts, with_kwargs=True)


def _let_compile_see_hooks() -> None:
    """Code that torch.compile made for a model without hooks runs for one with them: by default it does not look."""
    import torch._dynamo

    torch._dynamo.config.skip_nnmodule_hook_guards = False
    torch._dynamo.reset()  # what was compiled before does not look either


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


def _has_window(module: nn.Module) -> bool:
    return bool(
        getattr(module, "sliding_window", None) or getattr(getattr(module, "config", None), "sliding_window", 0)
    )


def _is_through_a_window(mask: object, model: nn.Module) -> bool:
    """Whether a mask of queries and keys may hide the beginning of a text."""
    return isinstance(mask, Tensor) and mask.ndim == 4 and _has_window(model)


def _find_starts(model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Tell the attentions inside where their keys' texts begin; a stack that is called later tells its own again."""
    given = named
    if inputs[1:]:  # the mask may be given by its place
        given = inspect.signature(model.forward).bind_partial(*inputs, **named).arguments
    masks = (given.get(name) for name in ("attention_mask", "encoder_attention_mask"))
    own_B, other_B = (None if _is_through_a_window(mask, model) else text_starts(mask) for mask in masks)
    for part in model.modules():
        if isinstance(part, AttentionExtras):
            part.start_B = other_B if part.kind is Attention.CROSS else own_B
