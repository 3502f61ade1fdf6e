"""What has been done to a model, kept on the model itself."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from oelm.base.errors import ConfigError, FreezeError
from oelm.config.method import Always
from oelm.method.weights import Weight
from oelm.surgery.architectures import Attention
from oelm.surgery.operation import Operation
from oelm.surgery.sites import open_sites
from oelm.surgery.table import build_table

_ATTRIBUTE = "oelm_conversion"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One conversion: enough to freeze again, and to prove that the frozen tensors are the same."""

    operation: Operation
    seed: int
    attention: tuple[Attention, ...]
    train_biases: bool
    digests: dict[str, str]
    """Digest of every tensor that is frozen from the start."""

    @property
    def frozen(self) -> frozenset[str]:
        """The names of the tensors that are frozen from the start."""
        return frozenset(self.digests)


def conversion_of(model: nn.Module) -> Conversion:
    """The conversion of a converted model."""
    conversion = getattr(model, _ATTRIBUTE, None)
    if not isinstance(conversion, Conversion):
        raise ConfigError(f"this {type(model).__name__} has not been converted", "call oelm.convert(model, method)")
    return conversion


def is_converted(model: nn.Module) -> bool:
    """True after `convert` or `load`."""
    return isinstance(getattr(model, _ATTRIBUTE, None), Conversion)


def freeze(model: PreTrainedModel, conversion: Conversion) -> None:
    """Freeze what the conversion freezes; what an earlier one froze and this one does not, trains again."""
    earlier = conversion_of(model).frozen if is_converted(model) else frozenset()
    for name, parameter in model.named_parameters():
        if name in conversion.frozen | earlier:
            parameter.requires_grad_(name not in conversion.frozen)
            parameter.grad = None
    setattr(model, _ATTRIBUTE, conversion)


def weight_table(model: PreTrainedModel) -> tuple[Weight, ...]:
    """The table of a converted model, for `frozen_names` and the training loop."""
    conversion = conversion_of(model)
    sites = open_sites(model, conversion.attention)
    return build_table(model, sites, conversion.operation.method.plan, train_biases=conversion.train_biases)


def digests_of(model: nn.Module, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 over type, shape and bytes of these tensors."""
    return {name: _digest(model.get_parameter(name)) for name in sorted(names)}


def accept_weights(model: nn.Module) -> None:
    """Take the frozen tensors as they stand for those of the conversion: a checkpoint was loaded over them.

    They were drawn again before that, and another machine's LAPACK draws other last bits.
    """
    conversion = conversion_of(model)
    setattr(model, _ATTRIBUTE, replace(conversion, digests=digests_of(model, conversion.frozen)))


def check_frozen(model: nn.Module) -> None:
    """Refuse a model of which a tensor has moved that its plan freezes for good. A changed dtype is not judged."""
    conversion = conversion_of(model)
    plan = conversion.operation.method.plan
    if plan is None or not isinstance(plan.when, Always):
        return
    for name, now in digests_of(model, conversion.frozen).items():
        before = conversion.digests[name]
        if now != before and now.split(":")[0] == before.split(":")[0]:
            raise FreezeError(f"the frozen tensor {name} has changed since the conversion", "convert and train anew")


def _digest(tensor: Tensor) -> str:
    plain = tensor.detach().cpu().contiguous()
    content = hashlib.sha256(repr(tuple(plain.shape)).encode())
    content.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return f"{str(plain.dtype).removeprefix('torch.')}:{content.hexdigest()}"
