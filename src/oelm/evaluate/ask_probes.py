"""The suite `probes`: what a model that was trained on text does with a sequence that it cannot know by heart.

Symbols become random tokens of the vocabulary, other ones in every sequence, so that nothing but the sequence helps. An
answer counts if it is the likeliest of all tokens. Only what the next token answers is asked: hops beyond the first are
for models trained on the probe (`oelm probe`).
"""

# B sequences  T places  S symbols

from collections.abc import Iterator

import numpy as np
import torch

from oelm.base.errors import ConfigError
from oelm.base.streams import stream_seed
from oelm.config.evaluated import EvaluationRequest, Suite, SuiteResult
from oelm.config.measure import PROBE_ACCURACY, Bilingual, Measure
from oelm.config.probe import Probe, ProbeKind
from oelm.data.probes import UNASKED, Ids, probe_sequences
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.pairing import Outcomes, interval

IN_CONTEXT_ACCURACY = PROBE_ACCURACY.model_copy(
    update={
        "name": "in_context_accuracy",
        "title": Bilingual(english="answers from context", chinese="上下文回答率"),
        "read_from": "evaluation",
    }
)
IN_CONTEXT: tuple[Measure, ...] = (IN_CONTEXT_ACCURACY,)

PAIRS = (10, 30)
COPIED = 24


def standard_probes(context: int) -> tuple[Probe, ...]:
    """Those of which a whole sequence fits into the context."""
    kinds = (ProbeKind.RETRIEVAL, ProbeKind.RECALL)
    pairs = [Probe(probe=kind, name=f"{kind.value}-{length}", length=length) for kind in kinds for length in PAIRS]
    others = [Probe(probe=ProbeKind.COPY, length=COPIED), Probe(probe=ProbeKind.INDUCTION, length=4 * COPIED)]
    return tuple(probe for probe in (*pairs, *others) if probe.context <= context)


def probes(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """Every standard probe that fits."""
    fitting = standard_probes(model.context)
    if not fitting:
        raise ConfigError(f"{model.name} reads {model.context} tokens, too few for any probe", "leave the suite out")
    for probe in fitting:
        symbols_BT, answers_BT = probe_sequences(probe, request.sequences, 0, "evaluation", vary=False)
        ids_BS = _tokens_of_symbols(model, probe, len(symbols_BT))
        tokens_BT = np.take_along_axis(ids_BS, symbols_BT, axis=1)
        wanted_BT = np.where(answers_BT == UNASKED, UNASKED, np.take_along_axis(ids_BS, answers_BT.clip(0), axis=1))
        guessed_BT = _likeliest(model, tokens_BT, request.batch_size)
        yield _answer(model, probe, wanted_BT, guessed_BT)


def _tokens_of_symbols(model: LanguageModel, probe: Probe, count: int) -> Ids:
    """For each sequence, a different token for every symbol; never end-of-text."""
    vocabulary = model.tokenizer.get_vocab_size(with_added_tokens=True)
    if vocabulary <= probe.vocabulary:
        raise ConfigError(
            f"{model.name} knows {vocabulary} tokens, too few for {probe.vocabulary} symbols", "leave the suite out"
        )
    random = np.random.Generator(np.random.PCG64(stream_seed(0, "probe", "symbols", probe.name)))
    usable = np.delete(np.arange(vocabulary), model.end_of_text)
    return np.stack([random.choice(usable, size=probe.vocabulary, replace=False) for _ in range(count)])


def _likeliest(model: LanguageModel, tokens_BT: Ids, batch_size: int) -> Ids:
    parts = [tokens_BT[start : start + batch_size] for start in range(0, len(tokens_BT), batch_size)]
    return torch.cat([model.logits(torch.from_numpy(part)).argmax(-1).cpu() for part in parts]).numpy()


def _answer(model: LanguageModel, probe: Probe, wanted_BT: Ids, guessed_BT: Ids) -> Answer:
    """Questions of one sequence are alike: the interval is over sequences."""
    asked_BT = wanted_BT != UNASKED
    by_sequence = ((guessed_BT == wanted_BT) & asked_BT).sum(1) / asked_BT.sum(1)
    (measure,) = IN_CONTEXT
    ends = interval(by_sequence, 1)
    result = SuiteResult(
        suite=Suite.PROBES,
        measures=IN_CONTEXT,
        evaluation=evaluation(model, probe.name, {measure.name: float(by_sequence.mean())}),
        count=int(asked_BT.sum()),
        intervals={measure.name: (max(0.0, ends[0]), min(1.0, ends[1]))} if ends else {},
        settings={"sequences": len(wanted_BT), "tokens": wanted_BT.shape[1]},
    )
    return Answer(result, Outcomes(measure.name, wanted_BT.ravel()[asked_BT.ravel()], by_sequence))
