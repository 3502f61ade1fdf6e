"""A new measure from end to end: a task declares it and gives its values: one file, and nothing else knows of it."""

import io
import json
from collections.abc import Iterator

import torch
from rich.console import Console
from torch import Tensor, nn

from oelm.config.measure import LANGUAGE_MODELLING, Better, Bilingual, CompareScale, Measure
from oelm.config.record import Record
from oelm.report.groups import Report, build_report
from oelm.report.texts import Language
from oelm.report.write_html import as_html
from oelm.report.write_json import as_json
from oelm.report.write_markdown import as_markdown
from oelm.report.write_terminal import print_report
from oelm.tasks.task import Batch, LossSum, Task

from .records import BASELINE_LOSSES, make_config, make_record

DISTINCT_WORDS = Measure(
    name="distinct_words",
    title=Bilingual(english="distinct words", chinese="不同词数"),
    better=Better.HIGHER,
    decimals=1,
    scale=CompareScale.RATIO,
    criterion=0.9,
)


class WordCounting:
    """Continue one prompt and count the different tokens; a stand-in for a task with a measure of its own."""

    name = "language-modelling"
    measures = (*LANGUAGE_MODELLING, DISTINCT_WORDS)

    def training_batch(self, step: int, part: int, parts: int) -> Batch:
        raise NotImplementedError

    def validation_batches(self, part: int, parts: int) -> Iterator[Batch]:
        yield {"tokens": torch.arange(64)}

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        raise NotImplementedError

    def measure(self, model: nn.Module, batch: Batch) -> Tensor:
        return torch.bincount(model(batch["tokens"]).argmax(dim=-1), minlength=64).double()

    def summarise(self, sums: Tensor) -> dict[str, float]:
        return {"distinct_words": float((sums > 0).sum())}

    def tokens(self, batch: Batch) -> int:
        return batch["tokens"].numel()


class Repeating(nn.Module):
    """A model that knows so many words."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = words

    def forward(self, tokens_T: Tensor) -> Tensor:
        return nn.functional.one_hot(tokens_T % self.words, 64)


def run(task: Task, method: str, seed: int, loss: float) -> Record:
    """A finished run whose model was measured by the task: the frozen arm has lost a third of the words."""
    model = Repeating(60 - seed if method == "baseline" else 40 - seed)
    (batch,) = task.validation_batches(0, 1)
    record = make_record(make_config(method, seed), loss)
    result = record.result
    figures = result.measures | task.summarise(task.measure(model, batch))
    return record.model_copy(
        update={"measures": task.measures, "result": result.model_copy(update={"measures": figures})}
    )


def report() -> Report:
    task = WordCounting()
    records = [
        run(task, method, seed, loss) for method in ("baseline", "oelm") for seed, loss in enumerate(BASELINE_LOSSES)
    ]
    return build_report([Record.model_validate(record.model_dump(mode="json")) for record in records])


def test_it_is_judged_and_shown_everywhere() -> None:
    found = report()
    of_loss, of_words = json.loads(as_json(found))["groups"][0]["comparisons"]
    assert (of_loss["measure"], of_words["measure"]) == ("perplexity", "distinct_words")
    oelm = of_words["findings"][1]
    assert oelm["estimate"]["value"] < 0.9
    assert oelm["verdict"] == "inferior"
    assert of_loss["findings"][1]["verdict"] == "non-inferior"
    file = io.StringIO()
    print_report(found, Console(file=file, width=120))
    sentence = "oelm: distinct words ×0."
    for text in (file.getvalue(), as_markdown(found), as_markdown(found, whole=True), as_html(found)):
        assert sentence in text
        assert "inferior to the 10 % margin" in " ".join(text.replace("\u00a0", " ").split())
        assert "distinct words by seed" in text
    assert "不同词数为 baseline 的 0." in as_markdown(found, Language.CHINESE)


def test_the_answer_is_still_the_first_measures() -> None:
    headline = report().groups[0].headline
    assert headline is not None
    assert headline.measure.name == "perplexity"
