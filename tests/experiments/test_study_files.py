"""The studies that come with the project: all can be planned from nothing, and say what they are said to say."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oelm.cli.experiment import plan
from oelm.config.labelled_data import HubTask, LabelledData
from oelm.config.methods import control_of, parse_method
from oelm.config.model import GPTConfig, HuggingFaceModel
from oelm.config.original_study import original_record, original_records
from oelm.config.record import WeightCounts
from oelm.config.run import RunConfig
from oelm.data.labelled_hub import LABELLED_SETS
from oelm.experiments.matrix import StudyRun, StudyRuns
from oelm.experiments.resolving import resolve_for_plan, training_set
from oelm.experiments.study import Study, StudyFile
from oelm.experiments.study_plan import planned_counts
from oelm.report.arms import choose_control, differing_settings, is_of_method, planned_arms
from oelm.report.confounds import planned_confounds

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments"
STUDIES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.yaml"))
FAIR = [name for name in STUDIES if name.startswith("fair/")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no corpus, no model and no run is, and where nothing can be fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))


@cache
def opened(name: str) -> StudyFile:
    return StudyFile.read(FOLDER / f"{name}.yaml")


def study(name: str) -> Study:
    return opened(name).study


@cache
def planned(name: str) -> tuple[list[StudyRun], list[StudyRun]]:
    file = opened(name)
    resolve = resolve_for_plan(file.study, Path("tokens"))
    runs = StudyRuns(file.study, file.name, Path("runs"), resolve, file.study.cells)
    return runs.tuning(), runs.final()


def counts(config: RunConfig) -> WeightCounts | None:
    short = config.train.model_copy(update={"steps": 1000})  # all calendars here are shares of a run, or periods
    return planned_counts(config.model_copy(update={"train": short}))


@pytest.mark.parametrize("name", STUDIES)
def test_it_can_be_planned_without_data(name: str) -> None:
    tuning, final = planned(name)
    assert len({run.folder for run in (*tuning, *final)}) == len(tuning) + len(final)
    assert {run.cell.data for run in final} == study(name).data.keys()
    for config in {run.cell.name: run.config for run in final}.values():
        known = counts(config)
        if known is None:
            assert isinstance(config.model, HuggingFaceModel)
            assert config.model.source.startswith(("models/", "runs/"))  # local folders, which are not here
        else:
            assert known.trained > 0
    assert study(name).margin == 1.05


@pytest.mark.parametrize("name", STUDIES)
def test_it_names_no_place_of_one_machine(name: str) -> None:
    assert not re.search(r"(?<![\w.>\]/])[/~]\w", (FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def test_the_readme_lists_every_study_with_its_runs() -> None:
    said = {}
    for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines():
        cells_of_line = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`([\w/-]+)`", cells_of_line[0])
        if len(cells_of_line) == 3 and re.match(r"\d", cells_of_line[2]):
            folder = names[0].partition("/")[0]
            numbers = [int(number) for number in re.findall(r"\d+", cells_of_line[2])]
            said |= {f"{folder}/{each.removeprefix(f'{folder}/')}": numbers for each in names}
    assert said == {name: [len(runs) for runs in planned(name) if runs] for name in STUDIES}


WITH_T5 = {"cpu/seq2seq", "followups/encoder-decoder", "followups/summarisation"}


@pytest.mark.parametrize("name", [name for name in STUDIES if "original" not in name])
def test_it_has_a_negative_control_wherever_there_can_be_one(name: str) -> None:
    """T5 looks somewhere by its bias of distances, whatever becomes of Q and K."""
    methods = [arm.method for arm in study(name).arms]
    assert ("blind" in methods) == (name not in WITH_T5)
    assert study(name).primary != "blind"


# --- the original ------------------------------------------------------------------------------------------------

# The runs that the original reported, by study; its ablations of SST-2 and MNLI have no figures.
ORIGINAL = {
    "m512": ["M512-GPT", "M512-OELM"],
    "gpt-tinystories": ["GPT-01", "GPT-02", "GPT-03"],
    "gpt-openwebtext": ["GPT-04", "GPT-05"],
    "gpt-wikitext103": ["GPT-06", "GPT-07"],
    "bert-xnli": ["XNLI-01", "XNLI-02"],
    "bert-sst2": ["SST-2-01", "SST-2-02", None],
    "bert-mnli": ["MNLI-01", "MNLI-02", None],
}


def test_the_original_is_there_and_is_a_reproduction() -> None:
    assert sorted(f"original/{name}" for name in ORIGINAL) == [name for name in STUDIES if name.startswith("original/")]
    for name, ids in ORIGINAL.items():
        file = study(f"original/{name}")
        assert (file.kind, len(file.seeds), file.tuning) == ("reproduction", 1, None)
        assert [arm.id for arm in file.arms] == ids
    reported = [record.reported.id for record in original_records() if record.reported]
    assert sorted(run for ids in ORIGINAL.values() for run in ids if run) == sorted(reported)


@pytest.mark.parametrize("name", ORIGINAL)
def test_each_run_has_the_settings_of_the_record_of_the_original(name: str) -> None:
    """All that the reports or the script state; of BERT the epochs, all of whose examples are trained on."""
    for run in planned(f"original/{name}")[1]:
        record = original_record(run.cell.arm.id)
        if record is None:
            assert run.config.method.name == "oelm-random"
            continue
        assert record.reported is not None
        differs = set(differing_settings(run.config, record.config)) - set(record.reported.unstated)
        if name == "bert-sst2":  # with a short batch at the end of each epoch it is a step more
            assert (run.config.train.steps, record.config.train.steps) == (6314, 6315)
            differs.remove("train.steps")
        assert {path for path in differs if not path.startswith(("data.", "model."))} == set()
        assert problem(run.config) == problem(record.config)
        if "seed" not in record.reported.unstated:
            assert run.config.seed == record.config.seed == 42


def problem(config: RunConfig) -> object:
    """The size of the model, or its name and the length of the texts."""
    return config.model if isinstance(config.model, GPTConfig) else (config.model.source, config.data.max_length)


@pytest.mark.parametrize("name", ORIGINAL)
def test_each_value_of_the_original_says_where_it_comes_from(name: str) -> None:
    """Data, settings, arms, seeds, primary arm and margin: beside it, or in the comment above it."""
    text = (FOLDER / f"original/{name}.yaml").read_text(encoding="utf-8")
    above = ""
    for line in text[text.index("\ndata:") :].splitlines():
        if re.match(r" *(- \{|\w[\w-]*: *[^ #])", line):
            assert re.search(r"# .*\b(report|script|not stated)\b", line) or re.search(r"# (report|script)", above), (
                line
            )
        above = line


def test_epochs_and_the_checkpoint_of_the_original_bert() -> None:
    for name, validated_on in {"bert-xnli": "validation", "bert-sst2": "dev", "bert-mnli": "matched"}.items():
        for run in planned(f"original/{name}")[1]:
            assert isinstance(run.config.model, HuggingFaceModel)
            assert not run.config.model.train_biases
            assert study(f"original/{name}").finetune["epochs"] == 3
            assert run.config.optim.warmup_steps == run.config.train.steps // 10
            assert isinstance(run.config.data, LabelledData)
            assert (run.config.data.validate_on, run.config.best_by.name) == (validated_on, "accuracy")
            examples = LABELLED_SETS[name.removeprefix("bert-")].train_examples
            assert (run.config.data.train_examples, run.config.data.holdout_examples) == (examples, 0)


# --- as it should have been --------------------------------------------------------------------------------------


def test_each_comparison_of_the_original_has_a_fair_one() -> None:
    compared = [name.removeprefix("original/") for name in STUDIES if name.startswith("original/")]
    assert sorted([*FAIR, "m512"]) == sorted([*(f"fair/{name}" for name in compared if name != "m512"), "m512"])
    for name in FAIR:
        assert study(name).data.keys() == study(name.replace("fair", "original")).data.keys()


def role_of(config: RunConfig) -> dict[str, Any]:
    """The place of a run in its study, whatever arm it is of."""
    assert config.study is not None
    return config.study.model_dump(mode="json", exclude={"cell", "is_primary"})


@pytest.mark.parametrize("name", FAIR)
def test_a_fair_study_treats_all_arms_alike(name: str) -> None:
    fair = study(name)
    methods = {arm.method: parse_method(arm.method) for arm in fair.arms}
    assert fair.kind == "confirmation"
    assert len(fair.seeds) == 5
    assert fair.tuning is not None
    assert not any(arm.settings for arm in fair.arms)
    original = study(name.replace("fair", "original"))
    assert {float(arm.settings["lr"]) for arm in original.arms} <= set(fair.tuning.grid)
    assert fair.primary in [arm.method for arm in original.arms]
    assert "oelm-random-matched" in methods
    assert "oelm-random" not in methods
    for method in methods.values():
        assert control_of(method) in methods
    if fair.finetune is None:
        assert "baseline+shift+gain" in methods
    else:
        assert {"keep", "oelm-qr", "oelm-qr+matched", "oelm-polar+matched"} <= methods.keys()
    final = planned(name)[1]
    same = {"method": final[0].config.method, "seed": 0, "study": final[0].config.study}
    assert len({json.dumps(role_of(run.config), sort_keys=True) for run in final}) == 1
    assert len({run.config.model_copy(update=same).model_dump_json() for run in final}) == 1


@pytest.mark.parametrize("name", ["cpu/open-questions", "cpu/open-questions-longer"])
def test_the_small_versions_of_the_follow_ups_hold_every_arm_against_a_control_under_equal_settings(name: str) -> None:
    """In one file, so that one set of baseline runs serves all questions."""
    arms = planned_arms([run.config for run in planned(name)[1]])
    assert len(arms) == len(study(name).arms)
    for arm in arms:
        control = choose_control(arm, arms)
        if control is None:
            assert arm.method.name == "baseline"
        else:
            differing = [path for path in differing_settings(arm.config, control.config) if not is_of_method(path)]
            assert differing == [], arm.label
            fair = control_of(arm.method)
            assert control.method.name == ("baseline" if fair == arm.method.name else fair)


def test_the_small_versions_of_the_follow_ups_ask_what_these_ask() -> None:
    """The longer one is about arms of the first, on other seeds."""
    methods = {arm.method for arm in study("cpu/open-questions").arms}
    for name in ("freeze-ratios", "layer-lr"):
        asked = {arm.method for arm in study(f"followups/{name}").arms}
        assert asked - {"oelm+freeze=0.075"} <= methods, name  # Q/K only: `oelm` under the original's name
    longer = study("cpu/open-questions-longer")
    assert {arm.method for arm in longer.arms} < methods
    assert not set(longer.seeds) & set(study("cpu/open-questions").seeds)


# --- counts ------------------------------------------------------------------------------------------------------

MEDIUM_512 = {
    "baseline": (44_896_768, 0, 0),
    "oelm": (41_751_040, 3_145_728, 0),
    "oelm-random-matched": (41_751_040, 3_145_728, 0),
    "oelm-frame": (41_751_136, 0, 3_145_728),
    "oelm-lowrank": (41_849_440, 0, 3_145_728),
    "oelm-core": (41_947_744, 1_572_864, 1_572_864),
}


def test_counts_of_medium_512() -> None:
    by_method = {run.config.method.name: counts(run.config) for run in planned("fair/gpt-tinystories")[1]}
    for method, expected in MEDIUM_512.items():
        known = by_method[method]
        assert known is not None
        assert (known.trained, known.frozen, known.absent) == expected


def test_counts_of_bert() -> None:
    baseline, frozen = (counts(run.config) for run in planned("original/bert-xnli")[1])
    assert baseline is not None
    assert frozen is not None
    assert (baseline.trained, baseline.frozen) == (109_484_547, 0)
    assert (frozen.stored, frozen.trained, frozen.frozen) == (109_484_547, 95_310_339, 14_174_208)


# Published sizes of the models, and of the head that is put on top of each.
@pytest.mark.parametrize(
    ("model", "base", "head"),
    [
        ("google-bert/bert-base-uncased", 109_482_240, 2 * 769),
        ("bert-large-uncased", 335_141_888, 2 * 1025),
        ("roberta-base", 124_055_040, 768 * 769 + 2 * 769),
        ("openai-community/gpt2", 124_439_808, 2 * 768),
        ("t5-small", 60_506_624, 512 * 513 + 2 * 513),
        ("facebook/bart-base", 139_420_416, 768 * 769 + 2 * 769),
    ],
)
def test_a_model_of_the_hub_is_counted_before_it_is_fetched(model: str, base: int, head: int) -> None:
    known = planned_counts(_config(model))
    assert known is not None
    assert known.stored == base + head


def test_a_model_that_nobody_knows_is_not_counted() -> None:
    assert planned_counts(_config("somebody/gpt2")) is None


def _config(model: str) -> RunConfig:
    bert = planned("original/bert-sst2")[1][0].config
    assert isinstance(bert.model, HuggingFaceModel)
    return bert.model_copy(update={"model": bert.model.model_copy(update={"source": model})})


def test_the_sets_of_the_hub_have_their_published_sizes() -> None:
    """By a plan; a run counts what it reads, and orders its classes by the alphabet."""
    found = {name: training_set(HubTask(name=name)) for name in LABELLED_SETS}
    assert {name: (len(labels), count) for name, (labels, count) in found.items()} == {
        "sst2": (2, 67_349),
        "mnli": (3, 392_702),
        "xnli": (3, 392_702),
        "ag-news": (4, 120_000),
        "imdb": (2, 25_000),
        "stsb": (0, 5_749),
        "xsum": (0, 204_045),
    }
    assert all(list(labels) == sorted(labels) for labels, _ in found.values())


def confounds(name: str) -> set[tuple[str, str, str]]:
    """What a plan warns of: (arm, the other arm, what differs)."""
    final = planned(name)[1]
    found = planned_confounds([run.config for run in final], [run.cell.arm.id or run.cell.name for run in final])
    return {(each.arm, each.control, each.confound.kind.value + ":" + each.confound.what) for each in found}


LR, ONE_SEED, SCALE = "setting:lr", "one-seed:seeds", "scale:scale of Q and K"
ORIGINAL_CONFOUNDS = {
    "original/m512": {("M512-OELM", "M512-GPT", ONE_SEED)},
    "original/gpt-tinystories": {
        *(("GPT-02", "GPT-01", what) for what in (LR, ONE_SEED)),
        *(("GPT-03", "GPT-01", what) for what in (LR, ONE_SEED)),
        ("GPT-02", "GPT-03", SCALE),
    },
    "original/gpt-openwebtext": {("GPT-05", "GPT-04", what) for what in (LR, ONE_SEED)},
    "original/gpt-wikitext103": {("GPT-07", "GPT-06", what) for what in (LR, ONE_SEED)},
    "original/bert-xnli": {("XNLI-02", "XNLI-01", what) for what in (LR, ONE_SEED)},
    "original/bert-sst2": {(arm, "SST-2-01", what) for arm in ("SST-2-02", "oelm-random") for what in (LR, ONE_SEED)},
    "original/bert-mnli": {(arm, "MNLI-01", what) for arm in ("MNLI-02", "oelm-random") for what in (LR, ONE_SEED)},
}


@pytest.mark.parametrize("name", ORIGINAL_CONFOUNDS)
def test_a_plan_of_the_original_names_exactly_its_confounds(name: str) -> None:
    assert confounds(name) == ORIGINAL_CONFOUNDS[name]


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith(("fair/", "followups/"))])
def test_a_fair_plan_has_none(name: str) -> None:
    assert confounds(name) == set()


def test_the_command_names_a_style_that_is_not_the_usual_one(capsys: pytest.CaptureFixture[str]) -> None:
    study = FOLDER / "original/gpt-tinystories.yaml"
    plan([study], settings=["train.style=llama"], tflops=60.0)
    text = " ".join(capsys.readouterr().out.split())
    assert "style" in text
    assert f"{50257 * 512 + 6 * (4 * 512**2 + 3 * 512 * 1376) + 13 * 512:,}" in text
    plan([study], tflops=60.0)
    assert "llama" not in capsys.readouterr().out


def test_the_command_prints_counts_and_confounds_to_the_digit(capsys: pytest.CaptureFixture[str]) -> None:
    plan([FOLDER / "original/gpt-tinystories.yaml", FOLDER / "original/bert-mnli.yaml"], tflops=60.0)
    text = " ".join(capsys.readouterr().out.split())
    for count in ("44,896,768", "41,751,040 3,145,728", "109,484,547", "95,310,339 14,174,208"):
        assert count in text
    assert "oelm against baseline: lr differs (1e-3 against 3e-4)" in text
    assert "rows of Q and K have norm 1.000 and 0.453" in text
