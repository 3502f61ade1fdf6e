"""lm-evaluation-harness through its API, where it is installed; a plain refusal where it is not."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml

from builders import bold_model
from oelm.base.errors import ConfigError
from oelm.config.evaluated import EvaluationRequest, Suite
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import evaluate
from oelm.exports.model_export import as_transformers

INSTALLED = importlib.util.find_spec("lm_eval") is not None
BYTES = GPTConfig(layers=1, width=16, heads=2, ffn_width=16, context=32, vocabulary=257)
PAIRS = [{"good": f"cat {number} runs", "bad": f"cat run {number}s"} for number in range(12)]


def language_model(method: str, *, exported: bool = False) -> LanguageModel:
    module = bold_model(method, BYTES).float()
    return LanguageModel(
        name="toy",
        module=as_transformers(module, 256) if exported else module,
        tokenizer=byte_tokenizer(),
        context=32,
        end_of_text=256,
    )


@pytest.mark.skipif(INSTALLED, reason="it is installed")
def test_without_it_the_fix_is_named() -> None:
    request = EvaluationRequest(suites=(Suite.HARNESS,), tasks=("blimp",))
    with pytest.raises(ConfigError, match=r"needs lm-evaluation-harness.*oelm\[eval\]"):
        evaluate(language_model("baseline"), request)


@pytest.mark.skipif(not INSTALLED, reason="oelm[eval] is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("method", ["baseline", "oelm-core"])
def test_its_figures_are_ours(tmp_path: Path, method: str, exported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(map(json.dumps, PAIRS)) + "\n")
    task = {
        "task": "toy_pairs",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": str(file)},
        "test_split": "train",
        "output_type": "multiple_choice",
        "doc_to_text": "",
        "doc_to_choice": "{{[good, bad]}}",
        "doc_to_target": 0,
        "target_delimiter": "",
        "metric_list": [{"metric": "acc"}],
    }
    (tmp_path / "toy_pairs.yaml").write_text(yaml.safe_dump(task))
    model = language_model(method, exported=exported)
    request = EvaluationRequest(
        suites=(Suite.HARNESS, Suite.CHOICES), tasks=("toy_pairs",), task_folder=str(tmp_path), items=(str(file),)
    )
    theirs, ours = (answer.result for answer in evaluate(model, request))
    assert theirs.evaluation.name == "toy_pairs"
    assert theirs.evaluation.measures["acc"] == pytest.approx(ours.evaluation.measures["choice_accuracy"])
    with pytest.raises(ConfigError, match="has no task nothing"):
        evaluate(model, request.model_copy(update={"tasks": ("nothing",)}))
