"""The suite `attention`: where each head looks, in sequences of random tokens that come twice."""

from collections.abc import Iterator

import numpy as np
import torch

from oelm.base.streams import stream_seed
from oelm.config.evaluated import EvaluationRequest, Part, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, Measure
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.head_scores import HeadScores, attention_weights, head_scores
from oelm.evaluate.language_model import LanguageModel

ATTENTION_ENTROPY = Measure(
    name="attention_entropy",
    title=Bilingual(english="entropy of attention", chinese="注意力熵"),
    better=Better.LOWER,
    percent=True,
    read_from="evaluation",
)
ATTENTION_PREVIOUS = Measure(
    name="attention_previous",
    title=Bilingual(english="look at the previous token", chinese="注视前一词元"),
    better=Better.HIGHER,
    percent=True,
    read_from="evaluation",
)
ATTENTION_SAME_TOKEN = ATTENTION_PREVIOUS.model_copy(
    update={
        "name": "attention_same_token",
        "title": Bilingual(english="look at the same token", chinese="注视相同词元"),
    }
)
ATTENTION_INDUCTION = ATTENTION_PREVIOUS.model_copy(
    update={
        "name": "attention_induction",
        "title": Bilingual(english="look behind the same token", chinese="注视相同词元之后"),
    }
)
ATTENTION: tuple[Measure, ...] = (
    ATTENTION_ENTROPY,
    ATTENTION_PREVIOUS,
    ATTENTION_SAME_TOKEN,
    ATTENTION_INDUCTION,
)

_MOST = 64
"""Tokens that come twice: enough to tell heads apart, and the weights of all layers fit into memory."""


def attention(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """The figures of a model are its mean entropy and, of each other score, its best head's."""
    half = min(_MOST, model.context // 2)
    random = np.random.Generator(np.random.PCG64(stream_seed(0, "attention")))
    vocabulary = model.tokenizer.get_vocab_size(with_added_tokens=True)
    once_BL = random.integers(vocabulary, size=(request.batch_size, half))
    tokens_BT = torch.from_numpy(np.concatenate([once_BL, once_BL], axis=1)).to(model.device)
    layers = [head_scores(weights_BHTU) for weights_BHTU in attention_weights(model.module, tokens_BT)]
    heads = {f"{layer}.{head}": scores for layer, row in enumerate(layers) for head, scores in enumerate(row)}
    entropies, *others = zip(*heads.values(), strict=True)
    figures = HeadScores(float(np.mean(entropies)), *map(max, others))
    yield Answer(
        SuiteResult(
            suite=Suite.ATTENTION,
            measures=ATTENTION,
            evaluation=evaluation(model, "repeated-tokens", _named(figures)),
            count=len(heads),
            settings={"sequences": request.batch_size, "tokens": 2 * half},
            parts=tuple(
                Part(by="by layer and head", name=name, count=tokens_BT.numel(), measures=_named(scores))
                for name, scores in heads.items()
            ),
        )
    )


def _named(scores: HeadScores) -> dict[str, float]:
    return {measure.name: value for measure, value in zip(ATTENTION, scores, strict=True)}
