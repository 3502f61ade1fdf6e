"""The suites: each asks a model its questions and answers with measures. A new one is a function and a row here."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from oelm.config.evaluated import EvaluationRequest, PairedDifference, Suite
from oelm.evaluate.answer import Answer
from oelm.evaluate.ask_attention import attention
from oelm.evaluate.ask_choices import choices
from oelm.evaluate.ask_generation import generation
from oelm.evaluate.ask_harness import harness
from oelm.evaluate.ask_likelihood import likelihood
from oelm.evaluate.ask_probes import probes
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.pairing import paired

Ask = Callable[[LanguageModel, EvaluationRequest, LanguageModel | None], Iterator[Answer]]
"""Of a model, a request and, for what needs one, a judge."""
SUITES: Mapping[Suite, Ask] = {
    Suite.LIKELIHOOD: likelihood,
    Suite.CHOICES: choices,
    Suite.PROBES: probes,
    Suite.GENERATION: generation,
    Suite.ATTENTION: attention,
    Suite.HARNESS: harness,
}


def evaluate(model: LanguageModel, request: EvaluationRequest, judge: LanguageModel | None = None) -> list[Answer]:
    """All suites of the request, one after the other."""
    model.module.eval()
    return [answer for suite in request.suites for answer in SUITES[suite](model, request, judge)]


def compare_answers(ours: Sequence[Answer], theirs: Sequence[Answer], against: str) -> list[PairedDifference]:
    """Answers of two models to the same questions, paired."""
    found = []
    for (result, one), (_, other) in zip(ours, theirs, strict=True):
        if one is not None and other is not None:
            values = {**paired(one, other)._asdict(), "measure": one.measure}
            place = {"suite": result.suite, "on": result.evaluation.name, "against": against}
            found.append(PairedDifference.model_validate({**place, **values}))
    return found
