"""Findings in sentences: in plain words and exactly, with remarks; what concerns several arms; how to read the numbers.

The plain sentence claims what the verdict claims and nothing else: `non-inferior` is "cost no more than the margin",
`undecided` is "we cannot say yet". What was saved is counted, not measured: weights and arithmetic, no time.
"""

import shlex
from collections.abc import Sequence

from oelm.config.labelled_data import LabelledData
from oelm.config.measure import CompareScale, Measure
from oelm.config.methods import control_of
from oelm.report import numerals
from oelm.report.arms import Arm, short_float, weights_saved
from oelm.report.attention_drawing import state_of
from oelm.report.confounds import Confound, PlannedConfound, listed
from oelm.report.contrasts import MOST_SEEDS
from oelm.report.findings import LEARNT, Comparison, Estimate, Finding, TextScatter
from oelm.report.groups import Group, Report
from oelm.report.record_files import Registration
from oelm.report.reproduce import arguments_of
from oelm.report.study_views import ReportedPair, Slope, Trend
from oelm.report.texts import ENGLISH, Texts
from oelm.report.verdicts import DECIDED, PAIRS_FOR_VERDICT, Model, Verdict

_NAMED = 8
"""How many runs a sentence names."""
_NOTHING_SAVED = 0.0005
"""A share below it is shown as 0.0 %."""


# --- in plain words ------------------------------------------------------------------------------------------------


def plain_sentence(found: Finding, criterion: float, say: Texts) -> str:
    """`Freezing Q and K (oelm) cost no more than 5 % in perplexity here, and saved 12 % of the trained weights ...`."""
    decided = found.verdict in DECIDED and found.estimate is not None
    is_fixed = found.terms.is_registered and found.terms.is_fixed and found.is_planned
    is_open = found.arm.source == "measured" and not is_fixed
    begin = say("plain.exploratory") if decided and is_open else ""
    claim = begin + say(
        f"plain.{_case(found)}",
        doing=_deed(found.arm, say),
        arm=found.arm.label,
        measure=say.name(found.measure),
        limit=_amount(criterion, found.measure, say),
        pairs=found.pairs,
        needed=PAIRS_FOR_VERDICT,
        **_sizes(found, say),
    )
    also = say("plain.confounded") if found.confounds and decided else ""
    return claim[:1].upper() + claim[1:] + _saving(found, say, "and" if decided else "it") + say("plain.end") + also


def _deed(arm: Arm, say: Texts) -> str:
    """What the method does to attention: `freezing Q and K`, `leaving out Q and freezing K`."""
    states = {name: state_of(arm, name) for name in ("query", "key", "feed-forward")}
    done = [
        say(f"doing.{state}", what=say("doing.and").join(say(f"doing.{part}") for part in parts))
        for state in ("absent", "frozen", "partly")
        if (parts := [part for part, found in states.items() if found == state])
    ]
    return say("doing.also").join(done) or say("doing.changing")


def _case(found: Finding) -> str:
    if found.withheld is not None:
        return f"withheld_{found.withheld.replace('-', '_')}"
    if found.estimate is None:
        return "no_pair"
    if found.arm.source == "reported":
        return "reported_better" if _is_better(found.estimate.value, found.measure) else "reported_worse"
    name = found.verdict.replace(" ", "_").replace("-", "_")
    return f"{name}_yet_worse" if found.verdict is Verdict.NON_INFERIOR and found.measurably_worse else name


def _sizes(found: Finding, say: Texts) -> dict[str, str]:
    """The estimate and the two ends of its interval, each in the words that a reader would use."""
    if found.estimate is None:
        return {"amount": "", "best": "", "worst": ""}
    ends = found.estimate.ends or (found.estimate.value, found.estimate.value)
    best, worst = ends if found.measure.sign > 0 else ends[::-1]
    amount = _amount(found.estimate.value, found.measure, say)
    return {"amount": amount, "best": _towards(best, found.measure, say), "worst": _towards(worst, found.measure, say)}


def _towards(value: float, measure: Measure, say: Texts) -> str:
    amount, side = _amount(value, measure, say), "better_by" if _is_better(value, measure) else "worse_by"
    return say("plain.unchanged") if amount.split()[0] == "0" else say(f"plain.{side}", amount=amount)


def _is_better(value: float, measure: Measure) -> bool:
    assert measure.scale is not None
    return measure.sign * (value - measure.scale.neutral) < 0


def _amount(value: float, measure: Measure, say: Texts) -> str:
    """How far from no difference: `5 %`, `1.8 points`."""
    assert measure.scale is not None
    if measure.scale is not CompareScale.DIFFERENCE:
        return numerals.rough_percent(abs(value - 1))
    size = f"{abs(value):.{measure.decimals}f}".rstrip("0").rstrip(".")
    return numerals.points(size, measure, say)


def _saving(found: Finding, say: Texts, joined: str) -> str:
    """What the arm trains less than its control, and computes less than a plain baseline."""
    arm, control = found.arm, found.control
    if control is None:
        return ""
    weights, arithmetic = weights_saved(arm, control), arm.flops_saved_share
    parts = [
        say(f"plain.{name}", share=numerals.rough_percent(share))
        for name, share in (("weights", weights), ("arithmetic", arithmetic))
        if share is not None and share >= _NOTHING_SAVED
    ]
    return say(f"plain.saved_{joined}", what=say("plain.and").join(parts)) if parts else say("plain.saved_nothing")


# --- exactly -------------------------------------------------------------------------------------------------------


def finding_sentence(found: Finding, criterion: float, say: Texts) -> str:
    """The one sentence on an arm: estimate, interval, number of pairs, control, verdict."""
    if found.control is None:
        method = found.arm.method
        controls = [name for name in dict.fromkeys((control_of(method), "baseline")) if name != method.name]
        return say("no_control", arm=found.arm.label, controls=" / ".join(controls))
    names = {"arm": found.arm.label, "control": found.control.label, "verdict": judged(found, criterion, say)}
    estimate = found.estimate
    if estimate is None:
        return say("finding.none", **names)
    value, lower, upper = _written(estimate, found)
    return say(
        f"finding.{estimate.scale}" + ("" if estimate.ends else ".bare"),
        **names,
        on=say("on_set", set=found.on) if found.on else "",
        measure=say.name(found.measure),
        value=value,
        lower=lower,
        upper=upper,
        interval=_interval(found, say),
        shown=_shown(found, say),
        pairs=found.pairs,
        examples=f"{found.examples or 0:,}",
    )


def _interval(found: Finding, say: Texts) -> str:
    """What kind of interval it is: some are wider, because several arms are tested, or because looks may follow."""
    if found.estimate is None or not found.estimate.is_adjusted:
        return say("plain_interval")
    is_of_family = not found.stands_alone and not found.arm.method.blind and found.pairs >= PAIRS_FOR_VERDICT
    return say("adjusted_interval" if is_of_family else "looks_interval")


def judged(found: Finding, criterion: float, say: Texts) -> str:
    """The verdict as the end of a sentence, with the note that a non-inferior or undecided arm is measurably worse."""
    verdict, share = found.verdict, found.measure.scale is CompareScale.SHARE
    if found.withheld is not None:
        return say(f"withheld.{found.withheld}")
    kind = "" if verdict in (Verdict.BETTER, Verdict.NO_VERDICT) else "share." if share else "margin."
    phrase = say(
        f"judged.{kind}{verdict}",
        criterion=numerals.criterion(criterion, found.measure, say),
        measure=say.name(found.measure),
        needed=PAIRS_FOR_VERDICT,
    )
    worse = found.measurably_worse and verdict in (Verdict.NON_INFERIOR, Verdict.UNDECIDED)
    return phrase + say("also_measurably_worse") if worse else phrase


def finding_remarks(found: Finding, say: Texts) -> tuple[str, ...]:
    """What belongs to the verdict: what the design could show, the confounds, the missing runs."""
    remarks, estimate = [], found.estimate
    if estimate is not None and estimate.smallest_criterion is not None:
        smallest = numerals.on_scale(estimate.smallest_criterion, estimate.scale, found.measure)
        remarks.append(say("smallest", value=smallest, within=numerals.probability(estimate.within)))
    if estimate is not None and estimate.other is not None:
        lower, upper = (numerals.on_scale(end, estimate.scale, found.measure).text for end in estimate.other)
        text = "own_interval" if estimate.model is Model.POOLED else "variances_differ"
        remarks.append(say(text, lower=lower, upper=upper))
    if found.text is not None:
        remarks.append(_text_remark(found, found.text, say))
    if found.verdict is Verdict.UNDECIDED:
        looks = found.terms.plan.looks if found.terms.plan else 1
        count = say("over", number=MOST_SEEDS) if found.more_seeds is None else found.more_seeds
        remarks.append(say("more_seeds" if looks > 1 else "more_seeds_new_plan", count=count, looks=looks))
    if found.is_primary and found.verdict is not Verdict.NO_VERDICT:
        remarks.append(say(_primary_remark(found)))
    remarks += [say("confound", confound=confound_phrase(each, say)) for each in found.confounds]
    if found.missing and found.arm.source == "measured":
        remarks.append(say("add_runs", commands=", ".join(_missing_commands(found))))
    return (*remarks, *arm_remarks(found.arm, say))


def _primary_remark(found: Finding) -> str:
    """If the primary arm stands uncorrected here, and why."""
    if not found.terms.is_fixed:
        changed = found.terms.plan.changed if found.terms.plan else ()
        is_named_before = not found.terms.changes and changed and "primary" not in changed
        return "primary_amended" if is_named_before else "primary_after"
    if not found.stands_alone:
        return "primary_corrected"
    return "primary_remark" if found.terms.is_registered else "primary_unregistered"


def _text_remark(found: Finding, text: TextScatter, say: Texts) -> str:
    """What another text would change, and which of the two chances the verdict does not cover."""
    assert found.estimate is not None
    moved = say("text_moves", by=numerals.text_scatter(text), interval=_interval(found, say), blocks=text.blocks)
    holds = text.exceeds_seeds and found.verdict is not Verdict.NO_VERDICT
    return moved + say("text_exceeds_seeds") if holds else moved


def arm_remarks(arm: Arm, say: Texts) -> tuple[str, ...]:
    """Steps that changed nothing; of a reported arm, such as a step count that two of its tables give differently."""
    skipped = [(record.skipped_steps, record.config.seed) for record in arm.records if record.skipped_steps]
    counts = ", ".join(say("skipped_by_seed", count=f"{count:,}", seed=seed) for count, seed in skipped)
    reported = (say.of(each) for record in arm.records if record.reported for each in record.reported.remarks)
    return (*((say("skipped_steps", counts=counts),) if skipped else ()), *reported)


def confound_phrase(confound: Confound, say: Texts) -> str:
    """A confound in words."""
    return say(f"confound.{confound.kind}", what=confound.what, arm=confound.arm, control=confound.control)


def planned_sentence(found: PlannedConfound, say: Texts = ENGLISH) -> str:
    """One warning before the runs: `oelm against baseline: lr differs (1e-3 against 3e-4)`."""
    phrase = confound_phrase(found.confound, say)
    return say("planned_confound", arm=found.arm, control=found.control, confound=phrase)


def group_title(group: Group, say: Texts) -> str:
    """Data and size, and the study; of a reported experiment whose it is."""
    names = {"data": group.data, "size": group.size}
    if reported := group.arms[0].record.reported:
        return say("reported_title", **names, study=say.of(reported.study))
    return say("group_title", **names) if group.study is None else say("study_title", **names, study=group.study)


def group_remarks(group: Group, say: Texts) -> tuple[str, ...]:
    """What concerns several arms of an experiment at once; speed has a section of its own."""
    references = [
        f"{arm.label}: {remark}" for arm in group.arms if arm.is_reference for remark in arm_remarks(arm, say)
    ]
    gaps = [planned_sentence(PlannedConfound(gap.one.label, gap.other.label, gap.confound), say)
            for gap in group.scale_gaps]  # fmt: skip
    changes = dict.fromkeys(change for each in group.comparisons for change in each.terms.changes)
    after = [say(f"after.{each.what}", before=each.before, now=each.now) for each in changes]
    pooled = (_pooled(each, say) for each in group.comparisons if each.pooled)
    return (*after, *references, *_assay(group, say), *gaps, *dict.fromkeys(pooled))


def _assay(group: Group, say: Texts) -> tuple[str, ...]:
    """Whether the experiment could have shown a difference: its control has learnt, and what must fail fails."""
    headline = group.headline
    if group.source == "reported" or headline is None or headline.control is None:
        return ()
    control, comparison = headline.control, group.comparisons[0]
    share, change = control.unexplained, control.last_fifth
    text = "not_known" if share is None else "learnt" if share <= LEARNT else "not_learnt"
    learnt = say(f"assay.{text}", control=control.label, share=numerals.percent(share), change=numerals.percent(change))
    told = {None: "no_negative", True: "fails", False: "does_not_fail"}[comparison.can_tell]
    return learnt, say(f"assay.{told}", arm=comparison.negative)


def speed_sentences(group: Group, say: Texts) -> tuple[str, ...]:
    """The FLOP bound of each arm, then the measured ratios, which claim nothing; and savings beyond the bound."""
    others = [row for row in group.costs if not row.arm.is_reference and row.flops_saved_share is not None]
    shares = [f"{row.arm.label} {numerals.percent(row.flops_saved_share)}" for row in others]
    ratios = [
        f"{row.arm.label} ×{row.step_seconds / row.control.step_seconds:.2f}"
        for row in others
        if row.control and row.step_seconds and row.control.step_seconds
    ]
    bound = [say("speed_bound", shares=", ".join(shares))] if shares else []
    measured = [say("speed_measured", ratios=", ".join(ratios))] if ratios else []
    return (*bound, *measured, *bound_sentences(group, say))


def bound_sentences(group: Group, say: Texts) -> tuple[str, ...]:
    """Arms that saved more time than arithmetic allows."""
    return tuple(
        say(
            "exceeds_bound",
            arm=row.arm.label,
            control=row.control.label,
            saved=numerals.percent(row.time_saved_share),
            bound=numerals.percent(row.flops_saved_share),
        )
        for row in group.costs
        if row.exceeds_bound and row.control is not None
    )


def trend_caveat(trend: Trend, say: Texts) -> str | None:
    """What else changes along a trend; None where nothing does."""
    if not trend.also_differs:
        return None
    settings = [say("trend_setting", name=name, values=", ".join(values)) for name, values in trend.also_differs]
    return say("trend_caveat", settings=", ".join(settings))


def slope_sentence(slope: Slope, measure: Measure, say: Texts) -> str:
    """By how much an arm moves against its control with every doubling of the steps, the weights or the heads."""
    return say(
        "slope",
        axis=say(f"slope.{slope.axis}"),
        values=", ".join(f"{value:,}" for value in slope.values),
        estimate=numerals.estimated(slope.estimate, measure),
        interval=numerals.interval(slope.estimate, measure),
        pairs=slope.pairs,
    )


def reported_sentence(pair: ReportedPair, say: Texts) -> str:
    """Our figure and theirs, and the settings in which the two runs differ."""
    settings = ", ".join(f"{name} {ours} / {theirs}" for name, ours, theirs in pair.differs)
    return say(
        "reported_pair",
        arm=pair.ours.arm.label,
        data=pair.ours.arm.config.data.name,
        measure=say.name(pair.ours.measure),
        ours=_figure(pair.ours, say),
        theirs=_figure(pair.theirs, say),
        id=pair.id,
        differs=say("reported_differs", settings=settings) if settings else "",
    )


def notes(report: Report, say: Texts) -> tuple[str, ...]:
    """One line per study on its registered plan; then the runs that were left out."""
    several = len({each.study for each in report.registrations}) > 1
    lines = [
        (f"{each.study}: " if several and each.study else "") + _registered(each, say) for each in report.registrations
    ]
    for table in report.tuning:
        if table.better is not None:
            rates = [short_float(row.lr) for row in table.rows if row.is_chosen]
            lines.append(say("better_rate", arm=table.arm, rate=short_float(table.better), used=", ".join(rates)))
    if report.unchecked:
        arms = [f"{each.arm} ({', '.join(map(short_float, each.rates))})" for each in report.unchecked]
        lines.append(say("unchecked_choices", arms=", ".join(arms)))
    if report.unfinished:
        names = [str(folder) for folder in report.unfinished]
        shown = [f"{name} ({say(f'ended.{report.ended[name]}')})" if name in report.ended else name for name in names]
        lines.append(say("unfinished", folders=", ".join(shown)))
    if report.damaged:
        lines.append(say("damaged", problems="; ".join(report.damaged)))
    return tuple(lines)


def footnotes(report: Report, say: Texts) -> tuple[str, ...]:
    """How to read the numbers of all experiments."""
    found = [_comparison_notes(comparison, say) for group in report.groups for comparison in group.comparisons]
    later = any(arm.record.counts.later for group in report.groups for arm in group.arms)
    return tuple(dict.fromkeys([note for each in found for note in each] + ([say("note.later")] if later else [])))


def _comparison_notes(comparison: Comparison, say: Texts) -> list[str]:
    measure, findings = comparison.measure, comparison.findings
    criterion = numerals.criterion(comparison.criterion, measure, say)
    listed = [
        say(f"note.{measure.scale}", measure=say.name(measure), criterion=criterion, best_by=_best_by(findings, say)),
        say(f"note.{measure.per}"),
    ]
    if any(found.arm.source == "reported" for found in findings):
        listed = [say("note.reported")]
    if comparison.pooled is not None:
        listed.append(say("note.pooled"))
    if sum(found.estimate is not None and found.estimate.ends is not None for found in findings) > 1:
        listed.append(say("note.primary" if any(found.stands_alone for found in findings) else "note.no_primary"))
    return listed


def _best_by(findings: Sequence[Finding], say: Texts) -> str:
    """What chose the best checkpoints of labelled text."""
    data = [found.arm.config.data for found in findings]
    sets = sorted({each.validate_on for each in data if isinstance(each, LabelledData) and each.validate_on})
    if not sets:
        return say("best_by_holdout")
    return say("best_by_set", measure=say.name(findings[0].arm.config.best_by), sets=", ".join(sets))


def _written(estimate: Estimate, found: Finding) -> tuple[str, str, str]:
    ends = estimate.ends or (estimate.value, estimate.value)
    value, lower, upper = (
        numerals.on_scale(each, estimate.scale, found.measure).text for each in (estimate.value, *ends)
    )
    return value, lower, upper


def _shown(found: Finding, say: Texts) -> str:
    """The same on the second scale, inside the brackets of the sentence."""
    if found.shown is None:
        return ""
    value, lower, upper = _written(found.shown, found)
    text = "shown_difference" if found.shown.ends else "shown_difference.bare"
    return say(text, value=value, lower=lower, upper=upper)


def _missing_commands(found: Finding) -> list[str]:
    """The commands that add the seeds a verdict needs."""
    configs = {each.method.name: each.config for each in (found.arm, found.control) if each is not None}
    return [
        f"`{shlex.join([*arguments_of(configs[runs.method]), '--seed', str(seed)])}`"
        for runs in found.missing
        for seed in runs.seeds
    ]


def _pooled(comparison: Comparison, say: Texts) -> str:
    pooled = comparison.pooled
    assert pooled is not None
    text = "pooled_left_out" if pooled.left_out else "pooled"
    return say(text, arms=len(pooled.arms), seeds=listed(pooled.seeds), left_out=listed(pooled.left_out))


def _figure(found: Finding, say: Texts) -> str:
    mean = "–" if found.mean is None else found.measure.written(found.mean)
    if found.estimate is None or found.estimate.scale is CompareScale.DIFFERENCE:
        return mean
    return say("relative_figure", mean=mean, estimate=numerals.estimated(found.estimate, found.measure))


def _registered(found: Registration, say: Texts) -> str:
    plan = found.plan
    if plan is None:
        beside = [say("added_runs", count=len(found.added), runs=_first(found.added, say))] if found.added else []
        return " ".join([say("exploratory"), *beside])
    commit, before = (plan.git_commit or "?")[:12], say("registered_first")
    if plan.runs_before:
        before = say("registered_late", runs=plan.runs_before)
    if plan.git_dirty:
        commit = say("with_changes", commit=commit)
    parts = [say("registered", when=plan.registered_at, commit=commit, before=before)]
    if plan.amendments:
        parts.append(say("amended", times=len(plan.amendments)))
    if found.missing is None:
        parts.append(say("plan_not_here"))
    elif found.missing:
        parts.append(say("planned_missing", runs=_first(found.missing, say)))
    named = {
        "diverged_runs": found.diverged,
        "failed_runs": found.failed,
        "unlike_runs": found.unlike,
        "added_runs": found.added,
    }
    parts += [say(text, count=len(runs), runs=_first(runs, say)) for text, runs in named.items() if runs]
    if found.looks > 1:
        parts.append(say("looks", looks=found.looks))
    if found.changed:
        parts.append(say("changed_after", what=", ".join(found.changed)))
    elif not found.is_first:
        parts.append(say("all_corrected"))
    return " ".join(parts)


def _first(names: Sequence[str], say: Texts) -> str:
    """So many that the rest can be read too."""
    more = [say("and_more", count=len(names) - _NAMED)] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])
