"""lm-evaluation-harness through its API, where it is installed; a plain refusal where it is not."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from builders import bold_model
from oelm.base.errors import ConfigError
from oelm.config.evaluated import EvaluationRequest, Suite
from oelm.config.methods import METHODS
from oelm.config.model import GPTConfig
from oelm.data.tokenizer import byte_tokenizer, save_tokenizer
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import evaluate
from oelm.exports.model_export import as_transformers, export

INSTALLED = importlib.util.find_spec("lm_eval") is not None
BYTES = GPTConfig(layers=1, width=16, heads=2, ffn_width=16, context=32, vocabulary=257)
PRETRAINED_ONLY = {name for name, method in METHODS.items() if method.pretrained or method.comparator}
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


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="oelm[eval] is not installed")
@pytest.mark.parametrize("method", sorted(METHODS.keys() - PRETRAINED_ONLY))
def test_its_command_line_runs_on_the_export_of_every_method(tmp_path: Path, method: str) -> None:
    """A choice and a generation in batches of two, in a process that has never heard of oelm."""
    save_tokenizer(byte_tokenizer(), tmp_path / "tokenizer.json")
    export(bold_model(method, BYTES).float(), tmp_path / "tokenizer.json", tmp_path / "model")
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, PAIRS)) + "\n")
    shared = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": str(tmp_path / "pairs.jsonl")},
        "test_split": "train",
        "target_delimiter": "",
    }
    choice = {"output_type": "multiple_choice", "doc_to_text": "", "doc_to_choice": "{{[good, bad]}}"}
    written = {"output_type": "generate_until", "doc_to_text": "{{good}}", "doc_to_target": "{{bad}}"}
    (tmp_path / "toy_pairs.yaml").write_text(
        yaml.safe_dump(
            {**shared, **choice, "task": "toy_pairs", "doc_to_target": 0, "metric_list": [{"metric": "acc"}]}
        )
    )
    until = {"until": ["."], "max_gen_toks": 4, "do_sample": False}
    metrics = [{"metric": "exact_match"}]
    (tmp_path / "toy_texts.yaml").write_text(
        yaml.safe_dump({**shared, **written, "task": "toy_texts", "generation_kwargs": until, "metric_list": metrics})
    )
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--tasks", "toy_pairs,toy_texts"]
    command += ["--model_args", f"pretrained={tmp_path / 'model'},trust_remote_code=True,max_length=32"]
    command += ["--include_path", str(tmp_path), "--batch_size", "2", "--device", "cpu"]
    caches = {"HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "sets")}
    done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "toy_pairs" in done.stdout
    assert "exact_match" in done.stdout
