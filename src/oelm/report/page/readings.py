"""A finding of either kind as the same few numbers: a perplexity ratio, or a share of the control's accuracy."""

from collections.abc import Callable
from dataclasses import dataclass

from oelm.config.methods import METHODS
from oelm.report.accuracy import AccuracyFinding
from oelm.report.arms import Arm
from oelm.report.comparison import Finding
from oelm.report.confounds import Confound
from oelm.report.groups import Group
from oelm.report.numerals import written_percent, written_ratio
from oelm.report.sides import is_same_method
from oelm.report.statistics import CONFIDENCE, Verdict


@dataclass(frozen=True)
class Reading:
    """One arm beside its control; numbers are None where there is nothing to compare."""

    finding: Finding | AccuracyFinding
    arm: Arm
    control: Arm | None
    evaluation: str
    """The evaluation set; empty for language models."""
    value: float | None
    lower: float | None
    upper: float | None
    confidence: float
    by_seed: dict[int, float]
    pairs: int
    verdict: Verdict
    confounds: tuple[Confound, ...]
    is_primary: bool
    written: Callable[[float], str]

    @property
    def written_value(self) -> str:
        """The estimate, or a dash."""
        return "–" if self.value is None else self.written(self.value)

    @property
    def written_interval(self) -> str:
        """The interval, or a dash."""
        if self.lower is None or self.upper is None:
            return "–"
        return f"{self.bare(self.lower)} – {self.written(self.upper).lstrip('×')}"

    def bare(self, value: float) -> str:
        """A value without its unit, for a row of them."""
        return self.written(value).strip("× %")


def readings_of(group: Group) -> tuple[Reading, ...]:
    """All findings of an experiment."""
    if group.accuracy is None:
        return tuple(map(reading_of, group.findings))
    findings = group.accuracy.findings
    by_arm = {(found.arm.label, found.evaluation): found for found in findings}
    return tuple(
        _of_accuracy(found, by_arm.get((found.control.label, found.evaluation)) if found.control else None)
        for found in findings
    )


def reading_of(found: Finding | AccuracyFinding) -> Reading:
    """One finding by itself; of accuracies without the seeds, which need the control's."""
    return _of_perplexity(found) if isinstance(found, Finding) else _of_accuracy(found, None)


def headline_of(readings: tuple[Reading, ...]) -> Reading | None:
    """The one that the page opens with: the primary arm's, or else the method itself, and then that with most pairs."""
    compared = [reading for reading in readings if reading.control is not None]
    return max(compared, key=_weight, default=None)


def _weight(reading: Reading) -> tuple[bool, bool, int]:
    return reading.is_primary, _is_the_method(reading.arm), reading.pairs


def _is_the_method(arm: Arm) -> bool:
    return is_same_method(arm.method, METHODS["oelm"])


def _of_perplexity(found: Finding) -> Reading:
    estimate = found.estimate
    interval = estimate.interval if estimate else None
    return Reading(
        finding=found,
        arm=found.arm,
        control=found.control,
        evaluation="",
        value=estimate.ratio if estimate else None,
        lower=interval.lower if interval else None,
        upper=interval.upper if interval else None,
        confidence=interval.confidence if interval else CONFIDENCE,
        by_seed=found.ratios_by_seed,
        pairs=estimate.pairs if estimate else 0,
        verdict=found.verdict,
        confounds=found.confounds,
        is_primary=found.is_primary,
        written=_ratio,
    )


def _of_accuracy(found: AccuracyFinding, control: AccuracyFinding | None) -> Reading:
    share = found.share
    theirs = control.by_seed if control else {}
    seeds = sorted(found.by_seed.keys() & theirs.keys())
    return Reading(
        finding=found,
        arm=found.arm,
        control=found.control,
        evaluation=found.evaluation,
        value=share.value if share else None,
        lower=share.lower if share else None,
        upper=share.upper if share else None,
        confidence=share.confidence if share else CONFIDENCE,
        by_seed={seed: found.by_seed[seed] / theirs[seed] for seed in seeds},
        pairs=found.pairs,
        verdict=found.verdict,
        confounds=found.confounds,
        is_primary=found.is_primary,
        written=written_percent,
    )


def _ratio(value: float) -> str:
    return f"×{written_ratio(value)}"
