"""From a comparison to sentences: shared by the terminal, Markdown and JSON."""

from oelm.config.methods import control_of
from oelm.report.comparison import Comparison, Finding
from oelm.report.confounds import Confound, ScaleGap
from oelm.report.numerals import written_margin, written_percent, written_ratio
from oelm.report.statistics import SEEDS_FOR_VERDICT, Verdict
from oelm.report.texts import Texts


def verdict_phrase(finding: Finding, margin: float, texts: Texts) -> str:
    """The verdict in words, with the note that a non-inferior or undecided arm is measurably worse."""
    phrase = texts.verdicts[finding.verdict].format(margin=written_margin(margin), needed=SEEDS_FOR_VERDICT)
    noteworthy = finding.verdict in (Verdict.NON_INFERIOR, Verdict.UNDECIDED)
    worse = finding.estimate is not None and finding.estimate.measurably_worse
    return phrase + texts.also_measurably_worse if noteworthy and worse else phrase


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
    return texts.finding.format(**names, ratio=ratio, lower=lower, upper=upper, pairs=pairs, verdict=verdict)


def finding_remarks(finding: Finding, texts: Texts) -> tuple[str, ...]:
    """What stands beside the verdict: what the design could show, the confounds, the missing runs."""
    remarks = [texts.confound.format(confound=confound_phrase(found, texts)) for found in finding.confounds]
    if finding.estimate is not None and finding.estimate.interval is not None:
        resolution = written_ratio(finding.estimate.interval.resolution)
        remarks.insert(0, texts.resolution.format(resolution=resolution))
    if finding.missing:
        remarks.append(texts.add_runs.format(commands=", ".join(missing_commands(finding, texts))))
    return tuple(remarks)


def missing_commands(finding: Finding, texts: Texts) -> tuple[str, ...]:
    """The commands that add the seeds a verdict needs."""
    return tuple(texts.add_run.format(method=runs.method, seed=seed) for runs in finding.missing for seed in runs.seeds)


def confound_phrase(confound: Confound, texts: Texts) -> str:
    """A confound in words."""
    return texts.confounds[confound.kind].format(what=confound.what, arm=confound.arm, control=confound.control)


def general_remarks(comparison: Comparison, texts: Texts) -> tuple[str, ...]:
    """What concerns several arms at once: scale between ablations, speed, runs left out."""
    remarks = [scale_sentence(gap, texts) for gap in comparison.scale_gaps]
    if speed := speed_sentences(comparison, texts):
        remarks.append(speed)
    if comparison.unfinished:
        folders = ", ".join(str(folder) for folder in comparison.unfinished)
        remarks.append(texts.unfinished.format(folders=folders))
    return tuple(remarks)


def scale_sentence(gap: ScaleGap, texts: Texts) -> str:
    """Why two frozen arms do not differ in direction alone."""
    return texts.scale_gap.format(
        one=gap.one.label,
        other=gap.other.label,
        one_norm=written_ratio(gap.one_norm),
        other_norm=written_ratio(gap.other_norm),
    )


def speed_sentences(comparison: Comparison, texts: Texts) -> str:
    """The FLOP bound of each arm, then the measured ratios, which claim nothing. Empty without such arms."""
    others = [finding for finding in comparison.findings if not finding.is_reference]
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


def footnotes(comparison: Comparison, texts: Texts) -> tuple[str, ...]:
    """How to read the numbers."""
    later = any(finding.arm.records[0].counts.later for finding in comparison.findings)
    return (*texts.footnotes, texts.trained_later) if later else texts.footnotes
