"""The suite `likelihood`: perplexity and bits per byte of texts, and where in them the loss lies."""

import math
from collections.abc import Iterator

from oelm.base.errors import ConfigError
from oelm.config.evaluated import EvaluationRequest, Part, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, CompareScale, Measure
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.likelihood import Range, ScoredText, by_frequency, by_position, score_text
from oelm.evaluate.pairing import Outcomes, interval
from oelm.evaluate.raw_text import EvaluatedText, read_text, require_different, text_name

TEXT_LOSS = Measure(
    name="text_loss",
    title=Bilingual(english="loss on text", chinese="文本损失"),
    better=Better.LOWER,
    decimals=4,
    read_from="evaluation",
)
TEXT_PERPLEXITY = Measure(
    name="text_perplexity",
    title=Bilingual(english="perplexity on text", chinese="文本困惑度"),
    better=Better.LOWER,
    scale=CompareScale.RATIO,
    criterion=1.05,
    read_from="evaluation",
    logarithm="text_loss",
)
TEXT_BITS_PER_BYTE = Measure(
    name="text_bits_per_byte",
    title=Bilingual(english="bits per byte of text", chinese="文本每字节比特数"),
    better=Better.LOWER,
    decimals=3,
    read_from="evaluation",
)
LIKELIHOOD: tuple[Measure, ...] = (TEXT_PERPLEXITY, TEXT_BITS_PER_BYTE, TEXT_LOSS)

_LARGEST_LOSS = 700.0
"""Beyond, a float ends and JSON has no infinity."""


def likelihood(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """Perplexity and bits per byte of every text."""
    window = request.window or model.context
    if window > model.context:
        raise ConfigError(
            f"{model.name} reads at most {model.context} tokens at once, not {window}",
            f"use --window {model.context} or less",
        )
    stride = request.stride or max(1, window // 2)
    require_different([text_name(source) for source in request.texts])
    for source in request.texts:
        text = read_text(model, source, request.most_tokens, request.half)
        scored = score_text(model, text.tokens, window=window, stride=stride, batch_size=request.batch_size)
        if not math.isfinite(scored.loss):
            raise ConfigError(f"the loss of {model.name} on {source} is not a number", "evaluate another checkpoint")
        outcomes = Outcomes(TEXT_LOSS.name, scored.targets, scored.losses, block=window)
        yield Answer(_likelihood_result(model, text, scored, window, stride), outcomes)


def _likelihood_result(
    model: LanguageModel, text: EvaluatedText, scored: ScoredText, window: int, stride: int
) -> SuiteResult:
    ends = interval(scored.losses, block=window)
    parts = [_part(f"by {by}", each) for by, ranges in _ranges(scored).items() for each in ranges]
    bits_per_nat = len(scored.losses) / math.log(2) / text.text_bytes
    return SuiteResult(
        suite=Suite.LIKELIHOOD,
        measures=LIKELIHOOD,
        evaluation=evaluation(model, text.name, _figures(scored.loss, bits_per_nat)),
        count=len(scored.losses),
        intervals=_intervals(*ends, bits_per_nat) if ends else {},
        settings={"window": window, "stride": stride, "text_bytes": text.text_bytes, **text.part},
        parts=tuple(parts),
    )


def _ranges(scored: ScoredText) -> dict[str, list[Range]]:
    return {"tokens seen": by_position(scored), "occurrences in this text": by_frequency(scored)}


def _part(by: str, each: Range) -> Part:
    return Part(by=by, name=each.name, count=each.tokens, measures={TEXT_LOSS.name: each.loss})


def _figures(loss: float, bits_per_nat: float) -> dict[str, float]:
    values = (math.exp(min(loss, _LARGEST_LOSS)), loss * bits_per_nat, loss)
    return {measure.name: value for measure, value in zip(LIKELIHOOD, values, strict=True)}


def _intervals(lower: float, upper: float, bits_per_nat: float) -> dict[str, tuple[float, float]]:
    low, high = _figures(lower, bits_per_nat), _figures(upper, bits_per_nat)
    return {name: (low[name], high[name]) for name in low}
