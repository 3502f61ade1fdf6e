import pytest

from oelm.config.original_study import original_records
from oelm.config.study_role import StudyRole, Tuning
from oelm.report.confounds import ConfoundKind, planned_confounds
from oelm.report.sentences import planned_sentence
from oelm.report.texts import Language, Texts

from .records import make_config

TUNING = Tuning(grid=(3e-4, 1e-3, 3e-3), seed=1000, steps=400, runs=3, split="validation", measure="loss")


def plan(*methods: str, seeds: tuple[int, ...] = (0, 1, 2), **settings) -> list:
    return [make_config(method, seed, **settings) for method in methods for seed in seeds]


def kinds(configs: list) -> list[tuple[str, str, ConfoundKind, str]]:
    return [
        (found.arm, found.control, found.confound.kind, found.confound.what) for found in planned_confounds(configs)
    ]


def final(tuning: Tuning | None = None) -> StudyRole:
    return StudyRole(study="s", stage="final", tuning=tuning)


def test_a_clean_plan_has_none() -> None:
    assert kinds(plan("baseline", "oelm", "oelm-random-matched", "oelm-q")) == []


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"lr": 3e-4}, "lr"), ({"steps": 800}, "steps"), ({"batch_size": 32}, "batch"), ({"dropout": 0.1}, "dropout")],
)
def test_a_setting_that_differs_is_named_before_the_runs(settings: dict, what: str) -> None:
    assert kinds(plan("baseline") + plan("oelm", **settings)) == [("oelm", "baseline", ConfoundKind.SETTING, what)]


def test_one_seed_unequal_extras_and_scale_are_named() -> None:
    assert kinds(plan("baseline", "oelm", seeds=(0,))) == [("oelm", "baseline", ConfoundKind.ONE_SEED, "seeds")]
    assert kinds(plan("baseline", "oelm-core")) == [("oelm-core", "baseline", ConfoundKind.EXTRAS, "extras")]
    (gap,) = planned_confounds(plan("baseline", "oelm", "oelm-random"))
    assert (gap.arm, gap.control, gap.confound.kind) == ("oelm", "oelm-random", ConfoundKind.SCALE)
    assert (gap.confound.arm, gap.confound.control) == ("1.000", "0.226")  # 0.02 sqrt(128)


def test_two_seeds_are_not_called_clean() -> None:
    expected = [("oelm", "baseline", ConfoundKind.TWO_SEEDS, "seeds")]
    assert kinds(plan("baseline", "oelm", seeds=(0, 1))) == expected


def test_an_arm_whose_control_is_not_planned_is_named() -> None:
    expected = [("oelm-core", "baseline+shift+gain", ConfoundKind.NO_CONTROL, "oelm-core")]
    assert kinds(plan("oelm-core")) == expected
    assert kinds(plan("baseline+shift+gain", "oelm-core")) == [], "an equipped baseline is a control itself"


def test_rates_that_will_be_tuned_alike_are_none_whatever_stands_in_for_them() -> None:
    tuned = plan("baseline", study=final(TUNING)) + plan("oelm", lr=3e-4, study=final(TUNING))
    assert kinds(tuned) == []
    by_hand = plan("baseline", study=final()) + plan("oelm", lr=3e-4, study=final())
    assert [what for *_, what in kinds(by_hand)] == ["lr"]


def test_tuning_runs_are_left_out() -> None:
    tuning = plan("baseline", "oelm", seeds=(1000,), steps=100, study=StudyRole(study="s", stage="tuning"))
    assert kinds(tuning + plan("baseline", "oelm", study=final(TUNING))) == []


def test_arms_go_by_the_names_that_are_given() -> None:
    configs = plan("baseline", "oelm", seeds=(0,))
    (found,) = planned_confounds(configs, ["GPT-01", "GPT-02"])
    assert planned_sentence(found).startswith("GPT-02 against GPT-01: one paired seed only")
    assert planned_sentence(found, Texts(Language.CHINESE)).startswith("GPT-02 对 GPT-01：只有一个配对种子")


def test_the_original_study_has_exactly_its_confounds() -> None:
    records = original_records()
    found = planned_confounds([r.config for r in records], [r.reported.id for r in records if r.reported])
    pairs = {
        (each.arm, each.control, each.confound.what)
        for each in found
        if each.confound.kind is not ConfoundKind.ONE_SEED
    }
    differing = [("GPT-02", "GPT-01"), ("GPT-03", "GPT-01"), ("GPT-05", "GPT-04"), ("GPT-07", "GPT-06"),
                 ("XNLI-02", "XNLI-01"), ("SST-2-02", "SST-2-01"), ("MNLI-02", "MNLI-01")]  # fmt: skip
    assert pairs == {*((*pair, "lr") for pair in differing), ("GPT-02", "GPT-03", "scale of Q and K")}
    one_seed = [(each.arm, each.control) for each in found if each.confound.kind is ConfoundKind.ONE_SEED]
    assert one_seed == [("M512-OELM", "M512-GPT"), *differing]
