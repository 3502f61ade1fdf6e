import pytest

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
    assert found == Confound(ConfoundKind.FREEZE_AUDIT, "frozen weights", "1")


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
