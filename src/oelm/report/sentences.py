"""From a comparison to sentences: shared by the terminal, Markdown, JSON and the page."""

from collections.abc import Sequence

from oelm.config.measure import Bilingual
from oelm.config.methods import control_of
from oelm.report.accuracy import AccuracyComparison, AccuracyFinding, Span
from oelm.report.arms import Arm
from oelm.report.beside import BesideRow
from oelm.report.comparison import Comparison, Finding
from oelm.report.confounds import Confound, ScaleGap
from oelm.report.groups import Group
from oelm.report.numerals import written_margin, written_percent, written_perplexity, written_points, written_ratio
from oelm.report.registration import Registration
from oelm.report.statistics import SEEDS_FOR_VERDICT, Interval, IntervalKind, Verdict
from oelm.report.texts import CHINESE, Texts
from oelm.report.trend import Trend
from oelm.report.views import SpeedRow


def group_title(group: Group, texts: Texts) -> str:
    """Data and size, and the study; of a reported experiment whose it is."""
    reported = group.arms[0].records[0].reported
    if reported is not None:
        return texts.reported_title.format(data=group.data, size=group.size, study=in_language(reported.study, texts))
    text = texts.group_title if group.study is None else texts.study_title
    return text.format(study=group.study, data=group.data, size=group.size)


# --- perplexity --------------------------------------------------------------------------------------------------


def verdict_phrase(finding: Finding, margin: float, texts: Texts) -> str:
    """The verdict in words, with the note that a non-inferior or undecided arm is measurably worse."""
    phrase = texts.verdicts[finding.verdict].format(margin=written_margin(margin), needed=SEEDS_FOR_VERDICT)
    worse = finding.estimate is not None and finding.estimate.measurably_worse
    return phrase + texts.also_measurably_worse if worse and _is_noteworthy(finding.verdict) else phrase


def finding_sentence(finding: Finding, margin: float, texts: Texts) -> str:
    """The one sentence on an arm: ratio, interval, number of pairs, control, verdict."""
    if finding.control is None:
        return texts.no_control.format(arm=finding.arm.label, control=control_of(finding.arm.method))
    names = {"arm": finding.arm.label, "control": finding.control.label}
    verdict = verdict_phrase(finding, margin, texts)
    if finding.estimate is None:
        return texts.finding_without_pairs.format(**names, verdict=verdict)
    ratio, pairs = written_ratio(finding.estimate.ratio), finding.estimate.pairs
    interval = finding.estimate.interval
    if interval is None:
        return texts.finding_without_interval.format(**names, ratio=ratio, pairs=pairs, verdict=verdict)
    lower, upper = written_ratio(interval.lower), written_ratio(interval.upper)
    return texts.finding.format(
        **names,
        ratio=ratio,
        interval=interval_name(interval, texts),
        lower=lower,
        upper=upper,
        pairs=pairs,
        verdict=verdict,
    )


def interval_name(interval: Interval | Span, texts: Texts) -> str:
    """What kind of 95 % it is: of this arm alone, or of all secondary arms together."""
    return texts.adjusted_interval if interval.is_adjusted else texts.plain_interval


def finding_remarks(finding: Finding, texts: Texts) -> tuple[str, ...]:
    """What stands beside the verdict: what the design could show, the confounds, the missing runs."""
    remarks = []
    interval = finding.estimate.interval if finding.estimate else None
    if interval is not None:
        remarks.append(texts.resolution.format(resolution=written_ratio(interval.resolution)))
    if finding.estimate is not None and finding.estimate.beside is not None:
        remarks.append(_beside(finding.estimate.beside, texts))
    return (*remarks, *_shared_remarks(finding, texts))


def _beside(beside: Interval, texts: Texts) -> str:
    text = texts.own_interval if beside.kind is IntervalKind.PAIRED else texts.variances_differ
    return text.format(lower=written_ratio(beside.lower), upper=written_ratio(beside.upper))


def _shared_remarks(finding: Finding | AccuracyFinding, texts: Texts) -> list[str]:
    judged = finding.is_primary and finding.verdict is not Verdict.NO_VERDICT
    remarks = [texts.primary_remark] if judged else []
    remarks += [texts.confound.format(confound=confound_phrase(found, texts)) for found in finding.confounds]
    if finding.missing and finding.arm.source == "measured":
        remarks.append(texts.add_runs.format(commands=", ".join(missing_commands(finding, texts))))
    return [*remarks, *arm_remarks(finding.arm, texts)]


def arm_remarks(arm: Arm, texts: Texts) -> list[str]:
    """What is to be known of a reported arm, such as a step count that two of its tables give differently."""
    return [in_language(each, texts) for record in arm.records if record.reported for each in record.reported.remarks]


def reference_remarks(findings: Sequence[Finding | AccuracyFinding], texts: Texts) -> list[str]:
    """The same of the plain baselines, which have no sentence of their own."""
    return [
        f"{found.arm.label}: {remark}"
        for found in findings
        if found.is_reference
        for remark in arm_remarks(found.arm, texts)
    ]


def in_language(remark: Bilingual, texts: Texts) -> str:
    """A remark of a record in the language of the texts."""
    return remark.chinese if texts is CHINESE else remark.english


def missing_commands(finding: Finding | AccuracyFinding, texts: Texts) -> tuple[str, ...]:
    """The commands that add the seeds a verdict needs."""
    verb = "finetune" if finding.arm.task == "classification" else "train"
    return tuple(
        texts.add_run.format(verb=verb, method=runs.method, seed=seed)
        for runs in finding.missing
        for seed in runs.seeds
    )


def confound_phrase(confound: Confound, texts: Texts) -> str:
    """A confound in words."""
    return texts.confounds[confound.kind].format(what=confound.what, arm=confound.arm, control=confound.control)


def general_remarks(comparison: Comparison, texts: Texts) -> tuple[str, ...]:
    """What concerns several arms at once: scale between ablations, pooled scatter, speed, runs left out."""
    remarks = [scale_sentence(gap, texts) for gap in comparison.scale_gaps]
    if blocks := comparison.blocks:
        text = texts.blocks_left_out if blocks.left_out else texts.blocks
        listed = {"seeds": _listed(blocks.seeds), "left_out": _listed(blocks.left_out)}
        remarks.append(text.format(arms=len(blocks.arms), **listed))
    if speed := speed_sentences(comparison.findings, texts):
        remarks.append(speed)
    return (*remarks, *_unfinished(comparison, texts))


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)


def _unfinished(comparison: Comparison | AccuracyComparison, texts: Texts) -> list[str]:
    folders = ", ".join(str(folder) for folder in comparison.unfinished)
    return [texts.unfinished.format(folders=folders)] if folders else []


def scale_sentence(gap: ScaleGap[Arm], texts: Texts) -> str:
    """Why two frozen arms do not differ in direction alone."""
    return texts.scale_gap.format(
        one=gap.one.label,
        other=gap.other.label,
        one_norm=written_ratio(gap.one_norm),
        other_norm=written_ratio(gap.other_norm),
    )


def speed_sentences(findings: Sequence[Finding], texts: Texts) -> str:
    """The FLOP bound of each arm, then the measured ratios, which claim nothing. Empty without such arms."""
    others = [finding for finding in findings if not finding.is_reference and finding.arm.flops_saved_share is not None]
    if not others:
        return ""
    shares = ", ".join(f"{found.arm.label} {written_percent(found.arm.flops_saved_share)}" for found in others)
    ratios = [
        texts.time_ratio.format(arm=found.arm.label, ratio=f"{found.time_ratio:.2f}")
        for found in others
        if found.time_ratio is not None
    ]
    measured = [texts.speed_measured.format(ratios=", ".join(ratios)), texts.speed_caveat] if ratios else []
    return " ".join([texts.speed_bound.format(shares=shares), *measured])


def bound_sentence(row: SpeedRow, texts: Texts) -> str | None:
    """The remark that more time was saved than arithmetic allows; None where that is not so."""
    if not row.exceeds_bound or row.control is None:
        return None
    return texts.exceeds_bound.format(
        arm=row.arm.label,
        control=row.control.label,
        saved=written_percent(row.time_saved_share),
        bound=written_percent(row.flops_saved_share),
    )


def trend_caveat(trend: Trend, texts: Texts) -> str | None:
    """What else changes along a trend; None where nothing does."""
    if not trend.also_differs:
        return None
    settings = [texts.trend_setting.format(name=name, values=", ".join(values)) for name, values in trend.also_differs]
    return texts.trend_caveat.format(settings=", ".join(settings))


def beside_sentence(row: BesideRow, texts: Texts) -> str:
    """Our figure and theirs, and the settings in which the two runs differ."""
    settings = [f"{name} {ours} / {theirs}" for name, ours, theirs in row.differs]
    return texts.beside.format(
        arm=row.ours.arm.label,
        data=row.ours.arm.config.data.name,
        ours=_figure(row.ours, texts),
        theirs=_figure(row.theirs, texts),
        id=row.id,
        differs=texts.beside_differs.format(settings=", ".join(settings)) if settings else "",
    )


def _figure(finding: Finding | AccuracyFinding, texts: Texts) -> str:
    if isinstance(finding, AccuracyFinding):
        return texts.accuracy_figure.format(accuracy=f"{100 * finding.mean:.2f} %")
    perplexity = written_perplexity(finding.arm.mean_perplexity)
    if finding.estimate is None:
        return texts.perplexity_figure.format(perplexity=perplexity)
    return texts.ratio_figure.format(perplexity=perplexity, ratio=written_ratio(finding.estimate.ratio))


def footnotes(comparison: Comparison, texts: Texts) -> tuple[str, ...]:
    """How to read the numbers."""
    notes = [*texts.footnotes]
    if any(finding.arm.source == "reported" for finding in comparison.findings):
        notes = [texts.reported_footnote]
    intervals = [found.estimate.interval for found in comparison.findings if found.estimate and found.estimate.interval]
    if comparison.blocks is not None:
        notes.append(texts.pooled_footnote)
    if len(intervals) > 1:
        notes.append(texts.family_footnote if comparison.primary else texts.no_primary_footnote)
    if any(finding.arm.records[0].counts.later for finding in comparison.findings):
        notes.append(texts.trained_later)
    return tuple(notes)


# --- accuracy ----------------------------------------------------------------------------------------------------


def accuracy_verdict_phrase(finding: AccuracyFinding, share: float, texts: Texts) -> str:
    """The verdict in words, with the note that an arm that keeps its share is measurably worse."""
    phrase = texts.accuracy_verdicts[finding.verdict].format(margin=f"{100 * share:g} %", needed=SEEDS_FOR_VERDICT)
    worse = finding.measurably_worse and _is_noteworthy(finding.verdict)
    return phrase + texts.also_measurably_worse if worse else phrase


def accuracy_sentence(finding: AccuracyFinding, share: float, texts: Texts) -> str:
    """The one sentence on a fine-tuned arm: points, share, intervals, control, verdict."""
    if finding.control is None:
        return texts.no_control.format(arm=finding.arm.label, control=control_of(finding.arm.method))
    names = {"arm": finding.arm.label, "control": finding.control.label}
    verdict = accuracy_verdict_phrase(finding, share, texts)
    points, kept = finding.points, finding.share
    if points is None or kept is None:
        return texts.finding_without_pairs.format(**names, verdict=verdict)
    filled = {"evaluation": finding.evaluation, "points": written_points(points.value), "pairs": finding.pairs}
    filled["share"] = written_percent(kept.value)
    if points.lower is None or points.upper is None or kept.lower is None or kept.upper is None:
        return texts.accuracy_without_interval.format(**names, **filled, verdict=verdict)
    return texts.accuracy_finding.format(
        **names,
        **filled,
        interval=interval_name(points, texts),
        lower=written_points(points.lower),
        upper=written_points(points.upper),
        share_lower=written_percent(kept.lower),
        share_upper=written_percent(kept.upper),
        examples=f"{finding.examples:,}",
        verdict=verdict,
    )


def accuracy_remarks(finding: AccuracyFinding, texts: Texts) -> tuple[str, ...]:
    """What stands beside the verdict: the confounds, the missing runs."""
    return tuple(_shared_remarks(finding, texts))


def accuracy_general_remarks(comparison: AccuracyComparison, texts: Texts) -> tuple[str, ...]:
    """What concerns several arms at once."""
    return (*(scale_sentence(gap, texts) for gap in comparison.scale_gaps), *_unfinished(comparison, texts))


def accuracy_footnotes(comparison: AccuracyComparison, texts: Texts) -> tuple[str, ...]:
    """How to read the numbers."""
    notes = [note.format(share=f"{100 * comparison.share:g} %") for note in texts.accuracy_footnotes]
    if any(finding.arm.source == "reported" for finding in comparison.findings):
        notes = [notes[0], texts.reported_footnote]
    tested = [found for found in comparison.findings if found.share is not None and found.share.lower is not None]
    if len(tested) > 1:
        notes.append(texts.family_footnote if comparison.primary else texts.no_primary_footnote)
    return tuple(notes)


def _is_noteworthy(verdict: Verdict) -> bool:
    return verdict in (Verdict.NON_INFERIOR, Verdict.UNDECIDED)


def registration_sentences(found: Sequence[Registration], texts: Texts) -> tuple[str, ...]:
    """One line per study: when its plan was registered and by which commit, or that there is none."""
    several = len({each.study for each in found}) > 1
    return tuple((f"{each.study}: " if several and each.study else "") + _registered(each, texts) for each in found)


def _registered(found: Registration, texts: Texts) -> str:
    stamp = found.stamp
    if stamp is None:
        return texts.exploratory
    commit, before = (stamp.git_commit or "?")[:12], texts.registered_first
    if stamp.runs_before:
        before = texts.registered_late.format(runs=stamp.runs_before)
    parts = [
        texts.registered.format(
            when=stamp.registered_at,
            commit=texts.with_changes.format(commit=commit) if stamp.git_dirty else commit,
            before=before,
        )
    ]
    if stamp.amendments:
        parts.append(texts.amended.format(times=len(stamp.amendments)))
    if found.missing is None:
        parts.append(texts.plan_not_here)
    elif found.missing:
        parts.append(texts.planned_missing.format(runs=", ".join(found.missing)))
    return " ".join(parts)
