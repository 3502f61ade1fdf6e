"""How learning rates were chosen: the grid of each arm with the rate that its final runs took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oelm.config.record import Record
from oelm.config.settings import fingerprint
from oelm.config.study import Choice, ChosenBy
from oelm.report.arms import Arm, is_tuning
from oelm.report.confounds import LEARNING_RATE, tuning_of
from oelm.report.differences import flat_settings, problem_of
from oelm.report.sides import is_same_method

_LENGTH = frozenset(
    {LEARNING_RATE, "train.steps", "optim.warmup_steps", "train.validate_every", "train.validation_half"}
)
"""A tuning run may be a shorter version of the final one, on the other half of the validation documents."""


@dataclass(frozen=True)
class TuningRow:
    """One learning rate of the grid; a rate without a record was not finished, or diverged."""

    lr: float
    loss: float | None
    accuracy: float | None
    is_chosen: bool


@dataclass(frozen=True)
class TuningTable:
    """The grid of one arm."""

    study: str
    data: str
    method: str
    seed: int
    steps: int
    measure: str
    """What the choice was made by: loss or accuracy."""
    rows: tuple[TuningRow, ...]
    at_edge: bool
    """Whether the best rate is the first or last that was tried: a better one may lie beyond."""
    vertex: float | None = None
    """The rate of the final runs where it lies between those that were tried; the best of these is marked."""
    unlike_records: tuple[float, ...] = ()
    """Rates whose tuning record gives another result than the one that the final runs say they were chosen by."""


def tuning_tables(records: Sequence[Record], arms: Sequence[Arm]) -> tuple[TuningTable, ...]:
    """One table per tuned arm, in the order of the records; `arms` are the final ones, which show what was chosen."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if is_tuning(record):
            groups.setdefault(_key(record), []).append(record)
    return tuple(_table(group, _final_arm(group[0], arms)) for group in groups.values())


def _key(record: Record) -> str:
    settings = {path: value for path, value in flat_settings(record.config).items() if path != LEARNING_RATE}
    return fingerprint([record.task, record.config.seed, settings])


def _final_arm(record: Record, arms: Sequence[Arm]) -> Arm | None:
    """The arm that goes on with the chosen rate: the same but for the rate and the length of the run."""

    def rest(settings: Mapping[str, object]) -> dict[str, object]:
        return {path: value for path, value in settings.items() if path not in _LENGTH}

    wanted = rest(flat_settings(record.config))
    alike = [
        arm
        for arm in arms
        if is_same_method(arm.method, record.config.method)
        and problem_of(arm.config) == problem_of(record.config)
        and tuning_of(arm.config) is not None
    ]
    exact = [arm for arm in alike if rest(flat_settings(arm.config)) == wanted]
    return next(iter(exact or alike), None)


def _table(group: Sequence[Record], final: Arm | None) -> TuningTable:
    first = group[0]
    tuning = tuning_of(final.config) if final else None
    measure = tuning.measure if tuning else "accuracy" if first.task == "classification" else "loss"
    by_rate = {record.config.optim.lr: record for record in group}
    grid = sorted({*by_rate, *(tuning.grid if tuning else ())})
    choice = tuning.choice if tuning else None
    used = final.config.optim.lr if final else _best(group, measure)
    refined = choice is not None and choice.by is ChosenBy.VERTEX
    chosen = choice.best if choice is not None and choice.best is not None else used
    assert first.config.study is not None, "tuning runs belong to a study"
    return TuningTable(
        study=first.config.study.study,
        data=first.config.data.name,
        method=first.method,
        seed=first.config.seed,
        steps=first.config.train.steps,
        measure=measure,
        rows=tuple(_row(rate, by_rate.get(rate), rate == chosen) for rate in grid),
        at_edge=choice.at_edge if choice else len(grid) > 1 and chosen in (grid[0], grid[-1]),
        vertex=used if refined else None,
        unlike_records=_unlike(choice, by_rate) if choice else (),
    )


def _unlike(choice: Choice, by_rate: Mapping[float, Record]) -> tuple[float, ...]:
    """Where the choice speaks of another result than the record has; a rate without a record cannot be checked."""
    return tuple(
        trial.lr for trial in choice.trials if trial.lr in by_rate and trial.loss != by_rate[trial.lr].result.loss
    )


def _row(rate: float, record: Record | None, is_chosen: bool) -> TuningRow:
    if record is None:
        return TuningRow(rate, None, None, is_chosen)
    return TuningRow(rate, record.result.loss, record.result.measures.get("accuracy"), is_chosen)


def _best(group: Sequence[Record], measure: str) -> float:
    if measure == "accuracy":
        best = max(group, key=lambda record: record.result.measures.get("accuracy", 0.0))
    else:
        best = min(group, key=lambda record: record.loss)
    return best.config.optim.lr
