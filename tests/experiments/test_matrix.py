"""Axes expand to runs: all of them, once, paired, and each knows its place in the study."""

from pathlib import Path

import pytest

from experiments.studies import TEXT, planned, study, tuned
from oelm.base.errors import ConfigError
from oelm.config.study_role import Choice, Tuning
from oelm.experiments.matrix import StudyRun
from train.toys import tokens


def finals(folder: Path, text: str, only: tuple[str, ...] = ()) -> list[StudyRun]:
    return planned(study(folder, text), folder, only).final()


def test_arms_and_seeds(tmp_path: Path) -> None:
    runs = finals(tmp_path, TEXT)
    assert [run.name for run in runs] == ["baseline-seed0", "oelm-seed0", "baseline-seed1", "oelm-seed1"]
    assert [run.config.optim.lr for run in runs] == [1e-3, 3e-3, 1e-3, 3e-3]
    assert [run.config.seed for run in runs] == [0, 0, 1, 1]
    assert {run.config.train.steps for run in runs} == {100}
    role = runs[0].config.study
    assert role is not None
    assert (role.study, role.stage, role.primary, role.margin, role.tuning) == ("toy", "final", "oelm", 1.05, None)


def test_every_axis_with_every_other(tmp_path: Path) -> None:
    axes = "axes: {dropout: [0.0, 0.1], warmup_steps: [1, 2, 3]}\nseeds: [0]"
    data = "data:\n  other:\n    source: {kind: stories, count: 50}\n    tokenizer: bytes\n"
    runs = finals(tmp_path, TEXT.replace("seeds: [0, 1]", axes).replace("data:\n", data))
    configs = [run.config for run in runs]
    points = {(c.data.name, c.method.name, c.model.dropout, c.optim.warmup_steps) for c in configs}  # type: ignore[union-attr]
    assert len(runs) == len(points) == len({run.folder for run in runs}) == 2 * 2 * 2 * 3
    assert runs[0].name == "other-baseline-dropout=0.0-warmup_steps=1-seed0"


@pytest.mark.parametrize("wanted", ["oelm", "GPT-02"])
def test_one_arm_by_name_or_id(tmp_path: Path, wanted: str) -> None:
    assert [run.name for run in finals(tmp_path, TEXT, (wanted,))] == ["oelm-seed0", "oelm-seed1"]


def test_an_arm_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no arm 'GPT-03'.*baseline, oelm \(GPT-02\)"):
        finals(tmp_path, TEXT, ("GPT-03",))


def test_tuning_is_the_final_run_in_small_with_a_seed_of_its_own(tmp_path: Path) -> None:
    file = tuned(tmp_path, tokens(), train={"size": "tiny", "steps": 100, "warmup_steps": 20})
    runs = planned(file, tmp_path)
    trials = runs.tuning()
    assert [run.name for run in trials] == [f"{arm}-lr{lr}" for arm in ("baseline", "oelm") for lr in (0.001, 0.01)]
    assert {(run.config.train.steps, run.config.optim.warmup_steps, run.config.seed) for run in trials} == {(50, 10, 9)}
    assert {run.config.study.stage for run in trials if run.config.study} == {"tuning"}
    chosen = runs.final({"oelm": Choice(cell="oelm", lr=1e-2, at_edge=True, trials=())})
    assert {run.config.optim.lr for run in chosen if run.cell.name == "oelm"} == {1e-2}
    assert {run.config.train.steps for run in chosen} == {100}
    role = chosen[0].config.study
    assert role is not None
    assert role.tuning == Tuning(grid=(1e-3, 1e-2), seed=9, steps=50, runs=2, split="validation", measure="loss")
    assert {run.config.fingerprint for run in trials}.isdisjoint({run.config.fingerprint for run in chosen})
    assert {run.config.train.validation_half for run in (*trials, *chosen)} == {None}


def test_a_share_is_a_share_of_the_default_length_too(tmp_path: Path) -> None:
    file = tuned(tmp_path, tokens(), train={"size": "tiny"})
    (first, *_) = planned(file, tmp_path).tuning()
    assert (first.config.train.steps, first.config.optim.warmup_steps) == (500, 25)


def test_a_full_share_is_the_full_run(tmp_path: Path) -> None:
    train = {"size": "tiny", "steps": 100, "warmup_steps": 0}
    file = tuned(tmp_path, tokens(), train=train, tuning={"grid": [1e-3, 1e-2], "share": 1})
    (first, *_) = planned(file, tmp_path).tuning()
    assert (first.config.train.steps, first.config.optim.warmup_steps) == (100, 0)


def test_rates_are_chosen_on_one_half_and_judged_on_the_other(tmp_path: Path) -> None:
    rule = {"grid": [1e-3, 2e-3], "validation": "half", "extend": 1, "refine": True}
    file = tuned(tmp_path, tokens(), tuning=rule)
    runs = planned(file, tmp_path)
    trials = runs.tuning()
    choice = Choice(cell="oelm", lr=1.5e-3, at_edge=False, trials=())
    chosen = runs.final({"oelm": choice})
    assert {run.config.train.validation_half for run in trials} == {"first"}
    assert {run.config.train.validation_half for run in chosen} == {"second"}
    tunings = {run.cell.name: run.config.study.tuning for run in chosen if run.config.study}
    assert tunings["oelm"] is not None
    assert tunings["baseline"] is not None
    assert (tunings["oelm"].split, tunings["oelm"].extend, tunings["oelm"].refine) == ("validation-half", 1, True)
    assert tunings["oelm"].choice == choice
    assert tunings["oelm"] != tunings["baseline"]
    assert tunings["oelm"].rule == tunings["baseline"].rule
