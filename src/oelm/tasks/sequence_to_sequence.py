"""Sequence to sequence: a text is written for every text, by an encoder-decoder of transformers."""

# B batch  T time of the target  V vocabulary

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oelm.base.runtime import sum_dtype
from oelm.config.measure import SEQUENCE_TO_SEQUENCE
from oelm.tasks.labelled_batches import UNASKED, LabelledBatches, inputs_of
from oelm.tasks.rouge import rouge_l
from oelm.tasks.task import Batch, Judged, LossSum

Write = Callable[[nn.Module, Batch], Tensor]
"""The ids (B, T) that a model writes for its inputs."""
Read = Callable[[Tensor], list[str]]
"""Ids (B, T) as texts; special tokens and what is below 0 are left out."""


class SequenceToSequence:
    """Trained on the next token of the target; scored by what the model writes by itself: exact texts and ROUGE-L."""

    name = "seq2seq"
    measures = SEQUENCE_TO_SEQUENCE

    def __init__(self, batches: LabelledBatches, *, write: Write, read: Read) -> None:
        self.training_batch = batches.training_batch
        self.validation_batches = batches.validation_batches
        self.batches_of = batches.batches_of
        self.tokens = batches.tokens
        self._write = write
        self._read = read

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """-sum log p(token of the target | the tokens before it) and the number of such tokens."""
        labels_BT = batch["labels"]
        logits_BTV: Tensor = model(**inputs_of(batch), labels=labels_BT, use_cache=False).logits
        logits_BTV = logits_BTV.float() if logits_BTV.dtype in (torch.bfloat16, torch.float16) else logits_BTV
        flat = logits_BTV.flatten(0, 1), labels_BT.flatten()
        return LossSum(F.cross_entropy(*flat, ignore_index=UNASKED, reduction="sum"), (labels_BT != UNASKED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        """Loss sum, target tokens, exact texts, sum of ROUGE-L, texts."""
        return self.judge(model, batch).sums

    def judge(self, model: nn.Module, batch: Batch) -> Judged:
        """The sums, and for every text 1 if what was written is exactly the target, else 0 (the label is 1)."""
        loss, labels_BT = self.loss(model, batch), batch["labels"]
        written = self._read(self._write(model, batch))
        pairs = list(zip(written, self._read(labels_BT), strict=True))
        exact_B = torch.tensor([ours.strip() == theirs.strip() for ours, theirs in pairs], device=labels_BT.device)
        overlap = loss.total.new_tensor(sum(rouge_l(*pair) for pair in pairs))
        sums = (loss.total, loss.count, exact_B.sum(), overlap, torch.full_like(overlap, len(pairs)))
        sums_5 = torch.stack([each.to(sum_dtype(each.device)) for each in sums])
        right_B = torch.ones_like(batch["places"])
        return Judged(sums_5, batch["places"], exact_B.long(), right_B)

    def summarise(self, sums: Tensor) -> dict[str, float]:
        """Loss in nats per token of the target, the share of exact texts, and the mean ROUGE-L."""
        loss, tokens, exact, overlap, texts = sums.tolist()
        return {"loss": loss / tokens, "exact_match": exact / texts, "rouge_l": overlap / texts}
