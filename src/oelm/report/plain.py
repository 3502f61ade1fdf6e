"""The comparison as plain data for other programs."""

import math
from typing import Any

from oelm.report.arms import Arm
from oelm.report.comparison import Comparison, Finding
from oelm.report.confounds import Confound, ScaleGap
from oelm.report.sentences import (
    confound_phrase,
    finding_sentence,
    footnotes,
    general_remarks,
    missing_commands,
    scale_sentence,
)
from oelm.report.texts import ENGLISH, Texts


def as_json(comparison: Comparison, texts: Texts = ENGLISH) -> dict[str, Any]:
    """Numbers in full precision, names in English, and the sentences of the other renderings."""
    return {
        "margin": comparison.margin,
        "arms": [_arm(found, comparison.margin, texts) for found in comparison.findings],
        "scale_gaps": [_scale_gap(gap, texts) for gap in comparison.scale_gaps],
        "unfinished": [str(folder) for folder in comparison.unfinished],
        "remarks": list(general_remarks(comparison, texts)),
        "footnotes": list(footnotes(comparison, texts)),
    }


def _arm(finding: Finding, margin: float, texts: Texts) -> dict[str, Any]:
    return {
        **_measured(finding.arm),
        "is_reference": finding.is_reference,
        "control": finding.control.label if finding.control else None,
        **_shown(finding),
        "step_time_ratio": finding.time_ratio,
        "confounds": [_confound(confound, texts) for confound in finding.confounds],
        "missing_runs": [{"method": runs.method, "seeds": list(runs.seeds)} for runs in finding.missing],
        "commands": list(missing_commands(finding, texts)),
        "sentence": None if finding.is_reference else finding_sentence(finding, margin, texts),
    }


def _measured(arm: Arm) -> dict[str, Any]:
    counts = arm.records[0].counts
    return {
        "label": arm.label,
        "method": arm.method.name,
        "task": arm.task,
        "seeds": list(arm.losses),
        "losses": list(arm.losses.values()),
        "perplexities": [_finite(value) for value in arm.perplexities],
        "mean_loss": arm.mean_loss,
        "mean_perplexity": _finite(arm.mean_perplexity),
        "bits_per_byte": arm.bits_per_byte,
        "weights": counts.model_dump(mode="json", exclude={"roles"}),
        "flops_saved_share": arm.flops_saved_share,
        "step_seconds": arm.step_seconds,
    }


def _shown(finding: Finding) -> dict[str, Any]:
    estimate = finding.estimate
    interval = estimate.interval if estimate else None
    return {
        "paired_seeds": estimate.pairs if estimate else 0,
        "ratio": _finite(estimate.ratio) if estimate else None,
        "interval_95": [_finite(interval.lower), _finite(interval.upper)] if interval else None,
        "smallest_margin": _finite(interval.resolution) if interval else None,
        "verdict": finding.verdict.value if finding.control else None,
        "measurably_worse": estimate.measurably_worse if interval and estimate else None,
    }


def _confound(confound: Confound, texts: Texts) -> dict[str, str]:
    return {
        "kind": confound.kind.value,
        "what": confound.what,
        "arm": confound.arm,
        "control": confound.control,
        "text": confound_phrase(confound, texts),
    }


def _scale_gap(gap: ScaleGap, texts: Texts) -> dict[str, Any]:
    return {
        "arms": [gap.one.label, gap.other.label],
        "row_norms": [gap.one_norm, gap.other_norm],
        "text": scale_sentence(gap, texts),
    }


def _finite(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None
