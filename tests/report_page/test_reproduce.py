import shlex
from pathlib import Path

import pytest

from oelm.config.record import Record
from oelm.config.request import TrainRequest, resolve_on
from oelm.config.run import RunConfig
from oelm.report.arms import group_into_arms
from oelm.report.compose import compose
from oelm.report.content import Section
from oelm.report.groups import Report, build_report, report_runs
from oelm.report.record_files import load_records
from oelm.report.reproduce import arguments_of, commands_of, data_of, needed_settings, prepare_command
from oelm.report.texts import Language
from report.records import make_config

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("record", load_records([RESULTS / "quickstart"]), ids=lambda record: record.method)
def test_the_settings_make_the_very_same_run(record: Record) -> None:
    check(record.config)


def test_unusual_settings_too() -> None:
    config = make_config("oelm-core+until=0.5", 3, lr=3e-4, batch_size=4, width=256, dropout=0.1)
    check(config)
    optim = config.optim.model_copy(update={"min_lr_ratio": 0.1, "warmup_steps": 0, "beta2": 0.99})
    check(config.model_copy(update={"optim": optim}))


def test_a_style_is_named_and_its_usual_ffn_is_not() -> None:
    request = TrainRequest(method="oelm", style="llama", steps=2000)
    config = resolve_on(request, 1024, make_config("oelm", 0).data)
    check(config)
    assert needed_settings(config) == {"method": "oelm", "style": "llama", "steps": 2000}
    assert arguments_of(config)[4:] == ["--method", "oelm", "--style", "llama", "--steps", "2000"]


def check(config: RunConfig) -> None:
    request = TrainRequest(**needed_settings(config), seed=config.seed)
    assert resolve_on(request, config.model.vocabulary, config.data).fingerprint == config.fingerprint


def test_defaults_are_not_repeated() -> None:
    request = TrainRequest(method="oelm", steps=2000)
    config = resolve_on(request, 1024, make_config("oelm", 0).data)
    assert needed_settings(config) == {"method": "oelm", "steps": 2000}
    assert arguments_of(config) == ["oelm", "train", "--data", "data/stories", "--method", "oelm", "--steps", "2000"]


def test_every_option_exists() -> None:
    from typer.main import get_command

    from oelm.cli.main import command_line

    for name, folder in (("train", "quickstart"), ("finetune", "sst2/final")):
        known = {
            option for parameter in get_command(command_line([name])).commands[name].params for option in parameter.opts
        }
        for command in commands_of(group_into_arms(load_records([RESULTS / folder]))):
            words = shlex.split(command.replace(";", " ; "))
            assert words[:5] == ["for", "seed", "in", "0", "1"]
            assert name in words
            assert {word for word in words if word.startswith("--")} <= known


def test_finetuning_has_its_epochs_and_warm_up() -> None:
    config = load_records([RESULTS / "sst2" / "final"])[0].config
    arguments = arguments_of(config)
    epochs = float(arguments[arguments.index("--epochs") + 1])
    share = float(arguments[arguments.index("--warmup-share") + 1])
    per_step = config.train.sequences_per_step
    assert round(epochs * config.data.train_examples / per_step) == config.train.steps
    assert int(share * config.train.steps) == config.optim.warmup_steps


def test_names_are_quoted() -> None:
    config = make_config("oelm", 0)
    evil = config.model_copy(update={"data": config.data.model_copy(update={"folder": "a; rm -rf b"})})
    assert "'a; rm -rf b'" in shlex.join(arguments_of(evil))


@pytest.mark.parametrize(
    "study",
    [
        "cpu/quick",
        "cpu/tinystories",
        "followups/sizes",
        "original/gpt-openwebtext",
        "original/gpt-wikitext103",
        "original/m512",
    ],
)
def test_the_data_of_a_study_is_prepared_by_the_very_same_request(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from oelm.cli.main import command_line
    from oelm.data import prepare
    from oelm.data.prepare_request import PrepareRequest
    from oelm.experiments.study import StudyFile

    class Asked(Exception):
        pass

    def stop(request: PrepareRequest, folder: Path, **_: bool) -> None:
        raise Asked(request, folder)

    monkeypatch.setattr(prepare, "prepare", stop)
    file = ROOT / "experiments" / f"{study}.yaml"
    corpora = StudyFile.read(file).study.data
    for name, data in data_of([file.read_text(encoding="utf-8")]).items():
        words = shlex.split(prepare_command(data, f"tokens/{name}", name) or "")
        done = CliRunner().invoke(command_line(["prepare"]), words[1:])
        assert isinstance(done.exception, Asked), done.output
        assert done.exception.args == (corpora[name], Path("tokens") / name)


def test_what_the_command_cannot_ask_for_is_left_to_the_study() -> None:
    (data,) = data_of(["data: {toy: {source: {kind: stories, count: 30}}}"]).values()
    assert prepare_command(data, "tokens/toy", "toy") is None


@pytest.mark.parametrize(
    "corpus",
    [
        "{source: {kind: [x]}}",
        "{source: {paths: 3}}",
        "{source: {}, valid: x}",
        "{source: {}, valid: {paths: 3}}",
        "{source: {}, tokenizer_files: 3}",
        "{source: 2020-99-99}",
    ],
)
def test_a_corpus_that_no_study_would_describe_so_is_passed_over(corpus: str) -> None:
    assert data_of([f"data: {{toy: {corpus}}}"]) == {}


def test_a_study_is_reproduced_from_its_file() -> None:
    lines = reproduction(report_runs([RESULTS / "tinystories"])).commands
    assert lines[1] == "oelm experiment run study.yaml"
    assert lines[3].startswith("oelm prepare corpora/tinystories/train.txt.xz --out ")
    assert lines[-1] == "oelm report results"
    assert sum(line.startswith("for seed in 0 1 2; do oelm train") for line in lines) == 9
    (listing,) = reproduction(report_runs([RESULTS / "tinystories"])).listings
    assert listing[1] == (RESULTS / "tinystories" / "study.yaml").read_text(encoding="utf-8").strip()


def test_without_a_study_file_the_tokens_are_named() -> None:
    section = reproduction(build_report(load_records([RESULTS / "quickstart"])))
    assert "digest 3709f4f637a4febb" in section.commands[1]
    assert section.listings == ()


def reproduction(report: Report) -> Section:
    return compose(report, Language.ENGLISH, "oelm report results").sections[-1]
