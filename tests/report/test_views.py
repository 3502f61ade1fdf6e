import math

import pytest

from oelm.config.measure import ACCURACY, PERPLEXITY
from oelm.report.arms import Arm, group_into_arms
from oelm.report.confounds import ConfoundKind
from oelm.report.study_views import environment_rows
from oelm.report.views import AblationChange, AblationStep, ablation_steps, audit_rows, cost_rows, geometry_rows

from .records import BASELINE_LOSSES, finetuned, make_arm, make_config, make_record, shifted

ARMS = group_into_arms(
    [
        *make_arm("baseline", BASELINE_LOSSES),
        *make_arm("oelm", shifted((0.1, 0.1, 0.1))),
        *make_arm("oelm-random", shifted((0.3, 0.3, 0.3))),
        *make_arm("oelm-random-matched", shifted((0.2, 0.2, 0.2))),
        *make_arm("orthogonal-trained", shifted((-0.1, -0.1, -0.1))),
    ]
)


def steps_of(arms: tuple[Arm, ...]) -> tuple[AblationStep, ...]:
    return ablation_steps(arms, PERPLEXITY, "")


def test_the_decomposition_leads_from_the_control_to_the_random_arm() -> None:
    steps = {step.change: step for step in steps_of(ARMS)}
    assert set(steps) == set(AblationChange)
    logs = {change: math.log(step.estimate.value) for change, step in steps.items() if step.estimate}
    assert logs[AblationChange.FREEZING] == pytest.approx(0.1)
    assert logs[AblationChange.DIRECTION] == pytest.approx(0.1)
    assert logs[AblationChange.SCALE] == pytest.approx(0.1)
    assert logs[AblationChange.DIRECTION_AND_SCALE] == pytest.approx(0.2)
    assert logs[AblationChange.INIT] + logs[AblationChange.FREEZING_ALONE] == pytest.approx(
        logs[AblationChange.FREEZING]
    )
    assert all(step.estimate and step.estimate.ends for step in steps.values())


def test_only_the_step_that_mixes_scale_and_direction_is_confounded() -> None:
    confounded = {step.change: [c.kind for c in step.confounds] for step in steps_of(ARMS) if step.confounds}
    assert confounded == {AblationChange.DIRECTION_AND_SCALE: [ConfoundKind.SCALE]}


def test_a_differing_rate_is_named_at_its_step() -> None:
    arms = group_into_arms([*make_arm("baseline", (2.5,)), *make_arm("oelm", (2.6,), lr=3e-4)])
    (step,) = steps_of(arms)
    assert [confound.what for confound in step.confounds] == ["lr", "seeds"]


def test_costs_are_those_of_the_runs() -> None:
    row = cost_rows(ARMS)[1]
    assert (row.trained_weights, row.frozen_weights) == (1_157_888 - 65_536, 65_536)
    assert (row.run_flops, row.wall_seconds) == (4.8e12, 14.0)


def test_classifiers_are_taken_apart_by_their_own_measure() -> None:
    arms = group_into_arms([*finetuned("baseline", (0.9, 0.91, 0.89)), *finetuned("oelm", (0.88, 0.89, 0.87))])
    (step,) = ablation_steps(arms, ACCURACY, "dev")
    assert step.estimate is not None
    assert step.estimate.value == pytest.approx(0.88 / 0.9)


def slower(method: str, step_seconds: float) -> list:
    return [make_record(make_config(method, seed), 2.5, step_seconds=step_seconds) for seed in range(3)]


@pytest.mark.parametrize(("seconds", "exceeds"), [(0.040, False), (0.0385, False), (0.030, True), (0.050, False)])
def test_a_saving_beyond_the_flop_bound_is_marked(seconds: float, exceeds: bool) -> None:
    arms = group_into_arms([*slower("baseline", 0.040), *slower("oelm", seconds)])
    row = cost_rows(arms)[1]
    assert row.flops_saved_share == pytest.approx(0.05)
    assert row.time_saved_share == pytest.approx(1 - seconds / 0.040)
    assert row.exceeds_bound is exceeds
    assert row.memory_saved_share == pytest.approx(0)
    assert row.validation_share == pytest.approx(1 / 14)


def test_audits_of_frozen_arms_only() -> None:
    rows = audit_rows(ARMS)
    assert [row.arm.label for row in rows] == ["oelm", "oelm-random", "oelm-random-matched"]
    assert all(row.unchanged for row in rows)
    moved = group_into_arms([make_record(make_config("oelm", seed), 2.5, unchanged=seed != 1) for seed in range(3)])
    assert audit_rows(moved)[0].unchanged is False
    unseen = group_into_arms([make_record(make_config("oelm+until=0.5", 0), 2.5, later=65_536)])
    assert audit_rows(unseen)[0].unchanged is None, "nothing was frozen throughout, so nothing was looked at"


def test_geometry_is_the_mean_over_seeds() -> None:
    rows = geometry_rows(ARMS)
    assert [(row.arm.label, row.layer) for row in rows] == [(arm.label, 0) for arm in ARMS]
    assert rows[2].row_norm == pytest.approx(0.02 * 128**0.5)


def test_environments_are_counted() -> None:
    assert [(row.environment.torch, row.runs) for row in environment_rows(ARMS)] == [("2.13.0", 15)]
