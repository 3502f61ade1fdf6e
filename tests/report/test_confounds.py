from pathlib import Path

import pytest

from oelm.config.measure import Bilingual
from oelm.config.record import Reported
from oelm.config.study_role import Choice, ChosenBy, StudyRole, Trial, Tuning
from oelm.report.arms import Arm, group_into_arms
from oelm.report.confounds import Confound, ConfoundKind, confounds_between, scale_gaps

from .records import BASELINE_LOSSES, make_arm, make_config, make_record


def one_arm(method: str, losses: tuple[float, ...] | dict[int, float] = BASELINE_LOSSES, **settings) -> Arm:
    (arm,) = group_into_arms(make_arm(method, losses, **settings))
    return arm


CONTROL = one_arm("baseline")


@pytest.mark.parametrize("method", ["oelm", "oelm-random", "oelm-q", "oelm-ffn", "baseline+shift+gain"])
def test_none_is_named_where_there_is_none(method: str) -> None:
    assert confounds_between(one_arm(method), CONTROL) == ()


@pytest.mark.parametrize(
    ("settings", "what", "values"),
    [
        ({"lr": 3e-4}, "lr", ("3e-4", "1e-3")),
        ({"steps": 800}, "steps", ("800", "400")),
        ({"batch_size": 32}, "batch", ("32", "16")),
        ({"dropout": 0.1}, "dropout", ("0.1", "0")),
        ({"style": "llama"}, "style", ("llama", "gpt")),
        ({"digest": "b" * 16}, "data", ("stories-bbbbbb", "stories-aaaaaa")),
    ],
)
def test_a_differing_setting_is_named_exactly(settings: dict, what: str, values: tuple[str, str]) -> None:
    assert confounds_between(one_arm("oelm", **settings), CONTROL) == (Confound(ConfoundKind.SETTING, what, *values),)


def test_another_size_is_named_by_what_differs() -> None:
    found = confounds_between(one_arm("oelm", width=64), CONTROL)
    assert [confound.what for confound in found] == ["width", "ffn_width"]


def test_the_same_batch_in_other_pieces_is_no_confound() -> None:
    records = []
    for seed, loss in enumerate(BASELINE_LOSSES):
        config = make_config("oelm", seed, batch_size=8)
        train = config.train.model_copy(update={"accumulate": 2})
        records.append(make_record(config.model_copy(update={"train": train}), loss))
    assert confounds_between(group_into_arms(records)[0], CONTROL) == ()


def test_unequal_extras_are_named() -> None:
    expected = Confound(ConfoundKind.EXTRAS, "extras", "shift+gain", "none")
    assert confounds_between(one_arm("oelm-core"), CONTROL) == (expected,)
    assert confounds_between(one_arm("oelm-core"), one_arm("baseline+shift+gain")) == ()
    assert confounds_between(one_arm("baseline+shift+gain+core"), CONTROL) == (expected,)


@pytest.mark.parametrize("lever", ["bias", "norm", "gain=2", "thin=3", "qk-lr=0.3"])
def test_what_a_trained_q_and_k_could_carry_is_an_unequal_extra(lever: str) -> None:
    expected = Confound(ConfoundKind.EXTRAS, "extras", lever, "none")
    assert confounds_between(one_arm(f"oelm+{lever}"), CONTROL) == (expected,)
    assert confounds_between(one_arm(f"oelm+{lever}"), one_arm(f"baseline+{lever}")) == ()
    assert confounds_between(one_arm(f"baseline+{lever}"), CONTROL) == (), "it is what is under test"


@pytest.mark.parametrize("lever", ["one-draw", "from=0.1", "tied"])
def test_how_q_and_k_are_drawn_and_frozen_is_the_method(lever: str) -> None:
    assert confounds_between(one_arm(f"oelm+{lever}"), CONTROL) == ()


def test_unequal_seeds_and_a_single_one_are_named() -> None:
    (unequal,) = confounds_between(one_arm("oelm", (2.5, 2.6)), CONTROL)
    assert (unequal.kind, unequal.arm, unequal.control) == (ConfoundKind.SEEDS, "0, 1", "0, 1, 2")
    (single,) = confounds_between(one_arm("oelm", (2.5,)), one_arm("baseline", (2.5,)))
    assert single.kind is ConfoundKind.ONE_SEED


def test_another_build_is_named() -> None:
    records = [make_record(make_config("oelm", seed), 2.5, torch="2.9.0") for seed in range(3)]
    (found,) = confounds_between(group_into_arms(records)[0], CONTROL)
    assert found == Confound(ConfoundKind.ENVIRONMENT, "torch", "2.9.0", "2.13.0")


def test_frozen_weights_that_moved_are_named() -> None:
    records = [make_record(make_config("oelm", seed), 2.5, unchanged=seed != 1) for seed in range(3)]
    (found,) = confounds_between(group_into_arms(records)[0], CONTROL)
    assert found == Confound(ConfoundKind.FREEZE_AUDIT, "oelm", "1")


def with_audit(method: str, **changes) -> Arm:
    """An arm whose second run has another audit."""
    first, second, *rest = make_arm(method, BASELINE_LOSSES)
    assert second.audit is not None
    other = second.model_copy(update={"audit": second.audit.model_copy(update=changes)})
    return group_into_arms([first, other, *rest])[0]


def test_what_is_wrong_with_either_sides_audit_is_named() -> None:
    found = confounds_between(one_arm("oelm"), with_audit("baseline", moved=False))
    assert found == (Confound(ConfoundKind.NOT_TRAINED, "baseline", "1"),)
    assert confounds_between(with_audit("oelm", moved=False), CONTROL) == (
        Confound(ConfoundKind.NOT_TRAINED, "oelm", "1"),
    )
    found = confounds_between(one_arm("oelm"), with_audit("baseline", unchanged=False))
    assert found == (Confound(ConfoundKind.FREEZE_AUDIT, "baseline", "1"),)
    assert confounds_between(with_audit("oelm", unchanged=None), CONTROL) == ()


def in_environment(method: str, **changes) -> Arm:
    records = make_arm(method, BASELINE_LOSSES)
    return group_into_arms(
        [
            each.model_copy(update={"environment": each.environment and each.environment.model_copy(update=changes)})
            for each in records
        ]
    )[0]


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"git_commit": "b" * 40}, ("b" * 12, "None")),
        ({"threads": 4}, ("4", "1")),
        ({"device": "cuda"}, ("cuda", "cpu")),
        ({"preloaded": "libopenblas.so"}, ("libopenblas.so", "none")),
    ],
)
def test_another_commit_or_number_of_threads_is_named(changes: dict, values: tuple[str, str]) -> None:
    (found,) = confounds_between(in_environment("oelm", **changes), CONTROL)
    assert found == Confound(ConfoundKind.ENVIRONMENT, next(iter(changes)), *values)
    assert confounds_between(in_environment("oelm", **changes), in_environment("baseline", **changes)) == ()


def test_a_compiled_arm_against_an_uncompiled_one_is_named() -> None:
    records = make_arm("oelm", BASELINE_LOSSES)
    compiled = [
        each.config.model_copy(update={"machine": each.config.machine.model_copy(update={"compile": True})})
        for each in records
    ]
    arm = group_into_arms(
        [each.model_copy(update={"config": config}) for each, config in zip(records, compiled, strict=True)]
    )[0]
    assert confounds_between(arm, CONTROL) == (Confound(ConfoundKind.ENVIRONMENT, "compile", "True", "False"),)


def test_uncommitted_changes_are_named_even_where_both_sides_have_them() -> None:
    dirty = {"git_commit": "b" * 40, "git_dirty": True}
    found = confounds_between(in_environment("oelm", **dirty), in_environment("baseline", **dirty))
    assert [(each.kind, each.what, each.arm) for each in found] == [
        (ConfoundKind.UNCOMMITTED, "oelm", "0, 1, 2"),
        (ConfoundKind.UNCOMMITTED, "baseline", "0, 1, 2"),
    ]


def gaps(*arms: Arm) -> list[tuple[str, str]]:
    return [(gap.one.label, gap.other.label) for gap in scale_gaps(arms)]


def test_the_scale_of_the_random_ablation_is_named_and_the_matched_one_is_clean() -> None:
    oelm, random, matched = one_arm("oelm"), one_arm("oelm-random"), one_arm("oelm-random-matched")
    assert gaps(CONTROL, oelm, random, matched) == [("oelm", "oelm-random")]
    assert gaps(CONTROL, oelm, matched) == []
    (gap,) = scale_gaps((oelm, random))
    assert gap.one_norm == pytest.approx(1.0)
    assert gap.other_norm == pytest.approx(0.02 * 128**0.5)


def test_arms_that_differ_in_more_than_the_drawing_are_no_ablation() -> None:
    assert gaps(one_arm("oelm"), one_arm("oelm-random", lr=3e-4)) == []
    assert gaps(one_arm("oelm"), one_arm("oelm-random+freeze=q")) == []
    assert gaps(one_arm("orthogonal-trained"), CONTROL) == []


TUNING = Tuning(grid=(3e-4, 1e-3, 3e-3, 1e-2), seed=1000, steps=400, runs=4, split="validation", measure="loss")


def tuned(method: str, lr: float, tuning: Tuning | None = TUNING, seeds: tuple[int, ...] = (0, 1, 2)) -> Arm:
    role = StudyRole(study="s", stage="final", tuning=tuning)
    return one_arm(method, dict(zip(seeds, BASELINE_LOSSES, strict=True)), lr=lr, study=role)


def test_a_differing_rate_is_none_where_both_were_tuned_alike() -> None:
    assert confounds_between(tuned("oelm", 3e-3), tuned("baseline", 1e-3)) == ()


@pytest.mark.parametrize("theirs", [None, "oelm"])
def test_a_differing_rate_is_one_where_only_one_side_was_tuned(theirs: str | None) -> None:
    ours, control = (TUNING, None) if theirs is None else (None, TUNING)
    (found,) = confounds_between(tuned("oelm", 3e-3, ours), tuned("baseline", 1e-3, control))
    assert found == Confound(ConfoundKind.SETTING, "lr", "3e-3", "1e-3")


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"grid": (1e-3, 3e-3, 1e-2, 3e-2)}, ("3e-4 1e-3 3e-3 0.01", "1e-3 3e-3 0.01 0.03")),
        ({"runs": 5}, ("4", "5")),
        ({"steps": 100}, ("400", "100")),
        ({"split": "hold-out"}, ("validation", "hold-out")),
        ({"measure": "accuracy"}, ("loss", "accuracy")),
        ({"seed": 7}, ("1000", "7")),
        ({"split": "validation-half"}, ("validation", "validation-half")),
        ({"extend": 2}, ("0", "2")),
        ({"refine": True}, ("False", "True")),
    ],
)
def test_rates_that_were_tuned_differently_are_named_with_what_differed(change: dict, values: tuple[str, str]) -> None:
    other = TUNING.model_copy(update=change)
    rate = 3e-3 if "grid" in change else 1e-3
    found = confounds_between(tuned("oelm", 3e-3 if rate == 1e-3 else 1e-3), tuned("baseline", rate, other))
    assert [confound.kind for confound in found] == [ConfoundKind.SETTING, ConfoundKind.UNEQUAL_TUNING]
    assert (found[1].what, found[1].arm, found[1].control) == (next(iter(change)), *values)


@pytest.mark.parametrize("change", [{"grid": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)}, {"steps": 800}])
def test_a_wider_or_longer_search_is_named_even_where_it_found_the_same_rate(change: dict) -> None:
    wider = TUNING.model_copy(update=change)
    (found,) = confounds_between(tuned("oelm", 1e-3, wider), tuned("baseline", 1e-3))
    assert (found.kind, found.what) == (ConfoundKind.UNEQUAL_TUNING, next(iter(change)))


def test_a_control_that_was_not_tuned_is_named_even_at_the_same_rate() -> None:
    (found,) = confounds_between(tuned("oelm", 1e-3), tuned("baseline", 1e-3, None))
    assert found == Confound(ConfoundKind.UNEQUAL_TUNING, "grid", "3e-4 1e-3 3e-3 0.01", "none")


def test_a_best_rate_at_the_edge_of_the_grid_is_named_with_its_arm_and_side() -> None:
    (low,) = confounds_between(tuned("oelm", 3e-4), tuned("baseline", 1e-3))
    assert low == Confound(ConfoundKind.LOWEST_OF_GRID, "oelm", "3e-4")
    (high,) = confounds_between(tuned("oelm", 3e-3), tuned("baseline", 1e-2))
    assert high == Confound(ConfoundKind.HIGHEST_OF_GRID, "baseline", "0.01")


def chosen(*rates: float, lr: float, by: ChosenBy) -> Tuning:
    """The tuning of an arm that tried these rates and took one of them, or one between."""
    trials = tuple(Trial(lr=rate, loss=3.0, extension=rate not in TUNING.grid) for rate in rates)
    at_edge = lr in (rates[0], rates[-1])
    choice = Choice(cell="oelm", lr=lr, best=lr, by=by, at_edge=at_edge, trials=trials)
    return TUNING.model_copy(update={"choice": choice, "extend": 2, "refine": True})


def test_arms_under_one_rule_are_tuned_alike_whatever_came_of_it() -> None:
    extended = chosen(1e-4, 3e-4, 1e-3, 3e-3, 1e-2, lr=3e-4, by=ChosenBy.BEST)
    refined = chosen(3e-4, 1e-3, 3e-3, 1e-2, lr=2.2e-3, by=ChosenBy.VERTEX)
    assert confounds_between(tuned("oelm", 3e-4, extended), tuned("baseline", 2.2e-3, refined)) == ()


def test_a_rate_still_at_an_edge_after_the_extensions_is_named() -> None:
    extended = chosen(3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, lr=3e-5, by=ChosenBy.BEST_AT_EDGE)
    refined = chosen(3e-4, 1e-3, 3e-3, 1e-2, lr=2.2e-3, by=ChosenBy.VERTEX)
    (found,) = confounds_between(tuned("oelm", 3e-5, extended), tuned("baseline", 2.2e-3, refined))
    assert found == Confound(ConfoundKind.LOWEST_OF_GRID, "oelm", "3e-5")


@pytest.mark.parametrize(
    ("losses", "rates"),
    [
        ((4.84, 4.92, 4.81, 4.89), ("3e-4", "3e-3")),  # a lower one that is 3 % worse, beyond one that is 12 % worse
        ((4.81, 4.92, 4.95, 4.84), ("3e-4", "0.01")),
        ((4.84, None, 4.81, 4.89), ("3e-4", "3e-3")),  # beyond one that diverged
        ((4.87, 4.92, 4.81, 4.89), None),  # 6 % worse: beyond the margin
        ((4.84, 4.83, 4.81, 4.89), None),  # one minimum, however flat
        ((4.81, 4.81, 4.81, 4.81), None),
        ((4.84, 4.82, 4.81, None), None),
    ],
)
def test_a_second_rate_that_did_nearly_as_well_beyond_a_worse_one_is_named(
    losses: tuple[float | None, ...], rates: tuple[str, str] | None
) -> None:
    trials = tuple(Trial(lr=lr, loss=loss) for lr, loss in zip(TUNING.grid, losses, strict=True))
    choice = Choice(cell="oelm", lr=2e-3, best=3e-3, by=ChosenBy.VERTEX, at_edge=False, trials=trials)
    arm = tuned("oelm", 2e-3, TUNING.model_copy(update={"choice": choice}))
    found = confounds_between(arm, tuned("baseline", 1e-3))
    assert found == ((Confound(ConfoundKind.TWO_MINIMA, "oelm", *rates),) if rates else ())
    by_accuracy = {"choice": choice, "measure": "accuracy"}
    other = tuned("oelm", 2e-3, TUNING.model_copy(update=by_accuracy))
    kinds = [each.kind for each in confounds_between(other, tuned("baseline", 1e-3))]
    assert ConfoundKind.TWO_MINIMA not in kinds


def test_a_seed_of_the_tuning_that_is_used_again_is_named() -> None:
    reused = tuned("oelm", 1e-3, seeds=(0, 1, 1000))
    found = confounds_between(reused, tuned("baseline", 1e-3, seeds=(0, 1, 1000)))
    assert [(confound.kind, confound.what, confound.arm) for confound in found] == [
        (ConfoundKind.TUNING_SEED, "oelm", "1000"),
        (ConfoundKind.TUNING_SEED, "baseline", "1000"),
    ]


def reported(method: str, **changes) -> Arm:
    claim = Reported(study=Bilingual(english="them", chinese="他们"), id="X")
    records = [record.model_copy(update={"reported": claim, **changes}) for record in make_arm(method, BASELINE_LOSSES)]
    return group_into_arms(records)[0]


def test_a_missing_audit_is_named_where_something_was_frozen() -> None:
    found = confounds_between(reported("oelm", audit=None), reported("baseline", audit=None))
    assert [confound.kind for confound in found] == [ConfoundKind.NO_FREEZE_AUDIT]
    assert confounds_between(reported("oelm"), reported("baseline", audit=None)) == ()


@pytest.mark.parametrize(
    ("checkpoint", "kind"), [("best", ConfoundKind.BEST_CHECKPOINT), ("unknown", ConfoundKind.UNKNOWN_CHECKPOINT)]
)
def test_figures_that_are_not_of_the_last_step_are_named(checkpoint: str, kind: ConfoundKind) -> None:
    result = CONTROL.records[0].result.model_copy(update={"checkpoint": checkpoint})
    found = confounds_between(reported("oelm", result=result), reported("baseline"))
    assert [confound.kind for confound in found] == [kind]


def test_every_kind_is_planted_somewhere_in_this_file() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    # Between two frozen arms (`scale_gaps` above) or before the runs: test_planned.py.
    planted_elsewhere = {ConfoundKind.SCALE, ConfoundKind.TWO_SEEDS, ConfoundKind.NO_CONTROL}
    assert all(f"ConfoundKind.{kind.name}" in text for kind in set(ConfoundKind) - planted_elsewhere)


def test_a_tuned_pair_of_ablations_still_shows_its_gap_of_scale() -> None:
    assert gaps(tuned("oelm", 1e-3), tuned("oelm-random", 3e-3)) == [("oelm", "oelm-random")]
