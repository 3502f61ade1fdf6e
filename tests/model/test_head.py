"""The head's losses and gradients beside F.cross_entropy on all logits, and the promise never to hold them all."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from builders import SMALL, bold_model, random_tokens, relative_error
from oelm.base.runtime import generator_for
from oelm.model.embedding import look_up
from oelm.model.head import ROWS, summed_loss, token_losses

N, D, V = 2 * ROWS + 77, 8, 37


def drawn(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = generator_for(0, "head")
    x_ND = (scale * torch.randn(N, D, dtype=torch.float64, generator=generator)).to(dtype)
    weight_VD = torch.randn(V, D, dtype=torch.float64, generator=generator).to(dtype)
    return x_ND, weight_VD, torch.randint(V, (N,), generator=generator)


def all_at_once(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    return F.cross_entropy((x_ND @ weight_VD.T).float() if x_ND.dtype is torch.bfloat16 else x_ND @ weight_VD.T,
                           targets_N, reduction="sum")  # fmt: skip


def loss_and_gradients(
    loss: Any, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, factor: float = 1
) -> list[Tensor]:
    x_ND, weight_VD = x_ND.clone().requires_grad_(), weight_VD.clone().requires_grad_()
    value = loss(x_ND, weight_VD, targets_N)
    (factor * value).backward()
    assert x_ND.grad is not None
    assert weight_VD.grad is not None
    return [value.detach(), x_ND.grad, weight_VD.grad]


@pytest.mark.parametrize("factor", [1, -2.5])
def test_loss_and_gradients_are_those_of_all_logits(factor: float) -> None:
    ours, theirs = (loss_and_gradients(loss, *drawn(), factor) for loss in (summed_loss, all_at_once))
    for actual, expected in zip(ours, theirs, strict=True):
        assert relative_error(actual, expected) < 1e-12


def test_a_wrong_target_is_noticed() -> None:
    x_ND, weight_VD, targets_N = drawn()
    theirs = loss_and_gradients(all_at_once, x_ND, weight_VD, targets_N)
    other_N = targets_N.clone()
    other_N[-1] = (other_N[-1] + 1) % V
    for actual, expected in zip(loss_and_gradients(summed_loss, x_ND, weight_VD, other_N), theirs, strict=True):
        assert relative_error(actual, expected) > 1e-6


def test_every_tokens_loss() -> None:
    x_ND, weight_VD, targets_N = drawn()
    expected = F.cross_entropy(x_ND @ weight_VD.T, targets_N, reduction="none")
    assert relative_error(token_losses(x_ND, weight_VD, targets_N), expected) < 1e-12
    assert torch.equal(summed_loss(x_ND, weight_VD, targets_N), token_losses(x_ND, weight_VD, targets_N).sum())


def test_huge_logits_stay_finite() -> None:
    x_ND, weight_VD, targets_N = drawn(torch.float32, scale=300.0)
    assert (x_ND @ weight_VD.T).abs().max() > 1000
    ours = loss_and_gradients(summed_loss, x_ND, weight_VD, targets_N)
    theirs = loss_and_gradients(all_at_once, x_ND, weight_VD, targets_N)
    for actual, expected in zip(ours, theirs, strict=True):
        assert relative_error(actual, expected) < 1e-4


def test_only_the_gradients_that_are_wanted() -> None:
    x_ND, weight_VD, targets_N = drawn()
    x_ND.requires_grad_()
    summed_loss(x_ND, weight_VD, targets_N).backward()
    assert weight_VD.grad is None
    assert x_ND.grad is not None
    expected = loss_and_gradients(all_at_once, *drawn())[1]
    assert relative_error(x_ND.grad, expected) < 1e-12


def test_under_autocast_it_computes_in_bf16_and_keeps_float32_gradients() -> None:
    x_ND, weight_VD, targets_N = drawn(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        ours = loss_and_gradients(summed_loss, x_ND, weight_VD, targets_N)
    exact = loss_and_gradients(all_at_once, x_ND, weight_VD, targets_N)
    for actual, expected in zip(ours, exact, strict=True):
        assert actual.dtype is torch.float32
        assert 1e-5 < relative_error(actual, expected) < 2e-2


class Sizes(TorchDispatchMode):
    """Remembers the sizes of all tensors that operations return."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen += [part.numel() for part in (result if isinstance(result, tuple | list) else (result,))
                      if isinstance(part, Tensor)]  # fmt: skip
        return result


@pytest.mark.parametrize("loss", [summed_loss, all_at_once])
def test_it_never_holds_all_logits(loss: Any) -> None:
    x_ND, weight_VD, targets_N = drawn()
    with Sizes() as sizes:
        loss_and_gradients(loss, x_ND, weight_VD, targets_N)
        with torch.no_grad():
            loss(x_ND, weight_VD, targets_N)
    largest = ROWS * math.ceil(V / 16) * 16
    assert (max(sizes.seen) <= largest) == (loss is summed_loss)


def test_a_model_with_targets_gives_the_loss_of_its_logits() -> None:
    model, tokens_BT = bold_model("oelm-core"), random_tokens(SMALL, 3, 10)
    inputs, targets = tokens_BT[:, :-1], tokens_BT[:, 1:]

    def gradients(loss: Tensor) -> list[Tensor]:
        model.zero_grad()
        loss.backward()
        return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]  # type: ignore[union-attr]

    ours = gradients(model(inputs, targets))
    theirs = gradients(F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum"))
    for actual, expected in zip(ours, theirs, strict=True):
        assert relative_error(actual, expected) < 1e-10


# --- the tied embedding ---


def test_one_gradient_for_both_uses_of_the_embedding() -> None:
    """Rows looked up more than once, and a head; then each use alone."""
    _, weight_VD, _ = drawn()
    tokens_BT = torch.tensor([[1, 1, 5], [0, 1, 36]])

    def gradient(tied: bool, rows_used: bool, head_used: bool) -> Tensor:
        weight = weight_VD.clone().requires_grad_()
        rows_BTD, head_VD = look_up(weight, tokens_BT) if tied else (F.embedding(tokens_BT, weight), weight)
        loss = rows_BTD.sin().sum() * rows_used + head_VD.square().sum() * head_used
        loss.backward()
        assert weight.grad is not None
        return weight.grad

    for uses in ((True, True), (True, False), (False, True)):
        assert relative_error(gradient(True, *uses), gradient(False, *uses)) < 1e-12
    assert relative_error(gradient(True, True, False), gradient(True, True, True)) > 1e-2
