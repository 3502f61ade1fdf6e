"""Assay sensitivity: a verdict needs a control that has learnt, and where there is a negative one, that it fails."""

import math

import pytest

from oelm.config.record import Record
from oelm.report.arms import group_into_arms
from oelm.report.confounds import ConfoundKind
from oelm.report.findings import Finding, Withheld
from oelm.report.groups import Report, build_report
from oelm.report.sentences import group_remarks
from oelm.report.texts import Language, Texts
from oelm.report.verdicts import Verdict
from oelm.report.write_markdown import as_markdown

from .records import BASELINE_LOSSES, finetuned, make_arm, shifted

ALIKE = shifted((0.001, -0.002, 0.002))


def with_entropy(records: list[Record], entropy: float | None) -> list[Record]:
    return [record.model_copy(update={"answer_entropy": entropy}) for record in records]


def finding(report: Report, label: str) -> Finding:
    return next(found for found in report.groups[0].findings if found.arm.label == label)


def remarks(report: Report) -> str:
    return " ".join(group_remarks(report.groups[0], Texts(Language.ENGLISH)))


def study(entropy: float | None, **arms: tuple[float, ...]) -> Report:
    named = {name.replace("_", "-"): losses for name, losses in arms.items()}
    runs = [*make_arm("baseline", BASELINE_LOSSES), *(each for arm in named.items() for each in make_arm(*arm))]
    return build_report(with_entropy(runs, entropy))


@pytest.mark.parametrize(
    ("entropy", "verdict", "withheld"),
    [
        (5.0, Verdict.NON_INFERIOR, None),
        (2.83, Verdict.NON_INFERIOR, None),  # the worst seed of the control has 2.54: 89.8 %
        (2.82, Verdict.NO_VERDICT, Withheld.NOT_LEARNT),
        (2.55, Verdict.NO_VERDICT, Withheld.NOT_LEARNT),
        (None, Verdict.NON_INFERIOR, None),
    ],
)
def test_a_verdict_needs_a_control_that_has_learnt(
    entropy: float | None, verdict: Verdict, withheld: Withheld | None
) -> None:
    found = finding(study(entropy, oelm=ALIKE), "oelm")
    assert (found.verdict, found.withheld) == (verdict, withheld)


def test_a_run_whose_record_lost_its_entropy_does_not_hide_that_nothing_was_learnt() -> None:
    first, *others = with_entropy(make_arm("baseline", BASELINE_LOSSES), 2.55)
    runs = [*with_entropy([first], None), *others, *with_entropy(make_arm("oelm", ALIKE), 2.55)]
    assert finding(build_report(runs), "oelm").withheld is Withheld.NOT_LEARNT


def test_an_arm_that_has_not_learnt_beside_a_control_that_has_is_a_result() -> None:
    assert finding(study(3.5, oelm=shifted((0.9, 0.91, 0.92))), "oelm").verdict is Verdict.INFERIOR


def test_the_page_says_how_much_was_learnt_and_how_the_last_fifth_went() -> None:
    text = remarks(study(5.0, oelm=ALIKE))
    assert "baseline has learnt: its loss is 50.8 % of that of a prediction that looks at nothing" in text
    assert "over the last fifth of the steps it changed by " in text
    assert "baseline has hardly learnt anything: the loss of its worst run is 99.6 %" in remarks(
        study(2.55, oelm=ALIKE)
    )
    assert "How much baseline has learnt is not known" in remarks(study(None, oelm=ALIKE))
    withheld = as_markdown(study(2.55, oelm=ALIKE))
    assert "of baseline: no verdict, because the control has hardly learnt anything." in withheld
    assert "non-inferior at" not in withheld


def test_the_change_over_the_last_fifth_is_read_off_the_curve() -> None:
    (record,) = make_arm("oelm", (2.5,))  # validated at 100, 200, 300 and 400 steps
    losses = (5.0, 4.0, 3.0, 2.5)
    points = tuple(point.model_copy(update={"loss": loss}) for point, loss in zip(record.curve, losses, strict=True))
    (arm,) = group_into_arms([record.model_copy(update={"curve": points})])
    assert arm.last_fifth == pytest.approx(2.5 / 2.9 - 1)  # 3.0 at step 300, so 2.9 at step 320
    (short,) = group_into_arms([record.model_copy(update={"curve": points[-1:]})])
    assert short.last_fifth is None


def test_what_labels_alone_would_give_follows_from_an_evaluation() -> None:
    (record,) = finetuned("baseline", (0.9,))  # a loss of 0.4 where half of the labels are 1
    (arm,) = group_into_arms([record])
    assert arm.unexplained == pytest.approx(0.4 / math.log(2))
    row = record.evaluations[0].model_copy(update={"measures": {"accuracy": 0.5, "loss": 0.69}})
    guessing = [each.model_copy(update={"evaluations": (row,)}) for each in finetuned("baseline", (0.9, 0.91, 0.89))]
    found = finding(build_report([*guessing, *finetuned("oelm", (0.9, 0.91, 0.89))]), "oelm")
    assert found.withheld is Withheld.NOT_LEARNT


FAILING = shifted((0.30, 0.31, 0.32))


def test_where_the_negative_control_fails_arms_can_be_told_apart() -> None:
    report = study(5.0, oelm=ALIKE, blind=FAILING)
    assert finding(report, "blind").verdict is Verdict.INFERIOR
    assert finding(report, "oelm").verdict is Verdict.NON_INFERIOR
    assert "The negative control blind fails, as it must: this study can tell arms apart." in remarks(report)
    estimate = finding(report, "oelm").estimate
    assert estimate is not None
    assert estimate.confidence == 0.95, "it is no member of the family"


def test_where_it_does_not_fail_that_nothing_shows_says_nothing() -> None:
    report = study(
        5.0,
        oelm=ALIKE,
        oelm_q=FAILING,
        oelm_random=shifted((-0.1, -0.11, -0.12)),
        blind=shifted((0.002, -0.001, 0.001)),
    )
    found = {label: finding(report, label) for label in ("oelm", "oelm-q", "oelm-random", "blind")}
    assert found["oelm"].withheld is Withheld.CANNOT_TELL
    assert found["blind"].withheld is Withheld.CANNOT_TELL
    assert found["oelm-q"].verdict is Verdict.INFERIOR, "a difference that shows was shown"
    assert found["oelm-random"].verdict is Verdict.BETTER
    assert (
        "The negative control blind is not shown to fail at this margin: an arm that keeps within it may be no better."
        in remarks(report)
    )
    assert "no verdict, because the negative control did not fail either." in as_markdown(report)


def test_where_there_is_no_plain_baseline_it_has_to_fail_against_the_equipped_one() -> None:
    equipped = make_arm("baseline+shift+gain", BASELINE_LOSSES)
    arm = make_arm("oelm-lowrank", ALIKE)
    told = build_report([*equipped, *arm, *make_arm("blind", FAILING)])
    assert finding(told, "oelm-lowrank").verdict is Verdict.NON_INFERIOR
    blind = finding(told, "blind")
    assert blind.control is not None
    assert (blind.control.label, blind.verdict) == ("baseline+shift+gain", Verdict.INFERIOR)
    assert not any(confound.kind is ConfoundKind.EXTRAS for confound in blind.confounds), (
        "extras act on its absent logits"
    )
    not_told = build_report([*equipped, *arm, *make_arm("blind", shifted((0.002, -0.001, 0.001)))])
    assert finding(not_told, "oelm-lowrank").withheld is Withheld.CANNOT_TELL
    plain = build_report([*equipped, *arm, *make_arm("blind", FAILING), *make_arm("baseline", BASELINE_LOSSES)])
    control = finding(plain, "blind").control
    assert control is not None
    assert control.label == "baseline"


def test_one_that_could_not_be_held_against_anything_has_not_failed() -> None:
    """Its seeds are others than those of all baselines."""
    elsewhere = [
        record.model_copy(update={"config": record.config.model_copy(update={"seed": record.config.seed + 10})})
        for record in make_arm("blind", FAILING)
    ]
    report = build_report([*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", ALIKE), *elsewhere])
    assert finding(report, "oelm").withheld is Withheld.NO_NEGATIVE
    assert "Without a negative control (`blind`) that has seeds enough for a verdict" in remarks(report)


def test_on_a_measure_that_was_not_taken_of_it_nothing_is_called_harmless() -> None:
    shares = {"baseline": (0.9, 0.91, 0.9), "oelm": (0.9, 0.91, 0.9), "blind": (0.6, 0.61, 0.6)}
    arms = {name: finetuned(name, values) for name, values in shares.items()}
    assert (
        finding(build_report([run for runs in arms.values() for run in runs]), "oelm").verdict is Verdict.NON_INFERIOR
    )
    unasked = [run.model_copy(update={"evaluations": ()}) for run in arms["blind"]]
    report = build_report([*arms["baseline"], *arms["oelm"], *unasked])
    assert finding(report, "oelm").withheld is Withheld.NO_NEGATIVE
    assert "no verdict, because figures of the negative control are missing" in as_markdown(report)


def test_without_one_the_report_says_that_it_is_not_shown() -> None:
    assert "Without a negative control (`blind`) that has seeds enough" in remarks(study(5.0, oelm=ALIKE))


def test_with_too_few_seeds_it_has_neither_failed_nor_not() -> None:
    begun = make_arm("blind", {0: FAILING[0]})
    report = build_report([*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", ALIKE), *begun])
    assert finding(report, "oelm").withheld is Withheld.NO_NEGATIVE
    assert report.groups[0].comparisons[0].can_tell is None


def test_a_control_that_has_not_learnt_hides_no_loss_that_shows() -> None:
    report = study(2.55, oelm=shifted((0.3, 0.31, 0.32)), oelm_random=shifted((-0.3, -0.31, -0.32)))
    assert finding(report, "oelm").verdict is Verdict.INFERIOR
    assert finding(report, "oelm-random").withheld is Withheld.NOT_LEARNT, "it is no yardstick for what is better"
