"""`oelm eval` on runs and on what transformers reads: one answer, one file, and no silent mixing."""

import json
import math
from pathlib import Path

import pytest

from oelm.base.errors import ConfigError, DataError
from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile, EvaluationRequest, Suite
from oelm.config.run import Precision
from oelm.experiments.evaluated_model import evaluate_models, open_model
from oelm.experiments.trained_run import export_run
from train.processes import started
from train.toys import CPU, tiny_config, tokens, toy_text, trained


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two methods, trained for 20 steps in float64."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("baseline", "oelm-core"):
        trained(tiny_config(method, precision=Precision.FLOAT64, validation_sequences=10_000), folder / method)
    return {method: folder / method for method in ("baseline", "oelm-core")}


def asked(*sources: Path | str, out: Path | None = None, **request: object) -> list[EvaluationFile]:
    wanted = EvaluationRequest.model_validate(request)
    return [found for found, _ in evaluate_models([str(each) for each in sources], wanted, CPU, "last", out)]


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
    written = EvaluationFile.model_validate_json((tmp_path / "oelm-core" / EVALUATION_FILE).read_text())
    assert written == second


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
    assert {"minus", "baseline's"} <= set(done.out.split())
    wrong = started(["eval", str(runs["baseline"]), "--suite=likelyhood"]).ended()
    assert wrong.code == 2
    assert wrong.err.count("\n") == 1
