import math

import pytest

from oelm.report.arms import group_into_arms

from .records import make_arm, make_config, make_record


def labels(records: list) -> list[str]:
    return [arm.label for arm in group_into_arms(records)]


def test_runs_that_differ_in_seed_are_one_arm_sorted_by_seed() -> None:
    (arm,) = group_into_arms(make_arm("oelm", {2: 2.7, 0: 2.5, 1: 2.6}))
    assert arm.label == "oelm"
    assert arm.losses == {0: 2.5, 1: 2.6, 2: 2.7}
    assert list(arm.losses) == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lr": 3e-4}, ["oelm lr=1e-3", "oelm lr=3e-4"]),
        ({"steps": 800}, ["oelm steps=400", "oelm steps=800"]),
        ({"batch_size": 32}, ["oelm batch=16", "oelm batch=32"]),
        ({"dropout": 0.1}, ["oelm dropout=0", "oelm dropout=0.1"]),
        ({"digest": "b" * 16}, ["oelm data=stories-aaaaaa", "oelm data=stories-bbbbbb"]),
    ],
)
def test_two_settings_under_one_name_are_two_arms_told_apart(settings: dict, expected: list[str]) -> None:
    assert labels(make_arm("oelm", (2.5,)) + make_arm("oelm", (2.6,), **settings)) == expected


def test_a_lone_setting_is_not_spelled_out() -> None:
    assert labels(make_arm("oelm", (2.5,)) + make_arm("baseline", (2.6,), lr=3e-4)) == ["oelm", "baseline"]


def test_one_method_under_two_spellings_is_one_arm() -> None:
    records = make_arm("oelm-random-matched", {0: 2.5}) + make_arm("oelm-random+matched", {1: 2.6})
    assert labels(records) == ["oelm-random-matched"]
    neighbour = make_arm("oelm-random-matched", {0: 2.5}) + make_arm("oelm-random", {1: 2.6})
    assert labels(neighbour) == ["oelm-random-matched", "oelm-random"]


def test_the_last_step_is_the_result_and_the_mean_is_geometric() -> None:
    (arm,) = group_into_arms(make_arm("oelm", (2.0, 3.0)))
    assert arm.perplexities == pytest.approx((math.exp(2), math.exp(3)))
    assert arm.mean_perplexity == pytest.approx(math.exp(2.5))
    assert arm.bits_per_byte == pytest.approx(2.5 / math.log(2) / 3.2)


def test_bits_per_byte_need_the_bytes() -> None:
    record = make_record(make_config("oelm", 0), 2.5, bytes_per_token=None)
    assert group_into_arms([record])[0].bits_per_byte is None


def test_a_loss_gone_wild_does_not_overflow() -> None:
    (arm,) = group_into_arms(make_arm("oelm", (5000.0,)))
    assert arm.mean_perplexity == math.inf
