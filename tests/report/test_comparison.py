import pytest

from oelm.base.errors import ConfigError
from oelm.config.study import StudyRole
from oelm.report.comparison import Comparison, Finding, MissingRuns, compare
from oelm.report.statistics import IntervalKind, Verdict

from .records import BASELINE_LOSSES, make_arm, make_config, make_record, shifted

BASELINE = make_arm("baseline", BASELINE_LOSSES)
FAIR = make_arm("baseline+shift+gain", shifted((-0.05, -0.06, -0.05)))
CORE = make_arm("oelm-core", BASELINE_LOSSES)


def finding(comparison: Comparison, label: str) -> Finding:
    return next(found for found in comparison.findings if found.arm.label == label)


def control_label(records: list, label: str) -> str | None:
    control = finding(compare(records), label).control
    return control.label if control else None


def test_the_fair_control_has_the_same_extras() -> None:
    records = BASELINE + FAIR + CORE + make_arm("oelm", BASELINE_LOSSES)
    assert control_label(records, "oelm-core") == "baseline+shift+gain"
    assert control_label(records, "oelm") == "baseline"


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
    assert not lone.is_reference


def test_another_task_is_never_a_control() -> None:
    other = [make_record(make_config("baseline", seed), 0.5, task="classification") for seed in range(3)]
    assert control_label(other + CORE, "oelm-core") is None


def test_baselines_are_references_and_a_baseline_with_extras_is_compared_with_the_plain_one() -> None:
    comparison = compare(BASELINE + FAIR)
    assert finding(comparison, "baseline").is_reference
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


def several(*shifts: float) -> list:
    """A baseline and arms about so far above it."""
    methods = ("oelm", "oelm-random", "oelm-q", "orthogonal-trained")
    return BASELINE + [
        record
        for place, (method, by) in enumerate(zip(methods, shifts, strict=False))
        for record in make_arm(method, shifted(tuple(by + each for each in NOISE[place % 3])))
    ]


def test_the_primary_arm_is_tested_uncorrected_and_the_others_after_holm() -> None:
    comparison = compare(several(0.047, 0.047, 0.047), primary="oelm")
    confidences = {
        found.arm.label: found.estimate.interval.confidence
        for found in comparison.findings
        if found.estimate and found.estimate.interval
    }
    assert confidences["oelm"] == 0.95
    assert {confidences["oelm-random"], confidences["oelm-q"]} == {1 - 0.05 / 2}
    assert comparison.primary is not None
    assert comparison.primary.arm.label == "oelm"
    assert compare(several(0.047, 0.047, 0.047)).primary is None


def test_the_shown_interval_and_the_verdict_agree() -> None:
    for shift in (-0.05, 0.0, 0.02, 0.04, 0.045, 0.05, 0.06, 0.1):
        for found in compare(several(0.2, shift, shift + 0.003, 0.3), primary="oelm").findings:
            if found.estimate is None or found.estimate.interval is None:
                continue
            interval = found.estimate.interval
            assert (found.verdict is Verdict.INFERIOR) == (interval.lower > 1.05)
            assert (found.verdict in (Verdict.BETTER, Verdict.NON_INFERIOR)) == (interval.upper <= 1.05)


def test_a_primary_that_is_no_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="no arm has the method 'oelm-frame'"):
        compare(several(0.1), primary="oelm-frame")


def test_a_method_under_two_settings_has_no_primary_arm() -> None:
    records = several(0.1) + make_arm("oelm", BASELINE_LOSSES, steps=800)
    assert compare(records, primary="oelm").primary is None


def test_margins_that_differ_are_refused() -> None:
    roles = [StudyRole(study=name, stage="final", margin=margin) for name, margin in (("a", 1.05), ("b", 1.1))]
    records = make_arm("baseline", BASELINE_LOSSES, study=roles[0]) + make_arm("oelm", BASELINE_LOSSES, study=roles[1])
    with pytest.raises(ConfigError, match=r"different margins \(1.05 and 1.1\)"):
        compare(records)
    assert compare(records, margin=1.05).margin == 1.05


def test_scatter_is_pooled_over_complete_blocks() -> None:
    comparison = compare(several(0.1, 0.2) + make_arm("oelm-q", {0: 2.6, 1: 2.6, 2: 2.5, 5: 2.7}))
    assert comparison.blocks is not None
    assert (comparison.blocks.seeds, comparison.blocks.left_out) == ((0, 1, 2), (5,))
    assert len(comparison.blocks.arms) == 4
    few = compare(several(0.1, 0.2) + make_arm("oelm-q", {0: 2.6, 1: 2.6}))
    assert few.blocks is not None
    assert "oelm-q" not in few.blocks.arms  # two seeds would leave only two blocks to all others
    assert finding(few, "oelm").estimate.pairs == 3  # type: ignore[union-attr]


def test_with_two_arms_there_is_nothing_to_pool() -> None:
    assert compare(several(0.1)).blocks is None


def test_an_interval_of_the_other_kind_stands_beside() -> None:
    estimate = finding(compare(several(0.1, 0.2)), "oelm").estimate
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.beside is not None
    assert {estimate.interval.kind, estimate.beside.kind} == set(IntervalKind)
    assert estimate.beside.confidence == estimate.interval.confidence
