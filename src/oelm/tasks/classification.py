"""Classification: one label per text or pair of texts."""

# B batch  C classes

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.config.measure import CLASSIFICATION
from oelm.tasks.labelled_batches import LabelledBatches, inputs_of
from oelm.tasks.task import Batch, Judged, LossSum


class Classification:
    """Scored by cross-entropy, accuracy and macro F1."""

    name = "classification"
    measures = CLASSIFICATION

    def __init__(self, batches: LabelledBatches, *, classes: int) -> None:
        self.training_batch = batches.training_batch
        self.validation_batches = batches.validation_batches
        self.batches_of = batches.batches_of
        self.tokens = batches.tokens
        self._classes = classes

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(label) and the number of examples."""
        logits_BC = head_output(model, batch)
        total = F.cross_entropy(logits_BC, batch["labels"], reduction="sum")
        return LossSum(total, torch.tensor(len(logits_BC), device=total.device))

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum, then the confusion matrix (label by prediction)."""
        return self.judge(model, batch).sums

    def judge(self, model: nn.Module, batch: Batch) -> Judged:
        """The sums, and the predicted class of every example."""
        logits_BC, labels_B = head_output(model, batch), batch["labels"]
        loss, predicted_B = F.cross_entropy(logits_BC, labels_B, reduction="sum"), logits_BC.argmax(1)
        cells = torch.bincount(labels_B * self._classes + predicted_B, minlength=self._classes**2)
        sums = torch.cat([part.to(sum_dtype(part.device)) for part in (loss.view(1), cells)])
        return Judged(sums, batch["places"], predicted_B, labels_B)

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss, accuracy and macro F1 (the mean of the classes' F1; a class that nobody has or predicts counts 0)."""
        confusion_CC = sums[1:].view(self._classes, self._classes)
        right_C = confusion_CC.diagonal()
        f1_C = 2 * right_C / (confusion_CC.sum(0) + confusion_CC.sum(1)).clamp(min=1)
        count = confusion_CC.sum()
        return {
            "loss": (sums[0] / count).item(),
            "accuracy": (right_C.sum() / count).item(),
            "f1": f1_C.mean().item(),
        }


def head_output(model: nn.Module, batch: Batch) -> Tensor:
    """What a classifier's head says of every example (B, C), in float32 at least."""
    output = model(**inputs_of(batch))
    logits_BC: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits_BC.float() if logits_BC.dtype in (torch.bfloat16, torch.float16) else logits_BC
