"""How much a conversion changed a model's outputs, measured on a batch given by the user."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oelm.base.errors import ConfigError

_NOTICED = 1e-3
"""Below this relative change it is rounding: half precision has about as much."""
_FIX = "give the inputs of one forward pass: probe={'input_ids': ..., 'labels': ...}"


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Answers before and after: |after - before| / |before|, and the loss where the batch has labels."""

    change: float
    of: str
    """Which output was compared: logits, or the last hidden states of a model without a head."""
    loss_before: float | None = None
    loss_after: float | None = None

    @property
    def is_noticeable(self) -> bool:
        """More than rounding."""
        return not self.change < _NOTICED

    def __str__(self) -> str:
        text = f"{self.of} changed by {self.change:.2g} of their size"
        if self.loss_before is None or self.loss_after is None:
            return text
        return f"{text}, loss {self.loss_before:.4g} -> {self.loss_after:.4g}"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The outputs of a model on a batch."""

    values: Tensor
    of: str
    loss: float | None

    def damage_to(self, after: "Answers") -> Damage:
        """The change from these to later ones."""
        size = self.values.norm().item()
        change = (after.values - self.values).norm().item() / size if size else math.inf
        return Damage(change=change, of=self.of, loss_before=self.loss, loss_after=after.loss)


def answers(model: nn.Module, probe: Mapping[str, Tensor]) -> Answers:
    """Logits (or hidden states) and loss on a batch, without dropout; the model is left in the mode it was in."""
    if not isinstance(probe, Mapping):
        raise ConfigError(f"the probe batch is a {type(probe).__name__}, not inputs by name", _FIX)
    with _evaluating(model), torch.no_grad():
        output = model(**probe)
    for name in ("logits", "logits_per_image", "last_hidden_state"):
        values = getattr(output, name, None)
        if isinstance(values, Tensor):
            loss = getattr(output, "loss", None)
            return Answers(
                values=values.detach().cpu().double(),
                of="hidden states" if name == "last_hidden_state" else "logits",
                loss=None if loss is None else float(loss),
            )
    raise ConfigError(
        f"the probe batch gives a {type(output).__name__} without logits or hidden states",
        _FIX,
    )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
