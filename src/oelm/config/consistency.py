"""Whether records agree with themselves: what follows from the rest of a record is computed again and compared.

A record that contradicts itself is refused: something was written into it that no run of ours writes. What merely
differs between two honest runs (a commit, a number of threads) is a confound, and is named in the report.
"""

import math
from collections.abc import Iterator, Mapping

from oelm.config.measure import LOSS, Measure
from oelm.config.method import From
from oelm.config.rate_choice import choose
from oelm.config.record import Evaluation, Record
from oelm.config.study_role import Choice, Tuning

_EQUAL = 1e-9
"""Relative: a figure that was computed twice may differ in its last digits."""
_LAST_DIGIT = 2e-3
"""Of a refined rate, which has four digits: on another machine the last one may be rounded the other way."""


def contradiction(record: Record) -> str | None:
    """What in a record contradicts the rest of it, as the end of a sentence; None for a record that is sound.

    Another study's figures are shown as they were reported, whatever they are.
    """
    if record.reported is not None:
        return None
    checks = (_settings, _curve, _measures, _text, _rate, _freezing, _evaluations)
    return next((found for check in checks for found in check(record)), None)


def disagreement(records: Mapping[str, Record]) -> str | None:
    """What two records (by the names of their files) cannot both say; None where there is nothing."""
    losses: dict[object, tuple[str, int]] = {}
    roles: dict[object, tuple[str, tuple[str | None, float]]] = {}
    labels: dict[object, tuple[str, str]] = {}
    for name, record in records.items():
        if record.reported is not None:
            continue
        for row in record.evaluations:
            read = (record.config.data.digest, row.name, len(row.labels.split()))
            other, its_labels = labels.setdefault(read, (name, row.labels))
            if its_labels.split() != row.labels.split():
                return f"{other} and {name} have different labels for the same examples of {row.name}"
        seed, study = record.config.seed, record.config.study
        found = (record.task, study and study.stage, record.method, record.config.data.digest, record.result.loss)
        other, its_seed = losses.setdefault(found, (name, seed))
        if its_seed != seed:
            return (
                f"{other} (seed {its_seed}) and {name} (seed {seed}) have the same loss to the last digit, "
                "which two seeds never have"
            )
        if study is None:
            continue
        plan = (study.study, study.plan and (study.plan.digest, study.plan.amendments))
        other, stated = roles.setdefault(plan, (name, (study.primary, study.margin)))
        if stated != (study.primary, study.margin):
            return (
                f"{other} and {name} belong to one study but name different primary arms or margins "
                f"({stated[0]} at {stated[1]:g}, {study.primary} at {study.margin:g})"
            )
    return None


def _settings(record: Record) -> Iterator[str]:
    if record.fingerprint != record.config.fingerprint:
        yield "its fingerprint is not that of its config"


def _curve(record: Record) -> Iterator[str]:
    train, result = record.config.train, record.result
    expected = [*range(train.validate_every, train.steps, train.validate_every), train.steps]
    steps = [point.step for point in record.curve]
    if steps != expected:
        lacking = [step for step in expected if step not in steps]
        yield f"its curve lacks step {lacking[0]}" if lacking else f"its curve has a step beyond {train.steps:,}"
        return
    if result.loss != record.curve[-1].loss:
        yield f"its loss {result.loss} is not the end of its curve ({record.curve[-1].loss})"
    if record.config.best_by != LOSS:  # the curve does not show by what
        if (result.best_step, result.best_loss) not in [(point.step, point.loss) for point in record.curve]:
            yield f"its best loss {result.best_loss} (step {result.best_step}) is not in its curve"
        return
    best = min(record.curve, key=lambda point: point.loss)
    if (result.best_loss, result.best_step) != (best.loss, best.step):
        yield f"its best loss {result.best_loss} (step {result.best_step}) is not the lowest of its curve"


def _measures(record: Record) -> Iterator[str]:
    loss, figures = record.result.loss, record.result.measures
    assert loss is not None, "a record of ours has one"
    expected = {"loss": loss}
    if record.task == "language-modelling":
        expected["perplexity"] = math.exp(min(loss, 700.0))
        if record.bytes_per_token:
            expected["bits_per_byte"] = loss / math.log(2) / record.bytes_per_token
    for name, value in expected.items():
        if name in figures and not math.isclose(figures[name], value, rel_tol=_EQUAL):
            yield f"its {name} {figures[name]} does not follow from its loss {loss}"


def _text(record: Record) -> Iterator[str]:
    loss, text = record.result.loss, record.result.text
    assert loss is not None, "a record of ours has one"
    if text is not None and not math.isclose(text.loss, loss, rel_tol=_EQUAL):
        yield f"its loss {loss} is not that of its blocks of text ({text.loss})"


def _rate(record: Record) -> Iterator[str]:
    """The rate of a tuned run is one that was tried, or the vertex between those."""
    study, rate = record.config.study, record.config.optim.lr
    if study is None or study.stage == "tuning" or study.tuning is None:
        return
    choice = study.tuning.choice
    if choice is None:
        if rate not in study.tuning.grid:
            yield f"its learning rate {rate:g} is not in the grid that it says it was chosen from"
    elif rate != choice.lr:
        yield f"its learning rate {rate:g} is not the chosen one, {choice.lr:g}"
    else:
        measure = next((each for each in record.declared if each.name == study.tuning.measure), LOSS)
        yield from _choice(choice, study.tuning, measure)


def _choice(choice: Choice, tuning: Tuning, measure: Measure) -> Iterator[str]:
    """The rule of `rate_choice.py` again, on the trials, among which is the whole grid."""
    tried, taken = [trial.lr for trial in choice.trials], choice.lr if choice.best is None else choice.best
    best = min(choice.trials, key=lambda trial: trial.badness(measure)).lr
    if not min(tried) <= choice.lr <= max(tried):
        yield f"its learning rate {choice.lr:g} lies outside those that were tried"
    elif taken not in tried:
        yield f"its best learning rate {taken:g} was not tried"
    elif taken != best:
        yield f"its best learning rate is {taken:g}, but by its own trials {best:g} was better"
    elif untried := [rate for rate in tuning.grid if rate not in tried]:
        yield f"the learning rate {untried[0]:g} of its grid was not tried"
    elif choice.at_edge != (best in (min(tried), max(tried))):
        yield f"it is wrong about its best learning rate {best:g} being the lowest or highest that was tried"
    else:
        again = choose(choice.cell, choice.trials, measure, refine=tuning.refine)
        if not math.isclose(choice.lr, again.lr, rel_tol=_LAST_DIGIT) or choice.by != again.by:
            chosen = f"{again.lr:g} ({again.by})"
            yield f"its learning rate {choice.lr:g} ({choice.by}) is not what its trials choose, {chosen}"


def _freezing(record: Record) -> Iterator[str]:
    plan, counts, audit = record.config.method.plan, record.counts, record.audit
    assert audit is not None, "a record of ours has one"
    if plan is not None and not isinstance(plan.when, From) and counts.frozen == 0:
        yield f"its method {record.method} freezes weights, but none was frozen"
    if counts.frozen > counts.later and not audit.always_frozen:
        yield f"{counts.frozen - counts.later:,} weights were frozen throughout, but its audit looked at none"
    if (audit.digest_before == audit.digest_after) != (audit.unchanged is not False):
        yield "its audit says that frozen weights stayed equal or not, and its digests say the contrary"
    if both := set(audit.always_frozen) & set(audit.trained):
        yield f"its audit lists {min(both)} as frozen throughout and as trained"


def _evaluations(record: Record) -> Iterator[str]:
    for row in record.evaluations:
        if row.checkpoint == "last" and row.step != record.config.train.steps:
            yield f"its evaluation on {row.name} is of step {row.step:,}, not of the last one"
        if row.predictions:
            yield from _outcomes(row)


def _outcomes(row: Evaluation) -> Iterator[str]:
    predictions, labels = row.predictions.split(), row.labels.split()
    if len(predictions) != len(labels):
        yield f"it has {len(predictions):,} predictions for the {len(labels):,} examples of {row.name}"
        return
    accuracy = sum(ours == theirs for ours, theirs in zip(predictions, labels, strict=True)) / len(labels)
    stated = row.measures.get("accuracy", accuracy)
    if not math.isclose(stated, accuracy, rel_tol=_EQUAL):
        yield f"its accuracy on {row.name} is {stated:.4f}, that of its predictions {accuracy:.4f}"
