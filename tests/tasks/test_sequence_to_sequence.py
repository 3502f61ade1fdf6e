from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oelm.data.labelled_sets import Encoded
from oelm.tasks.labelled_batches import UNASKED
from oelm.tasks.rouge import longest_common_subsequence, rouge_l
from oelm.tasks.sequence_to_sequence import SequenceToSequence
from oelm.tasks.task import Batch

from .examples import batches

SOURCES = tuple(np.arange(1, 1 + length) for length in (3, 2, 5))
EXAMPLES = Encoded(SOURCES, tuple(row[::-1].copy() for row in SOURCES))


class Reverses(nn.Module):
    """Writes its input backwards, and says so of every next token; what has three tokens it leaves as it is."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, use_cache: bool) -> SimpleNamespace:
        assert not use_cache
        logits_BTV = torch.zeros(*labels.shape, 10)
        for row, written in enumerate(self.written(input_ids, attention_mask)):
            logits_BTV[row, range(len(written)), written] = 4.0
        return SimpleNamespace(logits=logits_BTV)

    def written(self, input_ids: Tensor, attention_mask: Tensor) -> list[list[int]]:
        texts = [row[: mask.sum()].tolist() for row, mask in zip(input_ids, attention_mask, strict=True)]
        return [text if len(text) == 3 else text[::-1] for text in texts]


def write(model: nn.Module, batch: Batch) -> Tensor:
    assert isinstance(model, Reverses)
    rows = model.written(batch["input_ids"], batch["attention_mask"])
    return torch.tensor([row + [UNASKED] * (5 - len(row)) for row in rows])


def read(ids_BT: Tensor) -> list[str]:
    return [" ".join(str(token) for token in row if token >= 0) for row in ids_BT.tolist()]


def test_what_is_written_is_compared_with_the_target() -> None:
    task, model = SequenceToSequence(batches(EXAMPLES), write=write, read=read), Reverses()
    judged = task.judge(model, batches(EXAMPLES).padded(EXAMPLES, [0, 1, 2]))
    assert (judged.predictions_B.tolist(), judged.labels_B.tolist()) == ([0, 1, 1], [1, 1, 1])
    sums = [sum(task.measure(model, batch) for batch in task.validation_batches(part, 2)) for part in range(2)]
    found = task.summarise(sums[0] + sums[1])
    assert found == pytest.approx(task.summarise(judged.sums))
    assert found["exact_match"] == pytest.approx(2 / 3)
    assert found["rouge_l"] == pytest.approx((1 / 3 + 1 + 1) / 3)
    right, wrong = torch.tensor([4.0, *[0.0] * 9]).log_softmax(0)[:2].tolist()
    assert found["loss"] == pytest.approx(-(8 * right + 2 * wrong) / 10)  # the middle one of three is right


def test_the_loss_counts_tokens_of_the_target_without_filling() -> None:
    task = SequenceToSequence(batches(EXAMPLES), write=write, read=read)
    assert task.loss(Reverses(), batches(EXAMPLES).padded(EXAMPLES, [0, 2])).count == 8


@pytest.mark.parametrize(
    ("written", "reference", "expected"),
    [
        ("police killed the gunman", "police kill the gunman", 3 / 4),  # Lin's examples
        ("the gunman kill police", "police kill the gunman", 2 / 4),
        ("The gunman, police killed!", "police killed the gunman", 2 / 4),
        ("a b", "a x b y", 2 * 1 * 0.5 / 1.5),
        ("", "a", 0),
        ("", "", 1),
    ],
)
def test_rouge_l_is_the_f_score_of_the_longest_common_subsequence(
    written: str, reference: str, expected: float
) -> None:
    assert rouge_l(written, reference) == pytest.approx(expected)


def test_the_longest_common_subsequence_is_that_of_all_subsequences() -> None:
    def subsequences(text: str) -> set[str]:
        return {""} if not text else {part for rest in subsequences(text[1:]) for part in (rest, text[0] + rest)}

    random = np.random.default_rng(0)
    for _ in range(30):
        one, two = ("".join(random.choice(list("abc"), size=random.integers(7))) for _ in range(2))
        brute = max(len(part) for part in subsequences(one) & subsequences(two))
        assert longest_common_subsequence(one, two) == longest_common_subsequence(two, one) == brute
