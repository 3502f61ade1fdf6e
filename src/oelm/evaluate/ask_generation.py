"""The suite `generation`: continue the beginnings of stories, and count what can be counted."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from oelm.config.evaluated import EvaluationRequest, Sample, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, CompareScale, Measure
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.choices import score_readings
from oelm.evaluate.generation import Sampling, generate_all
from oelm.evaluate.items import Reading
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.pairing import Floats, Outcomes, interval, share_interval
from oelm.evaluate.prompts import story_prompts
from oelm.evaluate.text_quality import distinct, repetition

CHARACTER_KEPT = Measure(
    name="character_kept",
    title=Bilingual(english="texts that keep the character", chinese="保留人物的文本"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-5.0,
    read_from="evaluation",
    per="example",
)
DISTINCT_WORDS = Measure(
    name="distinct_1",
    title=Bilingual(english="distinct tokens", chinese="不同词元占比"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
DISTINCT_PAIRS = DISTINCT_WORDS.model_copy(
    update={"name": "distinct_2", "title": Bilingual(english="distinct pairs", chinese="不同二元组占比")}
)
DISTINCT_TRIPLES = DISTINCT_WORDS.model_copy(
    update={"name": "distinct_3", "title": Bilingual(english="distinct triples", chinese="不同三元组占比")}
)
REPETITION = Measure(
    name="repetition",
    title=Bilingual(english="repeated four-token phrases", chinese="重复的四词元短语"),
    better=Better.LOWER,
    percent=True,
    read_from="evaluation",
)
JUDGED_PERPLEXITY = Measure(
    name="judged_perplexity",
    title=Bilingual(english="perplexity under the judge", chinese="评判模型下的困惑度"),
    better=Better.LOWER,
    read_from="evaluation",
)
GENERATION: tuple[Measure, ...] = (
    CHARACTER_KEPT,
    DISTINCT_WORDS,
    DISTINCT_PAIRS,
    DISTINCT_TRIPLES,
    REPETITION,
    JUDGED_PERPLEXITY,
)

_SHOWN = 8
"""Texts that are kept to be read."""


def generation(model: LanguageModel, request: EvaluationRequest, judge: LanguageModel | None) -> Iterator[Answer]:
    """One text for each beginning; every model draws with the same seeds."""
    prompts = story_prompts(request.sequences)
    sampling = Sampling(
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        repetition_penalty=request.repetition_penalty,
        seed=request.seed,
    )
    encoded = [[model.first, *model.encode(prompt.text)] for prompt in prompts]
    written = generate_all(model, encoded, tokens=request.tokens, sampling=sampling, batch_size=request.batch_size)
    texts = [model.tokenizer.decode(tokens) for tokens in written]
    kept = np.array([prompt.name in text for prompt, text in zip(prompts, texts, strict=True)], np.float64)
    repeated = np.array([repetition(tokens) for tokens in written])
    figures = {
        CHARACTER_KEPT.name: float(kept.mean()),
        **{each.name: distinct(written, n) for n, each in enumerate(_DISTINCT, start=1)},
        REPETITION.name: float(repeated.mean()),
    }
    readings = [Reading(prompt.text, text) for prompt, text in zip(prompts, texts, strict=True) if text.strip()]
    if judge is not None and readings:
        figures[JUDGED_PERPLEXITY.name] = judged_perplexity(judge, readings, request.batch_size)
    samples = [Sample(prompt=prompt.text, text=text) for prompt, text in zip(prompts, texts, strict=True)]
    result = SuiteResult(
        suite=Suite.GENERATION,
        measures=tuple(measure for measure in GENERATION if measure.name in figures),
        evaluation=evaluation(model, "stories", figures, _written(kept), _written(np.ones_like(kept))),
        count=len(texts),
        intervals=_intervals(kept, repeated),
        settings={**_settings(request), "mean_tokens": float(np.mean([len(tokens) for tokens in written]))},
        samples=tuple(samples[:_SHOWN]),
    )
    yield Answer(result, Outcomes(CHARACTER_KEPT.name, np.arange(len(kept)), kept))


_DISTINCT = (DISTINCT_WORDS, DISTINCT_PAIRS, DISTINCT_TRIPLES)


def judged_perplexity(judge: LanguageModel, readings: Sequence[Reading], batch_size: int) -> float:
    """exp of the judge's mean loss per token of what was written, given its beginning."""
    scored = score_readings(judge, readings, batch_size)
    return math.exp(min(-float(scored.sums.sum() / scored.counts.sum()), 700.0))


def _intervals(kept: Floats, repeated: Floats) -> dict[str, tuple[float, float]]:
    ends = interval(repeated, 1)
    shares = {CHARACTER_KEPT.name: share_interval(round(kept.sum()), len(kept))}
    return shares | ({REPETITION.name: (max(0.0, ends[0]), min(1.0, ends[1]))} if ends else {})


def _settings(request: EvaluationRequest) -> dict[str, int | float | str]:
    names = ("tokens", "temperature", "top_k", "top_p", "repetition_penalty", "seed", "judge")
    return {name: value for name in names if (value := getattr(request, name)) is not None}


def _written(values: Floats) -> str:
    return " ".join(str(int(value)) for value in values)
