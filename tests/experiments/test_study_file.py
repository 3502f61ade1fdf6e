"""What is wrong with a study is said with its file, its line and the fix, before anything starts."""

from pathlib import Path

import pytest

from experiments.studies import TEXT, study
from oelm.base.errors import ConfigError
from oelm.experiments.matrix import cells
from oelm.experiments.resolving import resolve_for_plan
from oelm.experiments.study import study_name

TUNING = "tuning: {grid: [1e-3, 3e-3]}\n"

WRONG = {
    "unknown key": ("title: A toy\n", "title: A toy\ncolour: red\n", 2, "colour: unknown key"),
    "unknown setting": ("  width: 16\n", "  widht: 16\n", 8, r"train\.widht: unknown setting"),
    "unknown setting of an arm": ("{lr: 3e-3}", "{lrr: 3e-3}", 14, r"arms\.1\.settings\.lrr: unknown setting"),
    "unknown method": ("  - baseline\n", "  - basline\n", 13, "basline"),
    "no such primary": ("primary: oelm", "primary: oelm-core", 16, "there is no arm 'oelm-core'"),
    "seed twice": ("seeds: [0, 1]", "seeds: [0, 0]", 15, "a seed is listed twice"),
    "an arm twice": ("- baseline", "- baseline\n  - baseline", 12, "two arms are called baseline"),
    "margin": ("primary: oelm", "margin: 0.95\nprimary: oelm", 16, "margin"),
    "rate and tuning": ("primary: oelm", f"{TUNING}primary: oelm", 14, r"arms\.1\.settings\.lr: the learning rates"),
    "both kinds": ("arms:", "finetune: {}\narms:", 1, "either `train`"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    old, new, line, words = WRONG[case]
    assert old in TEXT
    with pytest.raises(ConfigError, match=words) as caught:
        study(tmp_path, TEXT.replace(old, new, 1))
    assert f"toy.yaml, line {line}:" in str(caught.value)
    assert "Fix:" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  steps: 100", "  steps: many", 10, "steps"),
        ("{lr: 3e-3}", "{lr: fast}", 14, "lr"),
        ("seeds:", "axes: {dropout: [0.1, high]}\nseeds:", 15, "dropout"),
    ],
)
def test_a_wrong_value_is_traced_to_where_it_is_set(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    file = study(tmp_path, TEXT.replace(old, new, 1))
    resolve = resolve_for_plan(file, tmp_path)
    with pytest.raises(ConfigError, match=f"line {line}: {words}"):
        [resolve(cell, {}) for cell in cells(file.study)]


def test_wrong_data_is_traced_too(tmp_path: Path) -> None:
    file = study(tmp_path, TEXT.replace("count: 40", "count: none", 1))
    resolve = resolve_for_plan(file, tmp_path)
    with pytest.raises(ConfigError, match=r"toy\.yaml, line 4: .*count"):
        resolve(cells(file.study)[0], {})


def test_the_tuning_seed_may_not_be_used_again(tmp_path: Path) -> None:
    text = TEXT.replace("  lr: 1e-3\n", "").replace(", settings: {lr: 3e-3}", "")
    study(tmp_path, text + "tuning: {grid: [1e-3, 3e-3], seed: 2}\n")
    with pytest.raises(ConfigError, match="1 is also a seed of the final runs"):
        study(tmp_path, text + "tuning: {grid: [1e-3, 3e-3], seed: 1}\n")


def test_overrides(tmp_path: Path) -> None:
    changed = ("train.steps=7", "seeds=[3]", "arms.1.settings.lr=1e-2", "axes.dropout=[0.0, 0.1]", "arms.0=oelm-random")
    file = study(tmp_path, TEXT, *changed)
    assert file.study.shared["steps"] == 7
    assert file.study.seeds == (3,)
    assert file.study.axes == {"dropout": (0.0, 0.1)}
    assert [arm.name for arm in file.study.arms] == ["oelm-random", "oelm"]
    resolve = resolve_for_plan(file, tmp_path)
    assert resolve(cells(file.study, ["oelm"])[0], {}).optim.lr == 1e-2


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.steps", "is not KEY=VALUE"),
        ("arms.7.method=oelm", "there is no item 7"),
        ("title.long=1", "title"),
        ("train.widht=3", r"--set train\.widht: .*unknown setting"),
        ("seeds=[0", "not YAML"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        study(tmp_path, TEXT, override)


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a study"):
        study(tmp_path, "- one\n- two\n")
    with pytest.raises(ConfigError, match="is empty"):
        study(tmp_path, "# nothing\n")
    with pytest.raises(ConfigError, match="is not YAML"):
        study(tmp_path, "title: [")


def test_a_study_goes_by_its_place() -> None:
    assert study_name("experiments/cpu/quick.yaml") == "cpu/quick"
    assert study_name("/somewhere/experiments/original/m512.yaml") == "original/m512"
    assert study_name("my/own.yaml") == "own"
