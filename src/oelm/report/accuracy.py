"""Fine-tuned arms beside their controls: accuracy on the evaluation sets, in points and as a share of the control's.

Figures are those of the last step; the best checkpoint (by hold-out loss) stands beside them. Intervals are those of
the crossed bootstrap (`resampling.py`): they speak of other seeds and other examples. The criterion is the original
study's: at least 95 % of the control's accuracy. The primary arm is tested uncorrected and all others by Holm
(`family.py`), each evaluation set for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from oelm.config.record import Evaluation, Record
from oelm.report.arms import Arm, group_into_arms
from oelm.report.blocks import Contrast
from oelm.report.comparison import MissingRuns, missing_runs, primary_arm
from oelm.report.confounds import Confound, ScaleGap, confounds_between, scale_gaps
from oelm.report.family import family_confidences
from oelm.report.resampling import Resampled, draw, resample
from oelm.report.sides import choose_control, is_reference
from oelm.report.statistics import CONFIDENCE, SEEDS_FOR_INTERVAL, SEEDS_FOR_VERDICT, Verdict

SHARE = 0.95
"""The criterion of the original study: at least so much of the baseline's accuracy."""


@dataclass(frozen=True)
class Span:
    """An estimate with its interval; without ends where there are too few seeds, or no predictions to draw from."""

    value: float
    lower: float | None = None
    upper: float | None = None
    confidence: float = CONFIDENCE

    @property
    def is_adjusted(self) -> bool:
        """Whether it is wider than 95 % because several arms were tested."""
        return self.confidence > CONFIDENCE + 1e-9


@dataclass(frozen=True)
class AccuracyFinding:
    """One arm on one evaluation set; accuracies are shares, differences are in points (hundredths)."""

    arm: Arm
    evaluation: str
    control: Arm | None
    by_seed: dict[int, float]
    best_by_seed: dict[int, float]
    points: Span | None
    share: Span | None
    """Of the control's accuracy."""
    pairs: int
    examples: int | None
    verdict: Verdict
    confounds: tuple[Confound, ...]
    missing: tuple[MissingRuns, ...]
    is_primary: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether the arm is a plain baseline: others are measured against it."""
        return is_reference(self.arm)

    @property
    def mean(self) -> float:
        """Mean accuracy over seeds at the last step."""
        return fmean(self.by_seed.values())

    @property
    def best_mean(self) -> float | None:
        """Mean accuracy over seeds of the best checkpoints; None where they were not evaluated."""
        return fmean(self.best_by_seed.values()) if self.best_by_seed else None

    @property
    def measurably_worse(self) -> bool:
        """Whether the whole interval lies below the control's accuracy."""
        return self.share is not None and self.share.upper is not None and self.share.upper < 1


@dataclass(frozen=True)
class AccuracyComparison:
    """All fine-tuned arms of a set of records."""

    share: float
    findings: tuple[AccuracyFinding, ...]
    scale_gaps: tuple[ScaleGap[Arm], ...]
    unfinished: tuple[Path, ...] = ()

    @property
    def primary(self) -> AccuracyFinding | None:
        """The finding that answers the study's question; None where none was stated beforehand."""
        return next((finding for finding in self.findings if finding.is_primary), None)


def compare_accuracies(
    records: Sequence[Record], share: float = SHARE, unfinished: Sequence[Path] = (), primary: str | None = None
) -> AccuracyComparison:
    """Group records into arms and set each beside its control on each evaluation set."""
    return compare_arm_accuracies(group_into_arms(records), share, unfinished, primary)


def compare_arm_accuracies(
    arms: Sequence[Arm], share: float = SHARE, unfinished: Sequence[Path] = (), primary: str | None = None
) -> AccuracyComparison:
    """Set each arm beside its control on each evaluation set."""
    names = dict.fromkeys(row.name for arm in arms for record in arm.records for row in record.evaluations)
    singled_out = primary_arm(arms, primary)
    findings = [found for name in names for found in _on_one_set(arms, name, share, singled_out)]
    return AccuracyComparison(share, tuple(findings), scale_gaps(arms), tuple(unfinished))


def _on_one_set(arms: Sequence[Arm], name: str, share: float, primary: str | None) -> list[AccuracyFinding]:
    present = [arm for arm in arms if _accuracies(arm, name, "last")]
    controls = {arm.label: choose_control(arm, present) for arm in present}
    resampled = {
        arm.label: found
        for arm in present
        if (control := controls[arm.label]) is not None and (found := _resampled(arm, control, name)) is not None
    }
    tested = [
        arm.label for arm in present if arm.label in resampled and _pairs(arm, controls, name) >= SEEDS_FOR_VERDICT
    ]
    confidences: dict[str, float] = {}
    if tested:
        p_values = np.array([float(resampled[label].share.p_value(share)) for label in tested])
        levels = family_confidences(p_values, tested.index(primary) if primary in tested else None)
        confidences = dict(zip(tested, levels.tolist(), strict=True))
    return [
        _finding(arm, controls, name, share, resampled.get(arm.label), confidences, arm.label == primary)
        for arm in present
    ]


def _finding(
    arm: Arm,
    controls: Mapping[str, Arm | None],
    name: str,
    share: float,
    resampled: Resampled | None,
    confidences: Mapping[str, float],
    is_primary: bool,
) -> AccuracyFinding:
    control = controls[arm.label]
    mine, best = _accuracies(arm, name, "last"), _accuracies(arm, name, "best")
    theirs = _accuracies(control, name, "last") if control else {}
    seeds = sorted(mine.keys() & theirs.keys())
    points, kept = _spans(mine, theirs, seeds, resampled, confidences.get(arm.label, CONFIDENCE))
    verdict = judge_share(kept, share) if len(seeds) >= SEEDS_FOR_VERDICT else Verdict.NO_VERDICT
    return AccuracyFinding(
        arm=arm,
        evaluation=name,
        control=control,
        by_seed=mine,
        best_by_seed=best,
        points=points,
        share=kept,
        pairs=len(seeds),
        examples=_examples(arm, name),
        verdict=verdict,
        confounds=confounds_between(arm, control) if control else (),
        missing=missing_runs(arm, control) if control and verdict is Verdict.NO_VERDICT else (),
        is_primary=is_primary,
    )


def judge_share(share: Span | None, wanted: float = SHARE) -> Verdict:
    """Where the interval of the share lies, seen from 1 and from the share that must be kept."""
    if share is None or share.lower is None or share.upper is None:
        return Verdict.NO_VERDICT
    if share.lower > 1:
        return Verdict.BETTER
    if share.lower >= wanted:
        return Verdict.NON_INFERIOR
    return Verdict.INFERIOR if share.upper < wanted else Verdict.UNDECIDED


def _spans(
    mine: Mapping[int, float],
    theirs: Mapping[int, float],
    seeds: Sequence[int],
    resampled: Resampled | None,
    confidence: float,
) -> tuple[Span | None, Span | None]:
    if not seeds:
        return None, None
    if resampled is not None:
        return _span(resampled.points, confidence), _span(resampled.share, confidence)
    ours, control = fmean(mine[seed] for seed in seeds), fmean(theirs[seed] for seed in seeds)
    return Span(100 * (ours - control)), Span(ours / control)


def _span(contrast: Contrast, confidence: float) -> Span:
    value, half_width = float(contrast.mean), float(contrast.half_width(confidence))
    return Span(value, value - half_width, value + half_width, confidence)


def _resampled(arm: Arm, control: Arm, name: str) -> Resampled | None:
    ours, theirs = _correct(arm, name), _correct(control, name)
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < SEEDS_FOR_INTERVAL:
        return None
    arm_SE, control_SE = np.stack([ours[seed] for seed in seeds]), np.stack([theirs[seed] for seed in seeds])
    return resample(arm_SE, control_SE, draw(*arm_SE.shape))


def _correct(arm: Arm, name: str) -> dict[int, NDArray[np.bool_]]:
    """By seed: for each example whether the last checkpoint got it right; nothing where predictions are missing."""
    return {
        seed: np.array(row.predictions.split()) == np.array(row.labels.split())
        for seed, row in _rows(arm, name, "last").items()
        if row.predictions
    }


def _pairs(arm: Arm, controls: Mapping[str, Arm | None], name: str) -> int:
    control = controls[arm.label]
    return len(_rows(arm, name, "last").keys() & _rows(control, name, "last").keys()) if control else 0


def _examples(arm: Arm, name: str) -> int | None:
    rows = list(_rows(arm, name, "last").values())
    return len(rows[0].labels.split()) or None


def _accuracies(arm: Arm, name: str, checkpoint: str) -> dict[int, float]:
    return {seed: row.measures["accuracy"] for seed, row in _rows(arm, name, checkpoint).items()}


def _rows(arm: Arm, name: str, checkpoint: str) -> dict[int, Evaluation]:
    return {
        record.config.seed: row
        for record in arm.records
        for row in record.evaluations
        if row.name == name and row.checkpoint == checkpoint
    }
