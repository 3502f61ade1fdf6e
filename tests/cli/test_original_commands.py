"""The commands of the original's reports, pasted: each gives its model and its settings, field by field.

Only data and length are made small: byte tokens of a toy text under the name of the corpus, a few steps at width 16.
"""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from oelm.config.model import GPTConfig
from oelm.config.original_study import original_record
from oelm.config.record import Record
from oelm.config.run import RunConfig
from oelm.config.settings import flattened
from oelm.train.folder import RunFolder
from train.processes import started
from train.toys import tokens

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
FOLDERS = ("tinystories", "openwebtext", "wikitext-103")
SMALL = {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_ff": 32, "seq_len": 16, "batch_size": 2}


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FOLDERS:
        shutil.copytree(tokens(), tmp_path / "tokens" / name)


def resolved(command: list[str], monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """The config of a command; the run itself, of a model of 45 million weights, is not started."""
    found: list[RunConfig] = []
    from oelm.cli import train
    from oelm.cli.main import main

    monkeypatch.setattr(train, "run_and_report", lambda config, folder, *, resume: found.append(config))
    monkeypatch.setattr("sys.argv", ["oelm", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    return found[0]


def fields(config: RunConfig) -> dict[str, Any]:
    """All that decides the numbers, but for the data, which is not the original's here, and so the vocabulary."""
    numbers = flattened(config.numbers())
    return {name: value for name, value in numbers.items() if not name.startswith("data.") and "vocabulary" not in name}


@pytest.mark.parametrize("run", COMMANDS)
def test_a_pasted_command_has_the_settings_of_the_record_field_by_field(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = original_record(run)
    assert isinstance(record, Record)
    config = resolved(["train", *shlex.split(COMMANDS[run])], monkeypatch)
    assert fields(config) == fields(record.config)
    assert config.machine.save_every == 5000
    size = config.model
    assert isinstance(size, GPTConfig)
    assert (size.layers, size.width, size.heads, size.ffn_width, size.context) == (6, 512, 8, 2048, 512)
    assert (size.dropout, config.train.precision, config.seed) == (0.1, "float16", 42)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"--model_type {shlex.split(COMMANDS[run])[1]}: ")
    assert "context 512, dropout 0.1, vocabulary 257 (its own: 50,257, --tokenizer gpt2), warm-up 1,000" in line


def test_what_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer command of the reports' appendix style, and a run without AMP."""
    command = "--model_type oelm_v2 --dataset tinystories --warmup_steps 7 --dropout 0 --seed 3 --size tiny --steps 900"
    config = resolved(["train", *shlex.split(command)], monkeypatch)
    assert isinstance(config.model, GPTConfig)
    assert (config.model.width, config.model.context, config.model.dropout) == (128, 512, 0.0)
    assert (config.optim.warmup_steps, config.seed, config.train.precision) == (7, 3, "float32")
    assert (config.optim.decay, config.optim.weight_decay) == ("all", 0.01)


def test_without_a_model_type_the_defaults_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolved(["train", "--dataset", "tinystories"], monkeypatch)
    assert isinstance(config.model, GPTConfig)
    assert (config.model.width, config.model.context, config.optim.decay, config.seed) == (256, 256, "matrices", 0)


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
