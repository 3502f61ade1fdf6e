import pytest

from oelm.config.model import Style
from oelm.report.arms import group_into_arms, size_name

from .records import make_arm, make_config


def labels(records: list) -> list[str]:
    return [arm.label for arm in group_into_arms(records)]


def test_runs_that_differ_in_seed_are_one_arm_sorted_by_seed() -> None:
    (arm,) = group_into_arms(make_arm("oelm", {2: 2.7, 0: 2.5, 1: 2.6}))
    assert arm.label == "oelm"
    assert arm.seeds == (0, 1, 2)
    assert [record.loss for record in arm.records] == [2.5, 2.6, 2.7]


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


def test_sizes_have_names() -> None:
    assert size_name(make_config("oelm", 0)) == "tiny"
    assert size_name(make_config("oelm", 0, width=64)) == "2x64"
    assert size_name(make_config("oelm", 0, style=Style.LLAMA)) == "tiny llama"
