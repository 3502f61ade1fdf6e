"""Regression: one number per text or pair of texts."""

# B batch  N examples of the set

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.config.measure import REGRESSION
from oelm.tasks.classification import head_output
from oelm.tasks.labelled_batches import LabelledBatches
from oelm.tasks.task import Batch, Judged, LossSum


class Regression:
    """Scored by the squared error, in the unit of the labels, and by correlation with them."""

    name = "regression"
    measures = REGRESSION

    def __init__(self, batches: LabelledBatches) -> None:
        self.training_batch = batches.training_batch
        self.validation_batches = batches.validation_batches
        self.batches_of = batches.batches_of
        self.tokens = batches.tokens

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """sum (y - label)^2 and the number of examples."""
        y_B = head_output(model, batch).squeeze(1)
        total = F.mse_loss(y_B, batch["labels"].to(y_B.dtype), reduction="sum")
        return LossSum(total, torch.tensor(len(y_B), device=total.device))

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Every prediction and every label at its place, 0 elsewhere: ranks need them all, and so they add up."""
        return self.judge(model, batch).sums

    def judge(self, model: nn.Module, batch: Batch) -> Judged:
        """The sums, and the number predicted for every example."""
        y_B, labels_B, places_B = head_output(model, batch).squeeze(1), batch["labels"], batch["places"]
        sums_2N = torch.zeros(2, int(batch["set_size"]), dtype=torch.float64)
        sums_2N[0, places_B.cpu()], sums_2N[1, places_B.cpu()] = y_B.cpu().double(), labels_B.cpu().double()
        return Judged(sums_2N.flatten().to(y_B.device, sum_dtype(y_B.device)), places_B, y_B, labels_B)

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Mean squared error, Pearson's correlation and Spearman's, which is that of the ranks."""
        y_N, labels_N = sums.view(2, -1)
        return {
            "loss": (y_N - labels_N).square().mean().item(),
            "pearson": correlation(y_N, labels_N),
            "spearman": correlation(ranks(y_N), ranks(labels_N)),
        }


def correlation(x_N: Tensor, y_N: Tensor) -> float:
    """cov(x, y) / (std x std y); 0 where one of them is constant."""
    x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()
    scale = x_N.norm() * y_N.norm()
    return (x_N @ y_N / scale).item() if scale > 0 else 0.0


def ranks(x_N: Tensor) -> Tensor:
    """1 for the smallest; equal numbers share the mean of their ranks."""
    in_order_N = x_N.sort().values
    below_N, not_above_N = (torch.searchsorted(in_order_N, x_N, right=right) for right in (False, True))
    return (below_N + not_above_N + 1).double() / 2
