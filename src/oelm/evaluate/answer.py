"""What a suite answers with."""

from typing import NamedTuple

from oelm.config.evaluated import SuiteResult
from oelm.config.record import Evaluation
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.pairing import Outcomes


class Answer(NamedTuple):
    """A result, and what two models are paired by."""

    result: SuiteResult
    outcomes: Outcomes | None = None


def evaluation(
    model: LanguageModel, name: str, measures: dict[str, float], predictions: str = "", labels: str = ""
) -> Evaluation:
    """What records and reports take up."""
    return Evaluation(
        name=name,
        checkpoint=model.checkpoint,
        step=model.step,
        measures=measures,
        predictions=predictions,
        labels=labels,
    )
