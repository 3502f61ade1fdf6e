import math

import pytest
from scipy import stats

from oelm.base.errors import ConfigError
from oelm.config.measure import PERPLEXITY
from oelm.config.record import Evaluation
from oelm.config.study_role import StudyRole, Tuning
from oelm.evaluate.ask_likelihood import TEXT_LOSS, TEXT_PERPLEXITY
from oelm.report.arms import group_into_arms
from oelm.report.confounds import ConfoundKind
from oelm.report.findings import Comparison, Finding, MissingRuns, Withheld, estimate_pair
from oelm.report.findings import compare as compare_arms
from oelm.report.groups import build_report
from oelm.report.sentences import finding_remarks
from oelm.report.texts import Language, Texts
from oelm.report.verdicts import Model, Verdict
from oelm.report.write_markdown import as_markdown

from .records import BASELINE_LOSSES, EXAMPLES, finetuned, make_arm, make_config, make_record, shifted

BASELINE = make_arm("baseline", BASELINE_LOSSES)
FAIR = make_arm("baseline+shift+gain", shifted((-0.05, -0.06, -0.05)))
CORE = make_arm("oelm-core", BASELINE_LOSSES)


def compare(records: list, margin: float | None = None, primary: str | None = None) -> Comparison:
    (comparison,) = compare_arms(group_into_arms(records), margin, primary)
    return comparison


def primary_of(comparison: Comparison) -> str | None:
    return next((found.arm.label for found in comparison.findings if found.is_primary), None)


def finding(comparison: Comparison, label: str) -> Finding:
    return next(found for found in comparison.findings if found.arm.label == label)


def control_label(records: list, label: str) -> str | None:
    control = finding(compare(records), label).control
    return control.label if control else None


def test_the_fair_control_has_the_same_extras() -> None:
    records = BASELINE + FAIR + CORE + make_arm("oelm", BASELINE_LOSSES)
    assert control_label(records, "oelm-core") == "baseline+shift+gain"
    assert control_label(records, "oelm") == "baseline"


def test_two_arms_of_one_label_are_told_apart() -> None:
    """They come from two studies, each of which names its arms."""
    (here,) = group_into_arms(BASELINE)
    (there,) = group_into_arms(make_arm("baseline", shifted((0.1, 0.1, 0.1)), lr=3e-4))
    assert here.label == there.label
    found = estimate_pair(there, here, PERPLEXITY, "")
    assert found is not None
    assert found.value == pytest.approx(math.exp(0.1))


def test_the_order_of_extras_in_a_name_does_not_matter() -> None:
    swapped = make_arm("baseline+gain+shift", (2.4,))
    assert control_label(BASELINE + swapped + CORE, "oelm-core") == "baseline+shift+gain"


def test_plain_baseline_stands_in_where_the_fair_control_is_missing() -> None:
    assert control_label(BASELINE + CORE, "oelm-core") == "baseline"


def test_a_baseline_under_equal_settings_goes_before_a_fair_control_under_others() -> None:
    other_rate = make_arm("baseline+shift+gain", BASELINE_LOSSES, lr=3e-4)
    assert control_label(BASELINE + other_rate + CORE, "oelm-core") == "baseline"
    assert control_label(other_rate + CORE, "oelm-core") == "baseline+shift+gain"


def test_each_setting_finds_its_own_control() -> None:
    slow = make_arm("baseline", BASELINE_LOSSES, lr=3e-4) + make_arm("oelm", BASELINE_LOSSES, lr=3e-4)
    records = BASELINE + slow + make_arm("oelm", BASELINE_LOSSES)
    assert control_label(records, "oelm lr=3e-4") == "baseline lr=3e-4"
    assert control_label(records, "oelm lr=1e-3") == "baseline lr=1e-3"


def test_other_data_weigh_more_than_other_rates() -> None:
    near = make_arm("baseline", BASELINE_LOSSES, lr=3e-4, steps=800)
    far = make_arm("baseline", BASELINE_LOSSES, digest="b" * 16)
    label = control_label(far + near + make_arm("oelm", BASELINE_LOSSES), "oelm")
    assert label is not None
    assert "steps=800" in label


def test_without_a_baseline_there_is_no_control() -> None:
    lone = finding(compare(CORE + make_arm("oelm", BASELINE_LOSSES)), "oelm")
    assert lone.control is None
    assert lone.verdict is Verdict.NO_VERDICT
    assert not lone.arm.is_reference


def test_another_task_is_never_a_control() -> None:
    other = [make_record(make_config("baseline", seed), 0.5, task="classification") for seed in range(3)]
    comparisons = compare_arms(group_into_arms(other + CORE))
    assert all(found.control is None for each in comparisons for found in each.findings)


def test_baselines_are_references_and_a_baseline_with_extras_is_compared_with_the_plain_one() -> None:
    comparison = compare(BASELINE + FAIR)
    assert finding(comparison, "baseline").arm.is_reference
    assert finding(comparison, "baseline").control is None
    extras = finding(comparison, "baseline+shift+gain")
    assert extras.control is not None
    assert extras.control.label == "baseline"
    assert extras.verdict is Verdict.BETTER
    assert extras.confounds == ()


def test_the_verdict_uses_pairs_and_margin() -> None:
    records = BASELINE + make_arm("oelm", shifted((0.11, 0.12, 0.10)))
    assert finding(compare(records), "oelm").verdict is Verdict.INFERIOR
    assert finding(compare(records, margin=1.2), "oelm").verdict is Verdict.NON_INFERIOR
    # The same losses given to other seeds: as far apart on average, but no longer paired.
    swapped = dict(zip((1, 2, 0), shifted((0.11, 0.12, 0.10)), strict=True))
    assert finding(compare(BASELINE + make_arm("oelm", swapped)), "oelm").verdict is Verdict.UNDECIDED


def test_missing_runs_complete_half_pairs_first() -> None:
    found = finding(compare(make_arm("baseline", {0: 2.5, 4: 2.6}) + make_arm("oelm", {0: 2.6, 1: 2.7})), "oelm")
    assert found.verdict is Verdict.NO_VERDICT
    assert found.missing == (MissingRuns("oelm", (4,)), MissingRuns("baseline", (1,)))


def test_missing_runs_take_new_seeds_where_there_are_no_halves() -> None:
    found = finding(compare(make_arm("baseline", {1: 2.5}) + make_arm("oelm", {1: 2.6})), "oelm")
    assert found.missing == (MissingRuns("oelm", (0, 2)), MissingRuns("baseline", (0, 2)))


def test_nothing_is_missing_from_three_pairs() -> None:
    assert finding(compare(BASELINE + make_arm("oelm", BASELINE_LOSSES)), "oelm").missing == ()


def test_no_seed_in_common_is_no_estimate() -> None:
    found = finding(compare(make_arm("baseline", {0: 2.5}) + make_arm("oelm", {1: 2.6})), "oelm")
    assert found.estimate is None
    assert found.verdict is Verdict.NO_VERDICT


NOISE = ((0.001, -0.002, 0.001), (-0.001, 0.001, 0.002), (0.002, 0.001, -0.002))


def several(*shifts: float, primary: str | None = None) -> list:
    """A baseline and arms about so far above it, of a study whose records name its primary arm."""
    methods = ("oelm", "oelm-random", "oelm-q", "orthogonal-trained")
    study = StudyRole(study="s", stage="final", primary=primary) if primary else None
    return make_arm("baseline", BASELINE_LOSSES, study=study) + [
        record
        for place, (method, by) in enumerate(zip(methods, shifts, strict=False))
        for record in make_arm(method, shifted(tuple(by + each for each in NOISE[place % 3])), study=study)
    ]


def test_the_primary_arm_is_tested_uncorrected_and_the_others_after_holm() -> None:
    comparison = compare(several(0.047, 0.047, 0.047, primary="oelm"))
    confidences = {found.arm.label: found.estimate.confidence for found in comparison.findings if found.estimate}
    assert confidences["oelm"] == 0.95
    assert {confidences["oelm-random"], confidences["oelm-q"]} == {1 - 0.05 / 2}
    assert primary_of(comparison) == "oelm"
    assert primary_of(compare(several(0.047, 0.047, 0.047))) is None


def asked_again(records: list) -> list:
    """With a second measure: a text on which each does as on its own validation."""
    again = TEXT_PERPLEXITY
    return [
        record.model_copy(
            update={
                "measures": (*record.declared, again),
                "evaluations": (
                    Evaluation(
                        name="text",
                        checkpoint="last",
                        step=400,
                        measures={again.name: math.exp(record.loss), TEXT_LOSS.name: record.loss},
                        predictions="",
                        labels="",
                    ),
                ),
            }
        )
        for record in records
    ]


def test_on_a_second_measure_the_primary_arm_is_one_of_many_and_nobody_says_otherwise() -> None:
    """Its sentence said `after Holm` and `not corrected` at once."""
    first, second = compare_arms(group_into_arms(asked_again(several(0.047, 0.047, 0.047, primary="oelm"))))
    alone, corrected = finding(first, "oelm"), finding(second, "oelm")
    assert (alone.is_primary, alone.stands_alone) == (True, True)
    assert (corrected.is_primary, corrected.stands_alone) == (True, False)
    assert corrected.estimate is not None
    assert corrected.estimate.is_adjusted
    say = Texts(Language.ENGLISH)
    assert any("not corrected" in remark for remark in finding_remarks(alone, say))
    assert not any("not corrected" in remark for remark in finding_remarks(corrected, say))
    assert any("corrected here like all others" in remark for remark in finding_remarks(corrected, say))


def confidences_of(comparison: Comparison) -> set[float]:
    return {found.estimate.confidence for found in comparison.findings if found.estimate}


@pytest.mark.parametrize("stated", [None, "oelm"])
def test_a_primary_arm_that_is_chosen_after_the_runs_is_corrected_like_all_others(stated: str | None) -> None:
    comparison = compare(several(0.047, 0.047, 0.047, primary=stated), primary="oelm-q")
    assert primary_of(comparison) == "oelm-q", "it opens the report"
    assert confidences_of(comparison) == {1 - 0.05 / 3}
    (change,) = comparison.terms.changes
    assert (change.what, change.before, change.now) == ("primary", stated or "none", "oelm-q")
    same = compare(several(0.047, 0.047, 0.047, primary="oelm"), primary="oelm")
    assert same.terms.changes == ()


def test_a_margin_that_is_chosen_after_the_runs_corrects_the_primary_arm_too() -> None:
    records = several(0.047, 0.047, 0.047, primary="oelm")
    assert 0.95 in confidences_of(compare(records, margin=1.05))
    comparison = compare(records, margin=1.048)
    assert 0.95 not in confidences_of(comparison)
    assert [(each.what, each.before, each.now) for each in comparison.terms.changes] == [("margin", "1.05", "1.048")]


def test_a_primary_arm_that_the_seeds_disagree_about_is_none() -> None:
    records = several(0.047, primary="oelm") + several(0.047, 0.047, primary="oelm-random")[6:]
    assert primary_of(compare(records)) is None


def test_seeds_that_would_decide_are_counted_where_nothing_is_decided_yet() -> None:
    found = finding(compare(BASELINE + make_arm("oelm", shifted((0.02, 0.03, 0.055)))), "oelm")
    assert (found.verdict, found.more_seeds) == (Verdict.UNDECIDED, 7)
    # 10 seeds with the same mean 0.035 and sd 0.01803: t(9) 2.2622 * 0.01803 / sqrt(10) = 0.0129 < log(1.05) - 0.035
    assert 2.2622 * 0.018028 / math.sqrt(10) < math.log(1.05) - 0.035 < 2.3060 * 0.018028 / math.sqrt(9)
    assert finding(compare(several(0.2)), "oelm").more_seeds is None


def test_the_probability_of_lying_within_the_margin_is_that_of_the_t_distribution() -> None:
    estimate = finding(compare(BASELINE + make_arm("oelm", shifted((0.02, 0.03, 0.055)))), "oelm").estimate
    assert estimate is not None
    assert estimate.within == pytest.approx(stats.t.cdf((math.log(1.05) - 0.035) / (0.0180278 / math.sqrt(3)), 2))
    records = [*finetuned("baseline", ACCURACIES), *finetuned("oelm", (0.70, 0.72, 0.69))]
    estimate = finding(compare(records), "oelm").estimate
    assert estimate is not None
    assert estimate.within is not None
    assert estimate.within < 0.01, "where more is better, within is above"


def test_the_shown_interval_and_the_verdict_agree() -> None:
    for shift in (-0.05, 0.0, 0.02, 0.04, 0.045, 0.05, 0.06, 0.1):
        for found in compare(several(0.2, shift, shift + 0.003, 0.3, primary="oelm")).findings:
            if found.estimate is None or found.estimate.ends is None:
                continue
            lower, upper = found.estimate.ends
            assert (found.verdict is Verdict.INFERIOR) == (lower > 1.05)
            assert (found.verdict in (Verdict.BETTER, Verdict.NON_INFERIOR)) == (upper <= 1.05)


def test_a_primary_that_is_no_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="no arm has the method 'oelm-frame'"):
        compare(several(0.1), primary="oelm-frame")


def test_a_method_under_two_settings_has_no_primary_arm() -> None:
    records = several(0.1) + make_arm("oelm", BASELINE_LOSSES, steps=800)
    assert primary_of(compare(records, primary="oelm")) is None


def test_margins_that_differ_are_refused() -> None:
    roles = [StudyRole(study=name, stage="final", margin=margin) for name, margin in (("a", 1.05), ("b", 1.1))]
    records = make_arm("baseline", BASELINE_LOSSES, study=roles[0]) + make_arm("oelm", BASELINE_LOSSES, study=roles[1])
    with pytest.raises(ConfigError, match=r"different margins \(1.05 and 1.1\)"):
        compare(records)
    assert compare(records, margin=1.05).criterion == 1.05


def test_scatter_is_pooled_over_complete_blocks() -> None:
    comparison = compare(several(0.1, 0.2) + make_arm("oelm-q", {0: 2.6, 1: 2.6, 2: 2.5, 5: 2.7}))
    assert comparison.pooled is not None
    assert (comparison.pooled.seeds, comparison.pooled.left_out) == ((0, 1, 2), (5,))
    assert len(comparison.pooled.arms) == 4
    few = compare(several(0.1, 0.2) + make_arm("oelm-q", {0: 2.6, 1: 2.6}))
    assert few.pooled is not None
    assert "oelm-q" not in few.pooled.arms  # two seeds would leave only two blocks to all others
    assert finding(few, "oelm").pairs == 3


def test_an_unfinished_arm_takes_no_pair_away_from_finished_ones() -> None:
    four = {0: 2.5, 1: 2.6, 2: 2.55, 3: 2.52}
    finished = [
        *make_arm("baseline", four),
        *make_arm("oelm", {seed: loss + 0.1 for seed, loss in four.items()}),
        *make_arm("oelm-core", {seed: loss + 0.2 for seed, loss in four.items()}),
    ]
    unfinished = make_arm("oelm-q", {0: 2.6, 1: 2.7, 2: 2.64})
    assert finding(compare(finished), "oelm").estimate.model is Model.POOLED
    comparison = compare(finished + unfinished)
    assert finding(comparison, "oelm").pairs == 4
    assert finding(comparison, "oelm").estimate.model is Model.PAIRED
    assert finding(comparison, "oelm-q").pairs == 3


def test_with_two_arms_there_is_nothing_to_pool() -> None:
    assert compare(several(0.1)).pooled is None


def test_the_interval_of_the_other_model_is_kept_for_the_eye() -> None:
    estimate = finding(compare(several(0.1, 0.2)), "oelm").estimate
    assert estimate is not None
    assert estimate.model in (Model.PAIRED, Model.POOLED)
    assert estimate.other is not None
    assert estimate.other != estimate.ends


@pytest.mark.parametrize("margin", [1.0, 0.95, float("inf"), float("nan")])
def test_a_margin_that_is_no_ratio_above_one_is_refused(margin: float) -> None:
    with pytest.raises(ConfigError, match="is not a ratio of perplexity above 1"):
        compare(several(0.1), margin=margin)
    with pytest.raises(ConfigError, match="is not a ratio of accuracy above 1 and below 2"):
        compare([*finetuned("baseline", ACCURACIES), *finetuned("oelm", ACCURACIES)], margin=margin)


def test_values_are_those_of_the_last_step_and_the_mean_is_geometric() -> None:
    found = finding(compare(make_arm("oelm", (2.0, 3.0))), "oelm")
    assert list(found.by_seed.values()) == pytest.approx([math.exp(2), math.exp(3)])
    assert found.mean == pytest.approx(math.exp(2.5))
    assert found.also["bits_per_byte"] == pytest.approx(2.5 / math.log(2) / 3.2)
    unknown = make_record(make_config("oelm", 0), 2.5, bytes_per_token=None)
    assert "bits_per_byte" not in finding(compare([unknown]), "oelm").also
    assert finding(compare(make_arm("oelm", (5000.0,))), "oelm").mean == math.inf


# --- accuracy ------------------------------------------------------------------------------------------------------

ACCURACIES = (0.90, 0.91, 0.89)


def test_accuracies_are_compared_as_a_share_and_shown_in_points() -> None:
    comparison = compare([*finetuned("baseline", ACCURACIES), *finetuned("oelm", (0.88, 0.895, 0.87))])
    row = finding(comparison, "oelm")
    assert row.estimate is not None
    assert row.shown is not None
    assert row.shown.value == pytest.approx(100 * (0.88 + 0.895 + 0.87 - 2.70) / 3)
    assert row.estimate.value == pytest.approx((0.88 + 0.895 + 0.87) / 2.70)
    assert row.shown.ends is not None
    assert row.shown.ends[0] < row.shown.value < row.shown.ends[1]
    assert row.mean is not None
    assert row.best_mean == pytest.approx(row.mean + 0.005)
    assert row.examples == EXAMPLES
    assert finding(comparison, "baseline").control is None
    assert comparison.on == "dev"


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.95, 0.96, 0.945), Verdict.BETTER),
        ((0.89, 0.90, 0.885), Verdict.NON_INFERIOR),
        ((0.70, 0.72, 0.69), Verdict.INFERIOR),
        ((0.90, 0.78, 0.89), Verdict.UNDECIDED),
    ],
)
def test_every_verdict_on_accuracies(accuracies: tuple[float, ...], verdict: Verdict) -> None:
    comparison = compare([*finetuned("baseline", ACCURACIES), *finetuned("oelm", accuracies)])
    assert finding(comparison, "oelm").verdict is verdict


def test_the_margin_is_honoured_for_accuracies() -> None:
    records = [*finetuned("baseline", ACCURACIES), *finetuned("oelm", (0.85, 0.86, 0.845))]
    assert compare(records).criterion == 0.95
    assert finding(compare(records), "oelm").verdict is Verdict.UNDECIDED
    assert compare(records, margin=1.15).criterion == 0.85
    assert finding(compare(records, margin=1.15), "oelm").verdict is Verdict.NON_INFERIOR
    role = StudyRole(study="s", stage="final", margin=1.15)
    stated = [each.model_copy(update={"config": each.config.model_copy(update={"study": role})}) for each in records]
    assert compare(stated).criterion == 0.85


def test_a_margin_that_nothing_would_be_judged_by_is_refused() -> None:
    probes = [
        record.model_copy(
            update={
                "task": "probing",
                "result": record.result.model_copy(
                    update={"measures": {"probe_accuracy": 0.9 + record.config.seed / 99}}
                ),
            }
        )
        for method in ("baseline", "oelm")
        for record in make_arm(method, BASELINE_LOSSES)
    ]
    assert compare(probes).criterion == -1.0
    with pytest.raises(ConfigError, match=r"a margin is a ratio, .* of their own: probe_accuracy \(-1\)"):
        compare(probes, margin=1.2)
    with pytest.raises(ConfigError, match="leave out --margin"):
        build_report(probes, margin=1.2)


def test_two_seeds_of_accuracies_give_an_interval_and_no_verdict() -> None:
    row = finding(compare([*finetuned("baseline", ACCURACIES[:2]), *finetuned("oelm", (0.8, 0.8))]), "oelm")
    assert row.estimate is not None
    assert row.estimate.ends is not None
    assert row.verdict is Verdict.NO_VERDICT
    assert row.missing


def test_accuracies_are_a_family_too() -> None:
    records = [
        *finetuned("baseline", ACCURACIES),
        *finetuned("oelm", (0.86, 0.84, 0.87)),
        *finetuned("oelm-random", (0.85, 0.86, 0.85)),
        *finetuned("oelm-q", (0.86, 0.85, 0.86)),
    ]
    role = StudyRole(study="s", stage="final", primary="oelm")
    stated = [each.model_copy(update={"config": each.config.model_copy(update={"study": role})}) for each in records]
    comparison = compare(stated)
    confidences = {found.arm.label: found.estimate.confidence for found in comparison.findings if found.estimate}
    assert confidences["oelm"] == pytest.approx(0.95)
    assert confidences["oelm-random"] > 0.95
    assert primary_of(comparison) == "oelm"


def test_learning_rates_that_differ_are_named_and_equal_ones_are_not() -> None:
    same = compare([*finetuned("baseline", ACCURACIES), *finetuned("oelm", ACCURACIES)])
    other = compare([*finetuned("baseline", ACCURACIES), *finetuned("oelm", ACCURACIES, lr=3e-4)])
    assert finding(same, "oelm").confounds == ()
    assert [(each.kind, each.what) for each in finding(other, "oelm").confounds] == [(ConfoundKind.SETTING, "lr")]


def test_sets_of_unequal_length_are_refused() -> None:
    longer = finetuned("oelm", ACCURACIES, examples=EXAMPLES + 1)
    with pytest.raises(ConfigError, match="dev has 1,000 and 1,001 examples"):
        compare([*finetuned("baseline", ACCURACIES), *longer])


@pytest.mark.parametrize(("control", "arm"), [((0.0,) * 3, (0.0,) * 3), ((0.003, 0.002, 0.002), (0.001, 0.0, 0.0))])
def test_of_a_control_that_has_nothing_right_there_is_no_share(control: tuple, arm: tuple) -> None:
    """Divided by next to nothing, equal runs would be `inferior by 100 %`, or anything."""
    records = [*finetuned("baseline", control), *finetuned("oelm", arm)]
    row = finding(compare(records), "oelm")
    assert (row.verdict, row.withheld) == (Verdict.NO_VERDICT, Withheld.NO_SHARE)
    assert row.estimate is None or row.estimate.ends is None
    assert row.shown is not None, "in points there is a difference"
    assert row.shown.ends is not None
    text = as_markdown(build_report(records))
    assert "next to nothing right" in text
    assert "nan" not in text


def test_the_rate_at_which_the_cosine_ends_follows_from_a_tuned_rate() -> None:
    def tuned(method: str, lr: float, last: float) -> list:
        tuning = Tuning(grid=(1e-3, 2e-3), seed=9, steps=200, runs=2, split="validation", measure="loss")
        records = make_arm(method, BASELINE_LOSSES, study=StudyRole(study="s", stage="final", tuning=tuning), lr=lr)
        optim = records[0].config.optim.model_copy(update={"min_lr_ratio": last / lr})
        return [r.model_copy(update={"config": r.config.model_copy(update={"optim": optim})}) for r in records]

    for last, named in ((1e-4, []), (2e-4, []), (1e-3, ["min_lr_ratio"])):
        row = finding(compare([*tuned("baseline", 1e-3, 1e-4), *tuned("oelm", 2e-3, last)]), "oelm")
        assert [each.what for each in row.confounds if each.kind is ConfoundKind.SETTING] == named


def test_a_loss_of_nothing_is_no_error() -> None:
    """Known answers can be learnt to the last digit."""
    records = [make_record(make_config(method, seed), 0.0) for method in ("baseline", "oelm") for seed in range(3)]
    curves = [tuple(point.model_copy(update={"loss": 0.0}) for point in record.curve) for record in records]
    flat = [record.model_copy(update={"curve": curve}) for record, curve in zip(records, curves, strict=True)]
    assert "oelm" in as_markdown(build_report(flat))


def test_a_measure_whose_title_was_worded_otherwise_is_judged_once() -> None:
    title = PERPLEXITY.title.model_copy(update={"chinese": "又名"})
    reworded = PERPLEXITY.model_copy(update={"title": title})
    oelm = [record.model_copy(update={"measures": (reworded,)}) for record in make_arm("oelm", BASELINE_LOSSES)]
    (comparison,) = compare_arms(group_into_arms([*BASELINE, *oelm]))
    assert finding(comparison, "oelm").pairs == 3
