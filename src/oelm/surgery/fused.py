"""Fused projections: split while the model is in use, fused again wherever it is saved.

Two thirds of one tensor cannot be frozen: where a gradient is masked, AdamW still decays the weight. So GPT-2's
`c_attn` becomes separate layers. Its `state_dict` stays what it was, one `weight` and one `bias`, and it loads these:
whatever saves or loads the model (save_pretrained, a trainer's checkpoint, torch.save) sees plain GPT-2.
"""

# mypy: disable-error-code=no-untyped-call
# (torch leaves its hooks untyped)

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from oelm.base.errors import ConfigError
from oelm.surgery.architectures import Fused

_KINDS = ("weight", "bias")


class SplitLinear(nn.Module):
    """x -> [W_1 x + b_1, W_2 x + b_2, ...]: the parts of a fused layer as linear layers, q, k and v.

    Its rows lie in groups, and each group holds its share of every part: one group for part after part, one per head
    where heads are interleaved.

    `seam` is an empty parameter that trains with the rest. Its only purpose is to be one more entry in the
    optimiser's list: an optimiser's state is loaded by position alone, and with as many tensors as the plain model,
    torch would put the moments of V into those of the fused weight, in memory that is too small for them.
    """

    def __init__(self, fused: nn.Linear | Conv1D, sizes: Mapping[str, int], groups: int) -> None:
        super().__init__()
        self.sizes, self.groups, self.transposed = dict(sizes), groups, isinstance(fused, Conv1D)
        self.adapters_are_merged = False
        """Adapters on parts are merged before the model leaves; if not, saving them is warned of."""
        trained = fused.weight.requires_grad
        weights = self.split(fused.weight.detach(), "weight")
        biases = {} if fused.bias is None else self.split(fused.bias.detach(), "bias")
        for part in sizes:
            self.add_module(part, _linear(weights[part], biases.get(part), trained=trained))
        self.seam = nn.Parameter(fused.weight.new_empty(0), requires_grad=trained)
        self.register_state_dict_post_hook(_fuse)
        self.register_load_state_dict_pre_hook(_split)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The projections of x side by side, as the fused layer gives them."""
        shares = [self.get_submodule(part)(x_BTD).unflatten(-1, (self.groups, -1)) for part in self.sizes]
        return torch.cat([*shares, _Seam.apply(self.seam, shares[0])], dim=-1).flatten(-2)

    def split(self, fused: Tensor, kind: str) -> dict[str, Tensor]:
        """The parts of a fused weight or bias."""
        rows = fused.T if self.transposed and kind == "weight" else fused
        shares = [size // self.groups for size in self.sizes.values()]
        parts = rows.unflatten(0, (self.groups, -1)).split(shares, dim=1)
        return {part: share.flatten(0, 1) for part, share in zip(self.sizes, parts, strict=True)}

    def fuse(self, parts: Mapping[str, Tensor], kind: str) -> Tensor:
        """One weight or bias of all parts."""
        rows = torch.cat([parts[part].unflatten(0, (self.groups, -1)) for part in self.sizes], dim=1).flatten(0, 1)
        return rows.T if self.transposed and kind == "weight" else rows


class _Seam(torch.autograd.Function):
    """Zero columns without a gradient: DDP sees the parameter used, FSDP has nothing to shard."""

    @staticmethod
    def forward(_context: Any, seam: Tensor, share_BTGK: Tensor) -> Tensor:  # noqa: ARG004
        """Zero columns for each group."""
        return share_BTGK.new_empty(*share_BTGK.shape[:-1], 0)

    @staticmethod
    def backward(_context: Any, *_gradients: Tensor) -> tuple[None, None]:
        """None for either."""
        return None, None


def split_fused(model: nn.Module, attention: str, fused: Mapping[str, Fused], head_width: int) -> None:
    """Split the fused modules of the attention module with this name, where that has not been done before."""
    parent = model.get_submodule(attention)
    for name, layout in fused.items():
        module = parent.get_submodule(name)
        if isinstance(module, SplitLinear):
            continue
        if not is_plain(module):
            raise ConfigError(
                f"{attention}.{name} is a {type(module).__name__}, not a plain linear layer, and cannot be split",
                f"convert before adapters are added, and do not quantise it: llm_int8_skip_modules=['{name}']",
            )
        assert isinstance(module, nn.Linear | Conv1D)
        rows = module.weight.shape[1 if isinstance(module, Conv1D) else 0]
        sizes = _sizes(parent, layout, rows, head_width)
        groups = next(iter(sizes.values())) // head_width if layout.per_head else 1
        parent.register_module(name, SplitLinear(module, sizes, groups))


def is_plain(module: nn.Module) -> bool:
    """A linear layer with a matrix of numbers that can be measured and rewritten: not quantised, without an adapter.

    Quantising libraries make whole numbers, 8-bit floats, or tensors of a kind of their own that say they are float32.
    """
    if not isinstance(module, nn.Linear | Conv1D) or type(module.weight) is not nn.Parameter:
        return False
    return module.weight.is_floating_point() and module.weight.itemsize > 1


def _sizes(attention: nn.Module, layout: Fused, rows: int, head_width: int) -> dict[str, int]:
    """How many rows each part has: equal ones, or first the queries and then as many as there are key heads."""
    if layout.key_heads is None:
        return dict.fromkeys(layout.parts, rows // len(layout.parts))
    shared = getattr(attention, layout.key_heads) * head_width
    first, *others = layout.parts
    return {first: rows - shared * len(others), **dict.fromkeys(others, shared)}


def _linear(weight: Tensor, bias: Tensor | None, *, trained: bool) -> nn.Linear:
    width_out, width_in = weight.shape
    linear = nn.Linear(width_in, width_out, bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format), requires_grad=trained)
    if bias is not None:
        linear.bias = nn.Parameter(bias.clone(), requires_grad=trained)
    return linear


def _fuse(module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    assert isinstance(module, SplitLinear)
    state.pop(f"{prefix}seam", None)
    for kind in _KINDS:
        parts = {part: f"{prefix}{part}.{kind}" for part in module.sizes}
        if all(name in state for name in parts.values()):
            state[f"{prefix}{kind}"] = module.fuse({part: state.pop(name) for part, name in parts.items()}, kind)
    wrapped = [part for part in module.sizes if hasattr(module.get_submodule(part), "base_layer")]
    if wrapped and not module.adapters_are_merged:
        warnings.warn(
            f"{prefix}{wrapped[0]} is a part of a fused weight: saved by PEFT, its adapter does nothing on the plain "
            "model. Write it with oelm.save(model, folder), or load it on the converted model only.",
            stacklevel=2,
        )


def _split(
    module: nn.Module,
    state: dict[str, Any],
    prefix: str,
    _metadata: object,
    _strict: bool,
    _missing: list[str],
    _unexpected: list[str],
    _errors: list[str],
) -> None:
    assert isinstance(module, SplitLinear)
    state[f"{prefix}seam"] = module.seam.detach()
    for kind in _KINDS:
        if f"{prefix}{kind}" in state:
            parts = module.split(state.pop(f"{prefix}{kind}"), kind)
            state.update({f"{prefix}{part}.{kind}": tensor for part, tensor in parts.items()})
