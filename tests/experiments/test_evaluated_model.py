"""`oelm eval` on runs and on what transformers reads: one answer, one file, and no silent mixing."""

import gzip
import json
import math
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from oelm.base.errors import CheckpointError, ConfigError, DataError
from oelm.cli.main import command_line
from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile, EvaluationRequest, Suite
from oelm.config.run import Precision
from oelm.experiments import evaluated_model
from oelm.experiments.ask_models import as_options
from oelm.experiments.evaluated_model import evaluate_models, is_answered, open_model, unfinished_steps
from oelm.experiments.study import Study
from oelm.experiments.trained_run import export_run
from oelm.report.groups import build_report
from oelm.report.record_files import load_records
from oelm.report.write_markdown import as_markdown
from oelm.train.folder import RunFolder
from oelm.train.provenance import environment
from train.processes import started
from train.toys import CPU, tiny_config, tokens, toy_text, trained


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two methods, trained for 20 steps in float64."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("baseline", "oelm-core"):
        trained(
            tiny_config(method, precision=Precision.FLOAT64, validation_sequences=10_000, validate_every=20),
            folder / method,
        )
    return {method: folder / method for method in ("baseline", "oelm-core")}


def asked(*sources: Path | str, out: Path | None = None, **request: object) -> list[EvaluationFile]:
    wanted = EvaluationRequest.model_validate(request)
    return [found for found, _ in evaluate_models([str(each) for each in sources], wanted, CPU, out)]


def figures(found: EvaluationFile) -> dict[str, float]:
    return found.results[0].evaluation.measures


def test_with_a_whole_stride_it_is_the_runs_own_validation(runs: dict[str, Path]) -> None:
    """But for the last, incomplete window, which training leaves out: so only whole ones are asked for."""
    record = json.loads((runs["oelm-core"] / "record.json").read_text())
    windows = (len(open_tokens()) - 1) // 16
    (found,) = asked(runs["oelm-core"], stride=16, most_tokens=16 * windows + 1)
    assert figures(found)["text_loss"] == pytest.approx(record["result"]["loss"], rel=1e-9)
    assert figures(found)["text_perplexity"] == pytest.approx(math.exp(record["result"]["loss"]), rel=1e-9)
    assert figures(found)["text_bits_per_byte"] == pytest.approx(record["result"]["measures"]["bits_per_byte"])


def test_a_run_is_asked_about_its_own_half(tmp_path: Path) -> None:
    """Not about the documents on which its learning rate was chosen."""
    config = tiny_config("oelm", validation_sequences=10_000)
    on_second = config.model_copy(update={"train": config.train.model_copy(update={"validation_half": "second"})})
    own = trained(on_second, tmp_path / "run")
    (found,) = asked(tmp_path / "run", stride=16)
    assert found.results[0].settings["half"] == found.requests[0].half == "second"
    assert figures(found)["text_loss"] == pytest.approx(own.loss, rel=1e-3)
    assert is_answered(tmp_path / "run", EvaluationRequest(stride=16))
    (other,) = asked(tmp_path / "run", stride=16, half="first")
    (whole,) = asked(tmp_path / "run", stride=16, texts=(str(tokens()),))
    halves = [(each.results[0].count, figures(each)["text_loss"]) for each in (found, other)]
    mean = sum(count * loss for count, loss in halves) / sum(count for count, _ in halves)
    assert figures(whole)["text_loss"] == pytest.approx(mean, rel=1e-3)
    assert own.loss != pytest.approx(halves[1][1], rel=1e-3), "the other half"
    assert "half" not in whole.results[0].settings


def test_data_that_have_changed_are_not_its_own(tmp_path: Path) -> None:
    data = tmp_path / "tokens"
    shutil.copytree(tokens(), data)
    config = tiny_config("oelm")
    trained(config.model_copy(update={"data": config.data.model_copy(update={"folder": str(data)})}), tmp_path / "run")
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["valid"]["sha256"] = "0" * 64
    (data / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="has changed since this run was configured"):
        asked(tmp_path / "run")


def open_tokens() -> bytes:
    return (tokens() / "valid.bin").read_bytes()[::2]


@pytest.mark.parametrize("method", ["baseline", "oelm-core"])
def test_an_export_answers_as_its_run(runs: dict[str, Path], method: str, tmp_path: Path) -> None:
    export_run(runs[method], tmp_path / "exported")
    (own,), (exported,) = asked(runs[method]), asked(tmp_path / "exported", texts=(str(tokens()),))
    assert figures(exported) == pytest.approx(figures(own), rel=1e-9)
    assert exported.digest != own.digest
    assert (tmp_path / "exported" / EVALUATION_FILE).is_file()


def test_text_and_its_tokens_agree(runs: dict[str, Path], tmp_path: Path) -> None:
    """Raw text differs from its token files by the end-of-text before the first document only."""
    file = tmp_path / "some.txt"
    file.write_text("the cat sees a red house.\n<|endoftext|>\nit runs home.\n")
    text = open_model(str(runs["baseline"])).model
    (found,) = asked(runs["baseline"], texts=(str(file),))
    # Of the last document, only the line break before a separator is dropped.
    expected = [256, *b"the cat sees a red house.", 256, *b"it runs home.\n", 256]
    assert found.results[0].count == len(expected) - 1
    assert text.end_of_text == 256
    assert found.results[0].settings["text_bytes"] == len(expected) - 3
    assert found.results[0].evaluation.name == "some"


def test_two_models_are_paired_and_written(runs: dict[str, Path], tmp_path: Path) -> None:
    first, second = asked(runs["baseline"], runs["oelm-core"], out=tmp_path)
    (pair,) = second.paired
    assert first.paired == ()
    assert pair.difference == pytest.approx(figures(second)["text_loss"] - figures(first)["text_loss"])
    assert pair.lower is not None
    assert pair.lower < pair.difference < (pair.upper or 0)
    text = (tmp_path / "oelm-core" / EVALUATION_FILE).read_text()
    assert EvaluationFile.model_validate_json(text) == second
    assert (second.model, pair.against) == (".../oelm-core", ".../baseline")
    assert str(tmp_path.parent) not in text, "a path names a machine or a person"


def test_a_second_evaluation_adds_to_the_first(runs: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.write_text(toy_text(50))
    asked(runs["baseline"], out=tmp_path)
    asked(runs["baseline"], out=tmp_path, texts=(str(file),), stride=16)
    asked(runs["baseline"], out=tmp_path, texts=(str(file),), stride=8)
    written = EvaluationFile.model_validate_json((tmp_path / EVALUATION_FILE).read_text())
    assert [result.evaluation.name for result in written.results] == ["toy", "other"]
    assert written.results[1].settings["stride"] == 8
    asked(runs["oelm-core"], out=tmp_path)
    written = EvaluationFile.model_validate_json((tmp_path / EVALUATION_FILE).read_text())
    assert [result.suite for result in written.results] == [Suite.LIKELIHOOD]


def test_last_and_best_are_both_kept(runs: dict[str, Path], tmp_path: Path) -> None:
    for checkpoint in ("last", "best"):
        asked(runs["baseline"], out=tmp_path, checkpoint=checkpoint, suites=("attention",))
    written = EvaluationFile.model_validate_json((tmp_path / EVALUATION_FILE).read_text())
    assert [result.evaluation.checkpoint for result in written.results] == ["last", "best"]


def test_two_sets_of_one_name_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    files = [tmp_path / folder / "some.txt" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text("the cat sees a red house.")
    with pytest.raises(ConfigError, match=r"two sets are called 'some'.*different names"):
        asked(runs["baseline"], texts=tuple(map(str, files)))
    valid, test = tmp_path / "wiki.valid.txt", tmp_path / "wiki.test.txt.gz"
    valid.write_text("the cat sees a red house.")
    test.write_bytes(gzip.compress(b"it runs home."))
    (found,) = asked(runs["baseline"], out=tmp_path, texts=(str(valid), str(test)))
    assert [result.evaluation.name for result in found.results] == ["wiki.valid", "wiki.test"]


def test_an_answer_keeps_the_environment_that_gave_it(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is added to later does not speak for what was asked before."""
    here = environment(CPU)
    for commit, suite in (("a" * 40, Suite.ATTENTION), ("b" * 40, Suite.LIKELIHOOD)):
        at_commit = here.model_copy(update={"git_commit": commit})
        monkeypatch.setattr("oelm.experiments.evaluated_model.environment", lambda _, at=at_commit: at)
        asked(runs["baseline"], out=tmp_path, suites=(suite,))
    written = EvaluationFile.model_validate_json((tmp_path / EVALUATION_FILE).read_text())
    commits = {each.suite: each.environment.git_commit for each in written.results if each.environment}
    assert commits == {Suite.ATTENTION: "a" * 40, Suite.LIKELIHOOD: "b" * 40}


def test_what_cannot_be_asked_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"reads at most 16 tokens.*--window 16"):
        asked(runs["baseline"], window=17)
    with pytest.raises(DataError, match="no folder nowhere"):
        asked("nowhere")
    export_run(runs["baseline"], tmp_path / "exported")
    with pytest.raises(ConfigError, match=r"no text of its own.*--text FILE"):
        asked(tmp_path / "exported")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(DataError, match="no text"):
        asked(runs["baseline"], texts=(str(empty),))


def test_the_command(runs: dict[str, Path]) -> None:
    done = started(["eval", str(runs["baseline"]), str(runs["oelm-core"]), "--device=cpu", "--stride=4"]).ended()
    assert (done.code, done.err) == (0, "")
    assert "by tokens seen" in done.out
    assert "perplexity on text" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert lines.count(["set", "measure", "baseline", "oelm-core", "count"]) == 1
    assert ["oelm-core", "minus", "baseline"] in lines
    wrong = started(["eval", str(runs["baseline"]), "--suite=likelyhood"]).ended()
    assert wrong.code == 2
    assert wrong.err.count("\n") == 1


ITEMS = [{"good": "the cat sees.", "bad": "the cat see."}, {"good": "it runs home.", "bad": "it runs homes."}]


@pytest.fixture(scope="module")
def asked_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms of three seeds that were asked about text and pairs."""
    folder = tmp_path_factory.mktemp("asked")
    items = folder / "pairs.jsonl"
    items.write_text("\n".join(map(json.dumps, 20 * ITEMS)))
    for method in ("baseline", "oelm"):
        for seed in range(3):
            run = folder / "runs" / f"{method}-{seed}"
            trained(tiny_config(method, seed=seed), run)
            asked(run, suites=("likelihood", "choices"), items=(str(items),))
    return folder / "runs"


def test_answers_are_compared_as_measures(asked_runs: Path) -> None:
    report = build_report(load_records([asked_runs]))
    comparisons = {(each.measure.name, each.on): each for each in report.groups[0].comparisons}
    assert list(comparisons) == [("perplexity", ""), ("text_perplexity", "toy"), ("choice_accuracy", "pairs")]
    for each in comparisons.values():
        assert each.findings[1].pairs == 3
        assert each.findings[1].estimate is not None
        assert each.findings[1].estimate.ends is not None
    assert comparisons["choice_accuracy", "pairs"].findings[1].examples == 40
    assert report.groups[0].headline is not None
    assert report.groups[0].headline.measure.name == "perplexity"
    page = as_markdown(report, whole=True)
    assert "perplexity on text" in page
    assert "right choices" in page


def test_answers_to_different_questions_are_not_compared(asked_runs: Path, tmp_path: Path) -> None:
    shutil.copytree(asked_runs, tmp_path / "runs")
    asked(tmp_path / "runs/oelm-1", stride=1)
    with pytest.raises(ConfigError, match=r"not asked the same about toy \(window 16, stride .*ask all of them again"):
        build_report(load_records([tmp_path / "runs"]))


def test_a_file_of_another_run_is_refused(asked_runs: Path, tmp_path: Path) -> None:
    for name, source in (("record.json", "baseline-0"), (EVALUATION_FILE, "baseline-1")):
        (tmp_path / name).write_bytes((asked_runs / source / name).read_bytes())
    with pytest.raises(CheckpointError, match=r"is of another run.*evaluate the run again"):
        load_records([tmp_path])
    (tmp_path / EVALUATION_FILE).write_text("{")
    with pytest.raises(CheckpointError, match=r"cannot read.*take it away"):
        load_records([tmp_path])


def test_what_a_run_was_asked_before_its_end_is_not_taken_for_its_result(tmp_path: Path) -> None:
    config, run = tiny_config("oelm", save_every=5), tmp_path / "run"
    trained(config, run)
    (run / "record.json").unlink()
    shutil.rmtree(run / "checkpoint" / "step-00000020")
    (early,) = asked(run)
    assert early.results[0].evaluation.step == RunFolder(run).saved_step < 20
    assert unfinished_steps(run / EVALUATION_FILE) == f"step {RunFolder(run).saved_step} of 20"
    trained(config, run, resume=True)
    (record,) = load_records([run])
    assert not record.evaluations
    assert not is_answered(run, EvaluationRequest())
    (late,) = asked(run)
    assert (late.results[0].evaluation.step, unfinished_steps(run / EVALUATION_FILE)) == (20, None)
    assert is_answered(run, EvaluationRequest())
    (taken,) = load_records([run])[0].evaluations
    assert (taken.measures, taken.step) == (figures(late), 20)
    assert figures(late) != figures(early)


def test_what_was_asked_is_known(asked_runs: Path) -> None:
    run, items = asked_runs / "oelm-0", str(asked_runs.parent / "pairs.jsonl")
    assert is_answered(run, EvaluationRequest(suites=("likelihood", "choices"), items=(items,)))
    assert not is_answered(run, EvaluationRequest())
    assert not is_answered(run, EvaluationRequest(suites=("likelihood", "choices"), items=(items,), stride=3))
    best = EvaluationRequest(suites=("likelihood", "choices"), items=(items,), checkpoint="best")
    assert not is_answered(run, best)


def test_a_request_as_options_is_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a study asks in another process."""
    values = {
        "suites": ("likelihood", "choices", "harness"), "texts": ("a.txt", "b c.txt"), "items": ("x.jsonl", "y.jsonl"),
        "half": "second", "checkpoint": "best", "window": 9, "stride": 3, "tasks": ("one", "two"), "task_folder": "t",
        "sequences": 5, "judge": "j", "tokens": 7, "temperature": 0.5, "top_k": 3, "top_p": 0.9,
        "repetition_penalty": 1.5, "seed": 4, "batch_size": 2, "most_tokens": 99,
    }  # fmt: skip
    assert values.keys() == EvaluationRequest.model_fields.keys()
    wanted, found = EvaluationRequest.model_validate(values), list[EvaluationRequest]()
    monkeypatch.setattr(evaluated_model, "evaluate_models", lambda _, request, *__: found.append(request) or ())
    words = ["eval", "run", "--device", "cpu", *as_options(wanted)]
    CliRunner().invoke(command_line(words), words, catch_exceptions=False)
    assert found == [wanted]


STUDY = {
    "title": "A toy",
    "data": {"toy": {"tokens": "tokens"}},
    "train": {},
    "arms": ["baseline", "oelm"],
    "primary": "oelm",
    "evaluate": {"suites": ["likelihood", "probes"]},
}


def test_a_study_may_ask() -> None:
    study = Study.model_validate(STUDY)
    assert study.evaluate is not None
    assert study.evaluate.suites == (Suite.LIKELIHOOD, Suite.PROBES)
    with pytest.raises(ValueError, match="needs the weights"):
        Study.model_validate({**STUDY, "keep_checkpoints": False})
    with pytest.raises(ValueError, match="only language models of text"):
        Study.model_validate({**STUDY, "data": {"hops": {"kind": "probe", "probe": "copy", "length": 4}}})
    with pytest.raises(ValueError, match="choices and its files belong together"):
        Study.model_validate({**STUDY, "evaluate": {"suites": ["choices"]}})


@pytest.mark.slow
def test_a_study_asks_every_finished_model_once(tmp_path: Path) -> None:
    small = {"layers": 1, "width": 16, "heads": 2, "steps": 20, "seq_len": 16, "lr": 1e-2, "device": "cpu"}
    file = tmp_path / "toy.yaml"
    text = {**STUDY, "data": {"toy": {"tokens": str(tokens())}}, "train": {**small, "validation_sequences": 8}}
    text = {**text, "seeds": [0], "evaluate": {"suites": ["likelihood", "attention"]}}
    file.write_text(yaml.safe_dump(text, sort_keys=False))
    command = ["experiment", "run", str(file), "--on=cpu", f"--out-dir={tmp_path / 'out'}"]
    first = started([*command, f"--results={tmp_path / 'kept'}"]).ended()
    assert (first.code, first.err) == (0, "")
    assert "evaluation: 2 models" in first.out
    again = started(command).ended()
    assert "evaluation: 0 models" in again.out
    kept = sorted(path.parent.name for path in (tmp_path / "kept").rglob(EVALUATION_FILE))
    assert kept == ["baseline-seed0", "oelm-seed0"]
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["evaluate"]["suites"] == ["likelihood", "attention"]
