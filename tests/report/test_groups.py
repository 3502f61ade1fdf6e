import math
import subprocess
import sys
import time

import pytest

from oelm.base.errors import ConfigError
from oelm.config.measure import LOSS
from oelm.config.record import Record
from oelm.config.study_role import Choice, ChosenBy, StudyRole, Trial, Tuning
from oelm.report.groups import Report, build_report
from oelm.report.sentences import notes, slope_sentence, trend_caveat
from oelm.report.texts import Language, Texts
from oelm.report.verdicts import Verdict
from oelm.report.write_markdown import as_markdown

from .records import BASELINE_LOSSES, finetuned, make_arm, shifted

SAY = Texts(Language.ENGLISH)
TUNING = Tuning(grid=(3e-4, 1e-3, 3e-3), seed=1000, steps=100, runs=3, split="validation", measure="loss")
FINAL = StudyRole(study="s", stage="final", primary="oelm", margin=1.2, tuning=TUNING)
GRID = StudyRole(study="s", stage="tuning", primary="oelm", margin=1.2)


def study() -> list:
    worse = shifted((0.11, 0.12, 0.10))
    return [
        *make_arm("baseline", BASELINE_LOSSES, lr=1e-3, study=FINAL),
        *make_arm("oelm", worse, lr=3e-3, study=FINAL),
        *make_arm("oelm-random", worse, lr=3e-3, study=FINAL),
        *grid("baseline", {3e-4: 2.8, 1e-3: 2.7}),
        *grid("oelm", {3e-4: 2.9, 1e-3: 2.8, 3e-3: 2.7}),
    ]


def grid(method: str, losses: dict[float, float]) -> list:
    runs = [make_arm(method, {1000: loss}, lr=lr, steps=100, study=GRID) for lr, loss in losses.items()]
    return [record for records in runs for record in records]


def labels(report: Report) -> list[list[str]]:
    return [[arm.label for arm in group.arms] for group in report.groups]


def test_tuning_runs_are_no_arms_and_have_their_own_tables() -> None:
    report = build_report(study())
    assert labels(report) == [["baseline", "oelm", "oelm-random"]]
    baseline, oelm = report.tuning
    assert (baseline.arm, [row.lr for row in baseline.rows]) == ("baseline", [3e-4, 1e-3, 3e-3])
    assert [row.loss for row in baseline.rows] == [2.8, 2.7, None]  # the last one diverged: it has no record
    assert [row.is_chosen for row in baseline.rows] == [False, True, False]
    assert not baseline.at_edge
    assert oelm.at_edge
    assert (oelm.seed, oelm.steps, oelm.measure, oelm.study) == (1000, 100, LOSS, "s")


def test_a_refined_rate_is_shown_beside_the_best_and_checked_against_the_tuning_records() -> None:
    losses = {3e-4: 2.9, 1e-3: 2.8, 3e-3: 2.85}
    trials = tuple(Trial(lr=rate, loss=loss) for rate, loss in losses.items())
    choice = Choice(cell="oelm", lr=1.2e-3, best=1e-3, by=ChosenBy.VERTEX, at_edge=False, trials=trials)
    tuning = TUNING.model_copy(update={"refine": True, "choice": choice})
    final = make_arm("oelm", BASELINE_LOSSES, lr=1.2e-3, study=FINAL.model_copy(update={"tuning": tuning}))
    (table,) = build_report([*final, *grid("oelm", losses)]).tuning
    assert (table.vertex, table.at_edge, table.unlike_records) == (1.2e-3, False, ())
    assert [row.is_chosen for row in table.rows] == [False, True, False]
    (table,) = build_report([*final, *grid("oelm", {**losses, 3e-3: 2.7})]).tuning
    assert table.unlike_records == (3e-3,)


def test_only_tuning_runs_are_an_error() -> None:
    with pytest.raises(ConfigError, match="only tuning runs"):
        build_report([record for record in study() if record.config.study.stage == "tuning"])


def test_margin_and_primary_are_the_studys_unless_given() -> None:
    group = build_report(study()).groups[0]
    assert group.comparisons[0].criterion == 1.2
    assert group.headline is not None
    assert group.headline.is_primary
    assert (group.headline.arm.label, group.headline.verdict) == ("oelm", Verdict.NON_INFERIOR)
    other = build_report(study(), margin=1.05, primary="oelm-random").groups[0].headline
    assert other is not None
    assert (other.arm.label, other.verdict) == ("oelm-random", Verdict.INFERIOR)


def test_experiments_are_told_apart_by_data_size_and_study() -> None:
    records = [
        *make_arm("baseline", BASELINE_LOSSES),
        *make_arm("oelm", BASELINE_LOSSES),
        *make_arm("baseline", BASELINE_LOSSES, digest="b" * 16),
        *make_arm("oelm", BASELINE_LOSSES, digest="b" * 16),
        *make_arm("baseline", BASELINE_LOSSES, width=64),
        *make_arm("oelm", BASELINE_LOSSES, width=64),
    ]
    assert labels(build_report(records)) == [["baseline", "oelm"]] * 3
    longer = [*make_arm("baseline", BASELINE_LOSSES, steps=800), *make_arm("oelm", BASELINE_LOSSES, steps=800)]
    assert [group.study for group in build_report([*study()[:6], *longer]).groups] == ["s", None]


def test_an_arm_without_a_control_of_its_own_joins_the_nearest_one_with_what_differs_named() -> None:
    report = build_report([*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", BASELINE_LOSSES, digest="b" * 16)])
    (group,) = report.groups
    assert [confound.what for confound in group.findings[1].confounds] == ["data"]
    assert group.data == "stories"
    assert labels(build_report(make_arm("oelm", BASELINE_LOSSES))) == [["oelm"]]


def test_a_setting_that_differs_does_not_split_an_experiment() -> None:
    report = build_report([*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", BASELINE_LOSSES, dropout=0.1)])
    (group,) = report.groups
    assert [confound.what for confound in group.findings[1].confounds] == ["dropout"]


def test_a_trend_names_what_else_changes_along_it() -> None:
    def on(data: str, steps: int) -> list:
        settings = {"data": data, "digest": data.ljust(16, "-"), "steps": steps}
        return [*make_arm("baseline", BASELINE_LOSSES, **settings), *make_arm("oelm", BASELINE_LOSSES, **settings)]

    (clean,) = build_report([*on("small", 400), *on("large", 400)]).trends
    assert [row.data for row in clean.rows] == ["small", "large"]
    assert trend_caveat(clean, Texts(Language.ENGLISH)) is None
    (confounded,) = build_report([*on("small", 400), *on("large", 800)]).trends
    assert trend_caveat(confounded, Texts(Language.ENGLISH)) == (
        "Data and size are not all that changes along this trend: steps (400, 800)."
    )
    assert build_report(on("small", 400)).trends == ()


def at_steps(steps: int, gaps: tuple[float, ...], **settings: float | str) -> list:
    control = BASELINE_LOSSES[: len(gaps)]
    arm = make_arm("oelm", shifted(gaps, control), steps=steps, lr=1 / steps, **settings)
    return [*make_arm("baseline", control, steps=steps, **settings), *arm]


def test_a_slope_says_what_every_doubling_changes() -> None:
    """Losses 0.03 further apart with each of two doublings, and scattered by 0.004 around that line."""
    records = [*at_steps(400, (0.1, 0.104, 0.096)), *at_steps(1600, (0.16, 0.164, 0.156))]
    (trend,) = build_report(records).trends
    (slope,) = trend.slopes
    assert (slope.axis, slope.values, slope.pairs) == ("steps", (400, 1600), 6)
    assert slope.estimate.value == pytest.approx(math.exp(0.03))
    # residual variance 4 x 0.004^2 / 4 over sum (x - mean)^2 = 6 gives the error; t(4) at 97.5 % is 2.776
    half = 2.776445 * 0.004 / math.sqrt(6)
    assert slope.estimate.ends == pytest.approx((math.exp(0.03 - half), math.exp(0.03 + half)))
    assert slope_sentence(slope, trend.measure, SAY) == (
        "With every doubling of the steps (400, 1,600) it moves by ×1.030 against its control (95 % interval "
        "1.026 – 1.035, 6 pairs); nothing else differs but learning rates, warm-up and what it was validated on."
    )


def test_steps_that_changed_nothing_are_told() -> None:
    records = [*make_arm("baseline", BASELINE_LOSSES), *make_arm("oelm", BASELINE_LOSSES)]
    skipping = [each.model_copy(update={"skipped_steps": 3 * each.config.seed}) for each in records]
    told = "Steps that changed nothing (overflows in float16, or steps that were refused): 3 with seed 1, 6 with seed 2"
    assert told not in as_markdown(build_report(records))
    assert as_markdown(build_report(skipping)).count(told) == 2


def test_an_arm_whose_only_control_is_shorter_has_no_slope() -> None:
    """It is shown beside that control, as what it is; but a line through it would say something about the control."""
    gaps = (0.1, 0.104, 0.096)
    longer = [record for record in at_steps(1600, gaps) if record.config.method.name == "oelm"]
    report = build_report([*at_steps(400, gaps), *longer])
    assert [confound.what for confound in report.groups[0].findings[-1].confounds][:2] == ["lr", "steps"]
    assert not any(trend.slopes for trend in report.trends)


def test_a_slope_may_lead_to_other_validation_documents() -> None:
    gaps = (0.1, 0.104, 0.096)
    (trend,) = build_report([*at_steps(400, gaps), *at_steps(800, gaps, half="first")]).trends
    assert [slope.pairs for slope in trend.slopes] == [6]
    assert "validation_half" in [name for name, _ in trend.also_differs]


@pytest.mark.parametrize(
    ("axis", "settings", "values"),
    [
        ("weights", ({"width": 64}, {"width": 128}, {"width": 256}), (578_944, 1_157_888, 2_315_776)),
        ("heads", ({"heads": 2}, {"heads": 4}, {"heads": 8}), (2, 4, 8)),
    ],
)
def test_a_slope_is_fitted_along_each_axis(
    axis: str, settings: tuple[dict[str, int], ...], values: tuple[int, ...]
) -> None:
    """0.02 closer with every doubling; of runs that also differ in length, there is none."""
    gaps = [(gap, gap + 0.001, gap - 0.001) for gap in (0.10, 0.08, 0.06)]
    records = [record for gap, size in zip(gaps, settings, strict=True) for record in at_steps(400, gap, **size)]
    (slope,) = (slope for trend in build_report(records).trends for slope in trend.slopes)
    assert (slope.axis, slope.values, slope.pairs) == (axis, values, 9)
    assert slope.estimate.value == pytest.approx(math.exp(-0.02))
    mixed = [*at_steps(400, gaps[0], **settings[0]), *at_steps(800, gaps[1], **settings[1])]
    assert not any(trend.slopes for trend in build_report(mixed).trends)


def test_there_is_no_slope_where_something_else_changes_too() -> None:
    """Nor where nothing does, or where so few pairs say nothing about their scatter."""
    few = (0.1, 0.104)
    many = (0.1, 0.104, 0.096)
    other = {"data": "other", "digest": "other".ljust(16, "-")}
    assert not any(trend.slopes for trend in build_report([*at_steps(400, many), *at_steps(800, many, **other)]).trends)
    assert not any(trend.slopes for trend in build_report([*at_steps(400, few[:1]), *at_steps(800, few)]).trends)
    assert any(trend.slopes for trend in build_report([*at_steps(400, few), *at_steps(800, few)]).trends)


def test_environments_are_listed_once() -> None:
    (row,) = build_report(study()).environments
    assert (row.environment.torch, row.runs) == ("2.13.0", 9)


def test_two_hundred_runs_take_little_time() -> None:
    methods = ["baseline", *(f"oelm+freeze={0.2 + 0.01 * place:.2f}" for place in range(39))]
    records = [record for method in methods for record in make_arm(method, tuple(2.5 + 0.01 * s for s in range(5)))]
    started = time.process_time()
    build_report(records)
    assert time.process_time() - started < 5


def test_a_report_needs_no_torch() -> None:
    code = (
        "import sys\nfrom oelm.config.original_study import original_records\n"
        "from oelm.report.groups import build_report\n"
        "from oelm.report.confounds import planned_confounds\n"
        "records = original_records()\nbuild_report(records)\nplanned_confounds([r.config for r in records])\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_rate_that_its_own_tuning_records_do_not_choose_is_named() -> None:
    final = make_arm("oelm", BASELINE_LOSSES, lr=1e-3, study=FINAL)
    report = build_report([*final, *grid("oelm", {3e-4: 2.9, 1e-3: 2.8, 3e-3: 2.7})])
    assert report.tuning[0].better == 3e-3
    assert "oelm: by its tuning records 3e-3 was better than the rate that was chosen (1e-3)." in notes(report, SAY)
    assert build_report([*final, *grid("oelm", {3e-4: 2.9, 1e-3: 2.7, 3e-3: 2.8})]).tuning[0].better is None


def test_arms_of_one_method_that_differ_in_warm_up_are_checked_against_their_own_tuning_records() -> None:
    """Also while the final runs of one of them are to come."""

    def role(stage: str, cell: str) -> StudyRole:
        return StudyRole(study="s", stage=stage, cell=cell, tuning=TUNING if stage == "final" else None)

    def tried(cell: str, losses: dict[float, float], **settings: float) -> list[Record]:
        rates = [
            make_arm("oelm", {1000: loss}, lr=lr, steps=100, study=role("tuning", cell), **settings)
            for lr, loss in losses.items()
        ]
        return [record for records in rates for record in records]

    short = [
        *make_arm("oelm", BASELINE_LOSSES, lr=1e-3, warmup=20, study=role("final", "oelm")),
        *tried("oelm", {3e-4: 2.9, 1e-3: 2.7, 3e-3: 2.8}, warmup=20),
    ]
    slow = make_arm("oelm", BASELINE_LOSSES, lr=3e-3, warmup=80, study=role("final", "slow"))
    slow_tried = tried("slow", {3e-4: 2.8, 1e-3: 2.7, 3e-3: 2.6}, warmup=80)
    both = {"oelm warmup=20", "oelm warmup=80"}
    for records, arms in (
        ([*short, *slow, *slow_tried], both),
        ([*slow_tried, *slow, *short], both),
        ([*slow_tried, *short], {"oelm", "slow"}),
    ):
        report = build_report(records)
        assert {table.arm: table.better for table in report.tuning} == dict.fromkeys(arms)
        assert report.unchecked == ()
    swapped = [*short, *slow, *tried("slow", {3e-4: 2.5, 1e-3: 2.7, 3e-3: 2.6}, warmup=80)]
    assert [(table.arm, table.better) for table in build_report(swapped).tuning if table.better] == [
        ("oelm warmup=80", 3e-4)
    ]


def test_tuning_records_that_are_not_here_are_named() -> None:
    final = make_arm("oelm", BASELINE_LOSSES, lr=1e-3, study=FINAL)
    (unchecked,) = build_report(final).unchecked
    assert (unchecked.arm, unchecked.rates) == ("oelm", TUNING.grid)
    assert any("cannot be checked" in line for line in notes(build_report(final), SAY))
    (unchecked,) = build_report([*final, *grid("oelm", {3e-4: 2.9, 1e-3: 2.8})]).unchecked
    assert unchecked.rates == (3e-3,), "the best one may be among those that are not here"
    assert build_report([*final, *grid("oelm", {3e-4: 2.9, 1e-3: 2.8, 3e-3: 2.85})]).unchecked == ()


def test_tuning_records_on_other_data_do_not_stand_in_for_those_that_are_not_here() -> None:
    finals = [
        record
        for data, digest in (("stories", "a" * 16), ("wiki", "b" * 16))
        for record in make_arm("oelm", BASELINE_LOSSES, lr=1e-3, study=FINAL, data=data, digest=digest)
    ]
    (unchecked,) = build_report([*finals, *grid("oelm", {3e-4: 2.9, 1e-3: 2.8, 3e-3: 2.85})]).unchecked
    assert unchecked.rates == TUNING.grid


def test_a_trial_whose_record_has_another_value_of_what_was_chosen_by_is_named() -> None:
    def trials(*values: float) -> Tuning:
        tried = tuple(Trial(lr=lr, loss=0.4, value=value) for lr, value in zip(TUNING.grid, values, strict=True))
        choice = Choice(cell="oelm", lr=1e-3, best=1e-3, at_edge=False, trials=tried)
        return TUNING.model_copy(update={"measure": "accuracy", "choice": choice})

    def tuned(lr: float, accuracy: float) -> Record:
        (record,) = finetuned("oelm", (accuracy,), lr=lr, study=GRID)
        result = record.result.model_copy(update={"measures": {**record.result.measures, "accuracy": accuracy}})
        return record.model_copy(update={"result": result.model_copy(update={"loss": 0.4})})

    runs = [tuned(lr, accuracy) for lr, accuracy in zip(TUNING.grid, (0.80, 0.85, 0.81), strict=True)]

    def unlike(tuning: Tuning) -> tuple[float, ...]:
        final = finetuned("oelm", (0.9, 0.91, 0.89), lr=1e-3, study=FINAL.model_copy(update={"tuning": tuning}))
        (table,) = build_report([*final, *runs]).tuning
        return table.unlike_records

    assert unlike(trials(0.80, 0.85, 0.81)) == ()
    assert unlike(trials(0.80, 0.86, 0.81)) == (1e-3,)


def test_several_data_sets_are_one_family() -> None:
    def on(digest: str, data: str) -> list:
        arms = {"baseline": BASELINE_LOSSES, "oelm-q": shifted((0.04, 0.05, 0.06)), "oelm": shifted((0.05, 0.04, 0.06))}
        return [each for method, losses in arms.items() for each in make_arm(method, losses, digest=digest, data=data)]

    report = build_report([record for place in range(3) for record in on(str(place) * 16, f"corpus {place}")])
    findings = [found for group in report.groups for found in group.findings if found.estimate]
    assert len(report.groups) == 3
    assert {round(0.05 / (1 - found.estimate.confidence)) for found in findings if found.estimate} == {6}


def test_arms_of_one_method_go_by_what_was_set_and_by_a_tuned_rate_only_where_nothing_else_differs() -> None:
    role = StudyRole(study="s", stage="final", tuning=TUNING)
    slow = make_arm("oelm", BASELINE_LOSSES, lr=3e-3, warmup=80, study=role)
    short = make_arm("oelm", BASELINE_LOSSES, lr=1e-3, warmup=20, study=role)
    other = make_arm("oelm", BASELINE_LOSSES, lr=3e-3, warmup=20, study=role)
    assert labels(build_report([*slow, *short])) == [["oelm warmup=80", "oelm warmup=20"]]
    assert labels(build_report([*other, *short])) == [["oelm lr=3e-3", "oelm lr=1e-3"]]
    by_hand = [*make_arm("oelm", BASELINE_LOSSES, lr=3e-3, warmup=80), *make_arm("oelm", BASELINE_LOSSES)]
    assert labels(build_report(by_hand)) == [["oelm lr=3e-3 warmup=80", "oelm lr=1e-3 warmup=20"]]
