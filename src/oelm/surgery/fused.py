"""Fused projections: split while the model is in use, fused again wherever it is saved.

Two thirds of one tensor cannot be frozen: where a gradient is masked, AdamW still decays the weight. So GPT-2's
`c_attn` becomes separate layers. Its `state_dict` stays what it was, one `weight` and one `bias`, and it loads these:
whatever saves or loads the model (save_pretrained, a trainer's checkpoint, torch.save) sees plain GPT-2.
"""

# mypy: disable-error-code=no-untyped-call
# (torch leaves its hooks untyped)

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D


class SplitConv1D(nn.Module):
    """x -> [W_1 x + b_1, W_2 x + b_2, ...]: the parts of a fused Conv1D as linear layers, q, k and v."""

    def __init__(self, fused: Conv1D, parts: tuple[str, ...]) -> None:
        super().__init__()
        self.parts = parts
        tensors = zip(parts, fused.weight.chunk(len(parts), dim=1), fused.bias.chunk(len(parts)), strict=True)
        for part, weight, bias in tensors:
            self.add_module(part, _linear(weight.detach().T, bias.detach(), trained=fused.weight.requires_grad))
        self.register_state_dict_post_hook(_fuse)
        self.register_load_state_dict_pre_hook(_split)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The projections of x side by side, as the fused layer gives them."""
        return torch.cat([self.get_submodule(part)(x_BTD) for part in self.parts], dim=-1)

    def slots(self, prefix: str) -> Iterator[tuple[str, int, list[str]]]:
        """For weight and bias: the fused name, the dimension it is cut along, and the names of its parts."""
        for kind, dimension in (("weight", 1), ("bias", 0)):
            yield f"{prefix}{kind}", dimension, [f"{prefix}{part}.{kind}" for part in self.parts]


def split_fused(model: nn.Module, attention: str, fused: dict[str, tuple[str, ...]]) -> None:
    """Split the fused modules of the attention module with this name, where that has not been done before."""
    parent = model.get_submodule(attention)
    for name, parts in fused.items():
        module = parent.get_submodule(name)
        if isinstance(module, Conv1D):
            parent.register_module(name, SplitConv1D(module, parts))


def _linear(weight: Tensor, bias: Tensor, *, trained: bool) -> nn.Linear:
    width_out, width_in = weight.shape
    linear = nn.Linear(width_in, width_out, device="meta")
    linear.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format), requires_grad=trained)
    linear.bias = nn.Parameter(bias.clone(), requires_grad=trained)
    return linear


def _fuse(module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    assert isinstance(module, SplitConv1D)
    for fused, dimension, parts in module.slots(prefix):
        if all(part in state for part in parts):  # an adapter may have wrapped a part; then it stays apart
            tensors = [state.pop(part) for part in parts]
            state[fused] = torch.cat([tensor.T if dimension else tensor for tensor in tensors], dim=dimension)


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
    assert isinstance(module, SplitConv1D)
    for fused, dimension, parts in module.slots(prefix):
        if fused in state:
            tensors = state.pop(fused).chunk(len(parts), dim=dimension)
            state.update(zip(parts, (tensor.T if dimension else tensor for tensor in tensors), strict=True))
