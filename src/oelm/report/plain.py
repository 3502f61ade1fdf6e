"""The report as plain data for other programs."""

import math
from typing import Any

from oelm.report.accuracy import AccuracyComparison, AccuracyFinding, Span
from oelm.report.arms import Arm
from oelm.report.comparison import Comparison, Finding
from oelm.report.confounds import Confound, ScaleGap
from oelm.report.groups import Group
from oelm.report.report import Report
from oelm.report.sentences import (
    accuracy_footnotes,
    accuracy_general_remarks,
    accuracy_remarks,
    accuracy_sentence,
    confound_phrase,
    finding_remarks,
    finding_sentence,
    footnotes,
    general_remarks,
    group_title,
    missing_commands,
    scale_sentence,
)
from oelm.report.statistics import Interval
from oelm.report.texts import ENGLISH, Texts
from oelm.report.trend import Trend
from oelm.report.tuning import TuningTable
from oelm.report.views import AblationStep


def report_json(report: Report, texts: Texts = ENGLISH) -> dict[str, Any]:
    """Numbers in full precision, names in English, and the sentences of the other renderings."""
    return {
        "groups": [group_json(group, texts) for group in report.groups],
        "trends": [_trend(trend) for trend in report.trends],
        "beside": [
            {
                "id": row.id,
                "arm": row.ours.arm.label,
                "ours": _figure(row.ours),
                "theirs": _figure(row.theirs),
                "differs": [{"setting": name, "ours": one, "theirs": other} for name, one, other in row.differs],
            }
            for row in report.beside
        ],
        "tuning": [_tuning(table) for table in report.tuning],
        "environment": [dict(vars(row)) for row in report.environment],
        "unfinished": [str(folder) for folder in report.unfinished],
        "registrations": [
            {
                "study": found.study,
                "runs": found.runs,
                "plan": found.stamp.model_dump(mode="json") if found.stamp else None,
                "missing": list(found.missing) if found.missing is not None else None,
            }
            for found in report.registrations
        ],
    }


def group_json(group: Group, texts: Texts = ENGLISH) -> dict[str, Any]:
    """One experiment."""
    if group.accuracy is not None:
        found = accuracy_json(group.accuracy, texts)
    else:
        assert group.comparison is not None, "a group has one of the two"
        found = as_json(group.comparison, texts)
    return {
        "title": group_title(group, texts),
        "study": group.study,
        "data": group.data,
        "size": group.size,
        "source": group.source,
        "task": group.task,
        **found,
        "ablation": [_ablation(step, texts) for step in group.ablation],
        "resources": [_row(row) for row in group.resources],
        "speed": [{**_row(row), "exceeds_bound": row.exceeds_bound} for row in group.speed],
        "audit": [_row(row) for row in group.audit],
        "geometry": [_row(row) for row in group.geometry],
    }


def as_json(comparison: Comparison, texts: Texts = ENGLISH) -> dict[str, Any]:
    """The perplexities of one experiment."""
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
        "remarks": list(finding_remarks(finding, texts)),
    }


def _measured(arm: Arm) -> dict[str, Any]:
    counts = arm.records[0].counts
    return {
        "label": arm.label,
        "method": arm.method.name,
        "task": arm.task,
        "source": arm.source,
        "reported_ids": [record.reported.id for record in arm.records if record.reported],
        "seeds": list(arm.seeds),
        "losses": list(arm.losses.values()),
        "perplexities": [_finite(value) for value in arm.perplexities],
        "mean_loss": arm.mean_loss if arm.losses else None,
        "mean_perplexity": _finite(arm.mean_perplexity) if arm.losses else None,
        "bits_per_byte": arm.bits_per_byte if arm.losses else None,
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
        "interval_95": _ends(interval),
        "interval_confidence": interval.confidence if interval else None,
        "interval_kind": interval.kind.value if interval else None,
        "interval_beside": _ends(estimate.beside) if estimate else None,
        "is_primary": finding.is_primary,
        "smallest_margin": _finite(interval.resolution) if interval else None,
        "verdict": finding.verdict.value if finding.control else None,
        "measurably_worse": estimate.measurably_worse if interval and estimate else None,
    }


def _ends(interval: Interval | None) -> list[float | None] | None:
    return [_finite(interval.lower), _finite(interval.upper)] if interval else None


def accuracy_json(comparison: AccuracyComparison, texts: Texts = ENGLISH) -> dict[str, Any]:
    """The accuracies of one experiment."""
    return {
        "share": comparison.share,
        "arms": [_accuracy(found, comparison.share, texts) for found in comparison.findings],
        "scale_gaps": [_scale_gap(gap, texts) for gap in comparison.scale_gaps],
        "unfinished": [str(folder) for folder in comparison.unfinished],
        "remarks": list(accuracy_general_remarks(comparison, texts)),
        "footnotes": list(accuracy_footnotes(comparison, texts)),
    }


def _accuracy(finding: AccuracyFinding, share: float, texts: Texts) -> dict[str, Any]:
    return {
        **_measured(finding.arm),
        "is_reference": finding.is_reference,
        "is_primary": finding.is_primary,
        "evaluation": finding.evaluation,
        "examples": finding.examples,
        "control": finding.control.label if finding.control else None,
        "accuracy_by_seed": finding.by_seed,
        "best_checkpoint_accuracy_by_seed": finding.best_by_seed,
        "paired_seeds": finding.pairs,
        "points": _span(finding.points),
        "share_of_control": _span(finding.share),
        "verdict": finding.verdict.value if finding.control else None,
        "confounds": [_confound(confound, texts) for confound in finding.confounds],
        "missing_runs": [{"method": runs.method, "seeds": list(runs.seeds)} for runs in finding.missing],
        "sentence": None if finding.is_reference else accuracy_sentence(finding, share, texts),
        "remarks": list(accuracy_remarks(finding, texts)),
    }


def _span(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {"value": span.value, "lower": span.lower, "upper": span.upper, "confidence": span.confidence}


def _figure(finding: Finding | AccuracyFinding) -> dict[str, Any]:
    if isinstance(finding, AccuracyFinding):
        return {"accuracy": finding.mean, "points": _span(finding.points), "share_of_control": _span(finding.share)}
    estimate = finding.estimate
    return {
        "perplexity": _finite(finding.arm.mean_perplexity) if finding.arm.losses else None,
        "ratio": _finite(estimate.ratio) if estimate else None,
        "interval_95": _ends(estimate.interval) if estimate else None,
    }


def _ablation(step: AblationStep, texts: Texts) -> dict[str, Any]:
    return {
        "change": step.change.value,
        "start": step.start.label,
        "end": step.end.label,
        "ratio": _finite(step.estimate.ratio) if step.estimate else None,
        "interval_95": _ends(step.estimate.interval) if step.estimate else None,
        "confounds": [_confound(confound, texts) for confound in step.confounds],
    }


def _trend(trend: Trend) -> dict[str, Any]:
    return {
        "method": trend.method,
        "task": trend.task,
        "source": trend.source,
        "rows": [
            {
                "data": row.data,
                "size": row.size,
                "weights": row.weights,
                "trained_tokens": row.trained_tokens,
                **_figure(row.finding),
            }
            for row in trend.rows
        ],
        "also_differs": [{"setting": name, "values": list(values)} for name, values in trend.also_differs],
    }


def _tuning(table: TuningTable) -> dict[str, Any]:
    return {**vars(table), "rows": [dict(vars(row)) for row in table.rows]}


def _row(row: Any) -> dict[str, Any]:
    """A row of a view with its arms by their labels."""
    return {name: value.label if isinstance(value, Arm) else value for name, value in vars(row).items()}


def _confound(confound: Confound, texts: Texts) -> dict[str, str]:
    return {
        "kind": confound.kind.value,
        "what": confound.what,
        "arm": confound.arm,
        "control": confound.control,
        "text": confound_phrase(confound, texts),
    }


def _scale_gap(gap: ScaleGap[Arm], texts: Texts) -> dict[str, Any]:
    return {
        "arms": [gap.one.label, gap.other.label],
        "row_norms": [gap.one_norm, gap.other_norm],
        "text": scale_sentence(gap, texts),
    }


def _finite(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None
