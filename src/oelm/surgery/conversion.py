"""What has been done to a model: kept on the model, and in its config, which travels with every save.

`config.json` gets one more key, `oelm`. Whatever writes the model (save_pretrained, push_to_hub, a trainer's
checkpoint) writes it too, and whatever reads the folder as a plain model ignores it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from oelm.base.errors import ConfigError, FreezeError
from oelm.config.method import Always, Method
from oelm.config.settings import parse
from oelm.method.weights import Weight
from oelm.surgery.architectures import Attention
from oelm.surgery.operation import Operation, parse_operation
from oelm.surgery.sites import open_sites
from oelm.surgery.table import build_table

MARKER = "oelm"
_ATTRIBUTE = "oelm_conversion"
_DIGEST_LENGTH = 16


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

    @property
    def is_for_good(self) -> bool:
        """Frozen tensors stay so: under a calendar they may move."""
        plan = self.operation.method.plan
        return plan is None or isinstance(plan.when, Always)

    def marker(self) -> dict[str, Any]:
        """As plain data, for the model's config."""
        return {
            "method": self.operation.method.model_dump(mode="json"),
            "seed": self.seed,
            "attention": [str(kind) for kind in self.attention],
            "train_biases": self.train_biases,
            "frozen": dict(self.digests),
        }


def read_marker(config: PreTrainedConfig, where: str) -> Conversion | None:
    """The conversion that a config speaks of; None of a plain model."""
    values = getattr(config, MARKER, None)
    if values is None:
        return None
    return Conversion(
        operation=parse_operation(parse(Method, values["method"], where=where)),
        seed=values["seed"],
        attention=tuple(Attention(kind) for kind in values["attention"]),
        train_biases=values["train_biases"],
        digests=dict(values["frozen"]),
    )


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
            parameter.requires_grad_(name not in conversion.frozen and parameter.is_floating_point())
            parameter.grad = None
    _keep(model, conversion)


def accept_weights(model: PreTrainedModel) -> None:
    """Take the frozen tensors as they stand for those of the conversion: a checkpoint was loaded over them.

    They were drawn again before that, and another machine's LAPACK draws other last bits.
    """
    conversion = conversion_of(model)
    _keep(model, replace(conversion, digests=digests_of(model, conversion.frozen)))


def weight_table(model: PreTrainedModel) -> tuple[Weight, ...]:
    """The table of a converted model, for `frozen_names` and the training loop."""
    conversion = conversion_of(model)
    sites = open_sites(model, conversion.attention)
    return build_table(model, sites, conversion.operation.method, train_biases=conversion.train_biases)


def refuse_absent_weights(model: nn.Module) -> None:
    """Refuse a model of which a weight is not in memory: it cannot be read, and will not be trained."""
    if absent := next((name for name, parameter in model.named_parameters() if parameter.is_meta), None):
        raise ConfigError(
            f"{absent} is not in memory: it was offloaded, or never loaded",
            "load the model without a device_map that offloads to the disk or the CPU",
        )


def digests_of(model: nn.Module, names: Iterable[str]) -> dict[str, str]:
    """The type and a SHA-256 over shape and bytes of these tensors."""
    return {name: _digest(_frozen_parameter(model, name)) for name in sorted(names)}


def check_frozen(model: nn.Module) -> None:
    """Refuse a model of which a tensor has moved that its plan freezes for good. A changed dtype is not judged."""
    conversion = conversion_of(model)
    now = digests_of(model, conversion.frozen)
    if conversion.is_for_good and (moved := changed_names(conversion.digests, now)):
        raise FreezeError(f"the frozen tensor {moved[0]} has changed since the conversion", "convert and train anew")


def changed_names(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The tensors whose digests differ, of those that have one type before and now."""
    same_type = (name for name in before if before[name].split(":")[0] == now[name].split(":")[0])
    return sorted(name for name in same_type if before[name] != now[name])


def _keep(model: PreTrainedModel, conversion: Conversion) -> None:
    setattr(model, _ATTRIBUTE, conversion)
    setattr(model.config, MARKER, conversion.marker())


def _frozen_parameter(model: nn.Module, name: str) -> Tensor:
    module_name, _, part = name.rpartition(".")
    module = model.get_submodule(module_name)
    if hasattr(module, "base_layer"):
        raise FreezeError(
            f"{module_name} is frozen, and an adapter trains an update of it",
            "leave Q and K out of the adapter's target_modules, or convert with 'baseline', which freezes nothing",
        )
    tensor: Tensor = getattr(module, part)
    return tensor


def _digest(tensor: Tensor) -> str:
    tensor = tensor.detach()
    content = hashlib.sha256(repr(tuple(tensor.shape)).encode())
    for part in _stored(tensor):
        content.update(part.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    kind = type(tensor).__name__ if _is_composed(tensor) else str(tensor.dtype).removeprefix("torch.")
    return f"{kind}:{content.hexdigest()[:_DIGEST_LENGTH]}"


def _is_composed(tensor: Tensor) -> bool:
    """A tensor of a kind of its own, made of others: quantised or sharded, whatever dtype it shows."""
    return hasattr(tensor, "__tensor_flatten__")


def _stored(tensor: Any) -> Iterator[Tensor]:
    """The tensors whose bytes it is."""
    if not _is_composed(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _stored(getattr(tensor, name))
