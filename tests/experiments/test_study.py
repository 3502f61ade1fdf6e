"""What is wrong with a study is said with its file, its line and the fix, before anything starts."""

from pathlib import Path

import pytest

from experiments.studies import TEXT, study
from oelm.base.errors import ConfigError
from oelm.config.request import TrainRequest
from oelm.experiments.study import StudyFile

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
    "rate and tuning": ("primary: oelm", f"{TUNING}primary: oelm", 11, r"train\.lr: the learning rates"),
    "rising schedule": ("lr: 1e-3\n", "lr: 1e-3\n  min_lr: 2e-3\n", 12, r"train\.min_lr: 0.002 is above lr, 0.001"),
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
        ("  steps: 100", "  steps: many", 10, r"train\.steps: .*given: 'many'"),
        ("{lr: 3e-3}", "{lr: fast}", 14, r"arms\.1\.settings\.lr: "),
        ("seeds:", "axes: {dropout: [0.1, high]}\nseeds:", 15, r"axes\.dropout: "),
        ("count: 40", "count: none", 4, r"data\.toy\.source\.count: "),
        ("    tokenizer: bytes", "    tokeniser: bytes", 5, r"data\.toy\.tokeniser: unknown key"),
        ("  steps: 100", "  seed: 3", 10, r"train\.seed: the study's own"),
        ("source: {kind: stories, count: 40}\n    tokenizer: bytes", "kind: hub", 3, r"data\.toy: train needs text"),
    ],
)
def test_a_wrong_value_is_traced_to_where_it_is_set(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in TEXT
    with pytest.raises(ConfigError, match=rf"toy\.yaml, line {line}: {words}"):
        study(tmp_path, TEXT.replace(old, new, 1))


def test_an_error_in_the_data_of_a_finetuning_has_its_line(tmp_path: Path) -> None:
    text = """\
title: A toy
data:
  sst2:
    kind: files
    train: {path: train.tsv}
    evaluate: {dev: {path: dev.tsv}}
    columns: {label: label}
finetune: {model: models/minilm}
arms: [oelm]
primary: oelm
"""
    with pytest.raises(ConfigError, match=r"line 7: data\.sst2\.columns\.text: Field required"):
        study(tmp_path, text)
    assert study(tmp_path, text.replace("{label: label}", "{text: sentence}")).study.cells[0].request.lr == 2e-5
    with pytest.raises(ConfigError, match=r"line 8: finetune\.model: Field required"):
        study(tmp_path, text.replace("{label: label}", "{text: sentence}").replace("model: models/minilm", ""))
    from_scratch = text.replace(text[text.index("    kind") : text.index("finetune")], "    vocabulary: 300\n")
    with pytest.raises(ConfigError, match=r"line 3: data\.sst2: finetune needs labelled text"):
        study(tmp_path, from_scratch.replace("    voc", "    source: {kind: stories, text_bytes: 9000}\n    voc"))


def test_a_key_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"toy\.yaml, line 11: the key 'steps' is there already, in line 10"):
        study(tmp_path, TEXT.replace("  steps: 100\n", "  steps: 100\n  steps: 1000\n"))


def test_aliases_may_share_settings_but_not_explode(tmp_path: Path) -> None:
    shared = TEXT.replace("train:", "train: &all", 1).replace("settings: {lr: 3e-3}", "settings: {<<: *all, lr: 3e-3}")
    assert study(tmp_path, shared).study.cells[1].request.lr == 3e-3
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(ConfigError, match=r"toy\.yaml, line \d+: aliases stand for more than 100,000 values"):
        study(tmp_path, bomb + TEXT)
    with pytest.raises(ConfigError, match="aliases stand for more"):
        study(tmp_path, f"title: &me [*me]\n{TEXT}".replace("title: A toy\n", ""))


@pytest.mark.parametrize("depth", [60, 100_000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    with pytest.raises(ConfigError, match="nested"):
        study(tmp_path, TEXT.replace("A toy", "[" * depth + "]" * depth))


def test_the_tuning_seed_may_not_be_used_again(tmp_path: Path) -> None:
    text = TEXT.replace("  lr: 1e-3\n", "").replace(", settings: {lr: 3e-3}", "")
    study(tmp_path, text + "tuning: {grid: [1e-3, 3e-3], seed: 2}\n")
    with pytest.raises(ConfigError, match="1 is also a seed of the final runs"):
        study(tmp_path, text + "tuning: {grid: [1e-3, 3e-3], seed: 1}\n")


def test_no_rate_that_tuning_may_try_lies_below_the_end_of_the_schedule(tmp_path: Path) -> None:
    """An extended grid would find out when half of the study has run."""
    text = TEXT.replace("  lr: 1e-3\n", "  min_lr: 1e-4\n").replace(", settings: {lr: 3e-3}", "")
    grid = "tuning: {grid: [1e-4, 2e-4, 4e-4], extend: 1}\n"
    with pytest.raises(ConfigError, match=r"line 11: train\.min_lr: 0\.0001 is above the lowest rate .* 5e-05"):
        study(tmp_path, text + grid)
    study(tmp_path, text + grid.replace("extend: 1", "extend: 0"))
    lower = text.replace("min_lr: 1e-4", "min_lr: 5e-5") + grid
    assert study(tmp_path, lower).study.tuning is not None
    with pytest.raises(ConfigError, match=r"arms\.1\.settings\.min_lr: 0\.001 is above"):
        study(tmp_path, lower.replace("id: GPT-02", "settings: {min_lr: 1e-3}"))


def test_overrides(tmp_path: Path) -> None:
    changed = ("train.steps=7", "seeds=[3]", "arms.1.settings.lr=1e-2", "axes.dropout=[0.0, 0.1]", "arms.0=oelm-random")
    file = study(tmp_path, TEXT, *changed)
    assert {cell.request.steps for cell in file.study.cells if isinstance(cell.request, TrainRequest)} == {7}
    assert file.study.seeds == (3,)
    assert file.study.axes == {"dropout": (0.0, 0.1)}
    assert [arm.name for arm in file.study.arms] == ["oelm-random", "oelm"]
    assert file.study.chosen(["oelm"])[0].request.lr == 1e-2


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.steps", "is not KEY=VALUE"),
        ("arms.7.method=oelm", "there is no item 7"),
        ("title.long=1", "title"),
        ("seeds.²=1", r"--set seeds\.²: there is no item ²"),
        (f"seeds.{'9' * 5000}=1", r"--set seeds\.9+: there is no item 9+"),
        ("train.widht=3", r"--set train\.widht: .*unknown setting"),
        ("seeds=[0", "not YAML"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        study(tmp_path, TEXT, override)


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1: Input should be a valid dictionary"):
        study(tmp_path, "- one\n- two\n")
    with pytest.raises(ConfigError, match="is empty"):
        study(tmp_path, "# nothing\n")
    with pytest.raises(ConfigError, match="is not YAML"):
        study(tmp_path, "title: [")


def test_a_study_goes_by_its_place(tmp_path: Path) -> None:
    toy = study(tmp_path, TEXT).study
    for path, name in (
        ("experiments/cpu/quick.yaml", "cpu/quick"),
        ("/somewhere/experiments/original/m512.yaml", "original/m512"),
        ("my/own.yaml", "own"),
    ):
        assert StudyFile(Path(path), toy, "").name == name
