"""The suite `choices`: minimal pairs, choices and last words, as a whole and by group.

Models of 1 to 50 million parameters do BLiMP and last words better than chance; ARC, PIQA and OpenBookQA they guess, so
that a difference there says nothing about a method.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from oelm.config.evaluated import EvaluationRequest, Part, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, CompareScale, Measure
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.choices import ScoredReadings, chosen, score_readings
from oelm.evaluate.items import Item, read_items
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.pairing import Floats, Ids, Outcomes, share_interval
from oelm.evaluate.raw_text import require_different, set_name

CHOICE_ACCURACY = Measure(
    name="choice_accuracy",
    title=Bilingual(english="right choices", chinese="选择正确率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
    read_from="evaluation",
    per="example",
)
CHOICE_ACCURACY_PER_TOKEN = Measure(
    name="choice_accuracy_per_token",
    title=Bilingual(english="right choices by mean per token", chinese="按每词元平均的选择正确率"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
CHOICES: tuple[Measure, ...] = (CHOICE_ACCURACY, CHOICE_ACCURACY_PER_TOKEN)
LAST_WORD_ACCURACY = Measure(
    name="last_word_accuracy",
    title=Bilingual(english="right last words", chinese="末词正确率"),
    better=Better.HIGHER,
    percent=True,
    scale=CompareScale.DIFFERENCE,
    criterion=-2.0,
    read_from="evaluation",
    per="example",
)
LAST_WORD_PERPLEXITY = Measure(
    name="last_word_perplexity",
    title=Bilingual(english="perplexity of last words", chinese="末词困惑度"),
    better=Better.LOWER,
    read_from="evaluation",
)
LAST_WORDS: tuple[Measure, ...] = (LAST_WORD_ACCURACY, LAST_WORD_PERPLEXITY)


def choices(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """Every file of items; all are read before the first is asked."""
    require_different([set_name(Path(source)) for source in request.items])
    files = {Path(source): read_items(Path(source)) for source in request.items}
    for path, items in files.items():
        readings = [reading for item in items for reading in item.readings]
        scored = score_readings(model, readings, request.batch_size)
        yield (_last_words if len(items[0].readings) == 1 else _choices)(model, set_name(path), items, scored)


def _choices(model: LanguageModel, name: str, items: Sequence[Item], scored: ScoredReadings) -> Answer:
    gold = np.array([item.gold for item in items])
    picked = chosen(items, scored.sums)
    right = np.stack([picked == gold, chosen(items, scored.sums / scored.counts) == gold]).astype(np.float64)
    return _answer(model, name, items, CHOICES, dict(zip(_names(CHOICES), right, strict=True)), picked, gold, scored)


def _last_words(model: LanguageModel, name: str, items: Sequence[Item], scored: ScoredReadings) -> Answer:
    """Perplexity is of words: exp of the mean over items of their word's whole loss."""
    accuracy, perplexity = _names(LAST_WORDS)
    values = {accuracy: scored.likeliest.astype(np.float64), perplexity: -scored.sums}
    picked, gold = scored.likeliest.astype(np.int64), np.ones(len(items), np.int64)
    return _answer(model, name, items, LAST_WORDS, values, picked, gold, scored)


def _answer(
    model: LanguageModel,
    name: str,
    items: Sequence[Item],
    measures: tuple[Measure, ...],
    values: Mapping[str, Floats],
    picked: Ids,
    gold: Ids,
    scored: ScoredReadings,
) -> Answer:
    everything = np.arange(len(items))
    shares = [measure.name for measure in measures if measure.percent]
    figures = _means(values, everything)
    result = SuiteResult(
        suite=Suite.CHOICES,
        measures=measures,
        evaluation=evaluation(model, name, figures, " ".join(map(str, picked)), " ".join(map(str, gold))),
        count=len(items),
        intervals={each: share_interval(round(values[each].sum()), len(items)) for each in shares},
        settings={"cut": scored.cut, "ties": int((picked < 0).sum())},
        parts=tuple(_parts(items, values)),
    )
    first = measures[0].name
    return Answer(result, Outcomes(first, gold, values[first]))


def _parts(items: Sequence[Item], values: Mapping[str, Floats]) -> Iterator[Part]:
    """By every group that the items name, in the order of the file."""
    for by in items[0].groups:
        members: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            members.setdefault(item.groups.get(by, ""), []).append(place)
        for name, places in members.items():
            yield Part(by=f"by {by}", name=name, count=len(places), measures=_means(values, np.array(places)))


def _means(values: Mapping[str, Floats], places: Ids) -> dict[str, float]:
    """Shares as they are; of losses exp of the mean."""
    perplexity = _names(LAST_WORDS)[1]
    means = {name: float(each[places].mean()) for name, each in values.items()}
    return {name: math.exp(min(mean, 700.0)) if name == perplexity else mean for name, mean in means.items()}


def _names(measures: tuple[Measure, ...]) -> tuple[str, ...]:
    return tuple(measure.name for measure in measures)
