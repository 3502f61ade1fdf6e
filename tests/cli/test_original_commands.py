"""The commands of the original's reports, pasted: each gives its model and its settings, field by field.

Only data and length are made small: byte tokens of a toy text under the name of the corpus, a few steps at width 16.
"""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from oelm.config.manifest import DataManifest
from oelm.config.model import GPTConfig
from oelm.config.original_study import original_record
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.config.settings import flattened
from oelm.data.prepare_request import PrepareRequest
from oelm.data.tokens import read_manifest
from oelm.experiments.study import StudyFile
from oelm.model.ledger import count_weights
from oelm.train.folder import RunFolder
from train.processes import started
from train.toys import tokens

ROOT = Path(__file__).resolve().parents[2]

# id: the command as it stands in the reports, without the interpreter and the script's name
COMMANDS = {
    run: f"--model_type {kind} --dataset {data} --max_lr {rate} --max_steps {steps} --out_dir out "
    "--val_interval 1000 --use_amp"
    for run, kind, data, rate, steps in (
        ("GPT-01", "baseline", "tinystories", "3e-4", 100000),
        ("GPT-02", "oelm_v2", "tinystories", "1e-3", 100000),
        ("GPT-03", "oelm_random", "tinystories", "1e-3", 100000),
        ("GPT-04", "baseline", "openwebtext", "3e-4", 150000),
        ("GPT-05", "oelm_v2", "openwebtext", "1e-3", 150000),
        ("GPT-06", "baseline", "wikitext103", "3e-4", 200000),
        ("GPT-07", "oelm_v2", "wikitext103", "1e-3", 200000),
    )
}
# What the reports or the training script state for each of these, typed here from the original's documents and not read
# from the records, which the command itself takes its defaults from.
STATED = {
    "model.kind": "gpt",
    "model.layers": 6,
    "model.width": 512,
    "model.heads": 8,
    "model.ffn_width": 2048,
    "model.context": 512,
    "model.dropout": 0.1,
    "method.scale": "as-original",
    "optim.schedule": "cosine",
    "optim.warmup_steps": 1000,
    "optim.min_lr_ratio": 0.0,
    "optim.weight_decay": 0.01,
    "optim.decay": "all",
    "optim.beta1": 0.9,
    "optim.beta2": 0.999,
    "optim.clip": 1.0,
    "train.batch_size": 8,
    "train.accumulate": 1,
    "train.precision": "float16",
    "train.validate_every": 1000,
    "machine.save_every": 5000,
    "seed": 42,
}
# of each id: the rate, the steps, how Q and K are drawn, trained weights of 44,896,768
STATED_OF_RUN = {
    "GPT-01": (0.0003, 100_000, "normal", 44_896_768),
    "GPT-02": (0.001, 100_000, "headwise-orthogonal", 41_751_040),
    "GPT-03": (0.001, 100_000, "normal", 41_751_040),
    "GPT-04": (0.0003, 150_000, "normal", 44_896_768),
    "GPT-05": (0.001, 150_000, "headwise-orthogonal", 41_751_040),
    "GPT-06": (0.0003, 200_000, "normal", 44_896_768),
    "GPT-07": (0.001, 200_000, "headwise-orthogonal", 41_751_040),
}
FOLDERS = {"tinystories": "tinystories", "openwebtext": "openwebtext", "wikitext103": "wikitext-103"}
"""Where the data that a command names lie."""
SMALL = {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_ff": 32, "seq_len": 16, "batch_size": 2}


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FOLDERS.values():
        shutil.copytree(tokens(), tmp_path / "tokens" / name)


def resolved(command: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[RunConfig, Path]:
    """Config and folder of a command; the run itself, of a model of 45 million weights, is not started."""
    found: list[tuple[RunConfig, Path]] = []
    from oelm.cli import train
    from oelm.cli.main import main

    monkeypatch.setattr(train, "run_and_report", lambda config, folder, *, resume: found.append((config, folder)))
    monkeypatch.setattr("sys.argv", ["oelm", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    return found[0]


def fields(config: RunConfig) -> dict[str, Any]:
    """All that decides the numbers, but for the data, which is not the original's here, and so the vocabulary."""
    numbers = flattened(config.numbers())
    return {name: value for name, value in numbers.items() if not name.startswith("data.") and "vocabulary" not in name}


def stated(config: RunConfig) -> dict[str, Any]:
    values = flattened(config.model_dump(mode="json"))
    # Left out of what is written where they are the usual ones.
    usual = {"optim.schedule": config.optim.schedule.value, "optim.decay": config.optim.decay.value}
    return {name: (usual | values)[name] for name in STATED}


def stated_of_run(config: RunConfig) -> tuple[float, int, str, int]:
    model, method, steps = config.model, config.method, config.train.steps
    assert isinstance(model, GPTConfig)
    counts = count_weights(model.model_copy(update={"vocabulary": 50257}), method, steps)
    assert counts.stored == 44_896_768
    assert method.query == method.key
    return config.optim.lr, steps, method.query.value, counts.trained


@pytest.mark.parametrize("run", COMMANDS)
def test_a_record_has_what_the_documents_state(run: str) -> None:
    record = original_record(run)
    assert isinstance(record, Record)
    assert stated(record.config) == STATED
    assert stated_of_run(record.config) == STATED_OF_RUN[run]


@pytest.mark.parametrize("run", COMMANDS)
def test_a_pasted_command_has_what_the_documents_state_field_by_field(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, folder = resolved(["train", *shlex.split(COMMANDS[run])], monkeypatch)
    assert stated(config) == STATED
    assert stated_of_run(config) == STATED_OF_RUN[run]
    assert folder == Path("out")
    assert config.data.folder == f"tokens/{FOLDERS[shlex.split(COMMANDS[run])[3]]}"
    record = original_record(run)
    assert isinstance(record, Record)
    assert fields(config) == fields(record.config), "what no document states is the same in both"
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"--model_type {shlex.split(COMMANDS[run])[1]}: ")
    assert "context 512, dropout 0.1, vocabulary 257 (its own: 50,257, --tokenizer gpt2), warm-up 1,000" in line


def test_what_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer command of the reports' appendix style, and a run without AMP."""
    command = "--model_type oelm_v2 --dataset tinystories --warmup_steps 7 --dropout 0 --seed 3 --size tiny --steps 900"
    config, _ = resolved(["train", *shlex.split(command)], monkeypatch)
    assert isinstance(config.model, GPTConfig)
    assert (config.model.width, config.model.context, config.model.dropout) == (128, 512, 0.0)
    assert (config.optim.warmup_steps, config.seed, config.train.precision) == (7, 3, "float32")
    assert (config.optim.decay, config.optim.weight_decay) == ("all", 0.01)


def test_without_a_model_type_the_defaults_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = resolved(["train", "--dataset", "tinystories"], monkeypatch)
    assert isinstance(config.model, GPTConfig)
    assert (config.model.width, config.model.context, config.optim.decay, config.seed) == (256, 256, "matrices", 0)


@pytest.mark.parametrize(
    ("run", "name"), [("GPT-01", "tinystories"), ("GPT-04", "openwebtext"), ("GPT-06", "wikitext-103")]
)
def test_without_its_data_a_pasted_command_says_how_to_make_just_the_originals(
    run: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the very request of the study, whose folder it may then be."""
    shutil.rmtree(tmp_path / "tokens")
    ended = started(["train", *shlex.split(COMMANDS[run])]).ended()
    assert ended.code == 2
    told = re.search(r"make it: (oelm prepare \S+) \(for the original's commands with (.+?)\)", ended.err)
    assert told is not None, ended.err
    (study,) = (ROOT / "experiments/original").glob(f"gpt-{name.replace('-', '')}.yaml")
    request = StudyFile.read(study).study.data[name]
    assert isinstance(request, PrepareRequest)
    assert asked(f"{told[1]} {told[2]}", monkeypatch).has_made(request.identity())
    if name == "openwebtext":
        recipe = " ".join((ROOT / "docs/original.md").read_text(encoding="utf-8").split())
        assert f"`{told[1]} {told[2]}`" in recipe


def asked(command: str, monkeypatch: pytest.MonkeyPatch) -> PrepareRequest:
    """The request of an `oelm prepare`; nothing is prepared."""
    found: list[PrepareRequest] = []

    def noted(request: PrepareRequest, folder: Path, *, overwrite: bool) -> DataManifest:
        found.append(request)
        return read_manifest(tokens())

    from oelm.cli.main import main

    monkeypatch.setattr("oelm.data.prepare.prepare", noted)
    monkeypatch.setattr("sys.argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "init"), [("baseline", "normal"), ("oelm_v2", "orthogonal"), ("oelm_random", "normal")]
)
def test_a_pasted_command_runs_and_its_timing_file_has_the_originals_names(
    kind: str, init: str, tmp_path: Path
) -> None:
    command = COMMANDS["GPT-02"].replace("oelm_v2", kind).replace("100000", "12").replace("1000", "6")
    command = command.replace("tinystories", str(tmp_path / "tokens/tinystories")).replace(" out ", f" {tmp_path}/out ")
    small = [f"--{name}={value}" for name, value in SMALL.items()]
    ended = started(["train", *shlex.split(command), *small, "--device=cpu", "--no-tensorboard"]).ended()
    assert (ended.code, ended.err) == (0, "")
    stats = json.loads((tmp_path / "out" / "timing_stats.json").read_text())
    assert (stats["model_type"], stats["init_method"]) == (kind, init)
    assert {"final_perplexity", "total_wall_time", "mean_step_time"} < stats.keys()
    assert RunFolder(tmp_path / "out").record().config.train.precision == "float16"
