"""Probes as runs: from the command and from a study, to records, reports and the command that makes them again."""

from pathlib import Path

import pytest
import yaml

from oelm.base.errors import ConfigError
from oelm.config.probe import Probe, ProbeKind
from oelm.config.record import Record
from oelm.config.request import ProbeRequest, TrainRequest, resolve_probe
from oelm.experiments.resolving import resolve_for_plan
from oelm.report.groups import build_report
from oelm.report.reproduce import arguments_of
from oelm.report.write_markdown import as_markdown
from oelm.train.folder import RunFolder
from train.processes import started
from train.toys import trained

from .studies import planned, study

PROBE = Probe(probe=ProbeKind.RETRIEVAL, length=4, alphabet=6, name="pairs")
SMALL = {"layers": 1, "width": 8, "heads": 2, "steps": 6, "batch_size": 4, "validation_sequences": 8, "device": "cpu"}
STUDY = {
    "title": "A toy",
    "data": {
        "pairs": {"kind": "probe", "probe": "retrieval", "length": 4, "alphabet": 6},
        "hops": {"kind": "probe", "probe": "induction", "length": 20, "hops": 2},
    },
    "train": {**SMALL, "lr": 1e-2},
    "arms": ["baseline", "oelm"],
    "seeds": [0],
    "primary": "oelm",
}


def probed(method: str, seed: int, folder: Path) -> Record:
    request = ProbeRequest.model_validate({**SMALL, "method": method, "seed": seed})
    return trained(resolve_probe(request, PROBE), folder)


@pytest.mark.slow
def test_runs_are_compared_by_exact_answers(tmp_path: Path) -> None:
    records = [
        probed(method, seed, tmp_path / f"{method}-{seed}") for method in ("baseline", "oelm") for seed in range(3)
    ]
    assert {record.task for record in records} == {"probing"}
    assert all(0 <= record.result.measures["probe_accuracy"] <= 1 for record in records)
    report = build_report(records)
    (comparison,) = report.groups[0].comparisons
    assert comparison.measure.name == "probe_accuracy"
    assert comparison.findings[1].pairs == 3
    assert "exact answers" in as_markdown(report)
    assert report.groups[0].data == "pairs"


def test_the_command_and_the_command_that_makes_it_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    asked = ["probe", "induction", "--hops=2", "--length=20", "--method=oelm-core", f"--out-dir={out}", *flags]
    done = started(asked).ended()
    assert (done.code, done.err) == (0, "")
    assert "exact answers" in done.out
    config = RunFolder(out).config()
    assert config.data.hops == 2
    assert (config.model.context, config.model.vocabulary) == (20, 64)  # 32 symbols that ask for one hop or for two
    again = tmp_path / "again"
    start, *arguments = arguments_of(config)
    assert start == "oelm"
    assert started([*arguments, f"--out-dir={again}", "--seed=0", "--device=cpu"]).ended().code == 0
    assert RunFolder(again).config().fingerprint == config.fingerprint
    assert RunFolder(again).record().result.loss == RunFolder(out).record().result.loss
    wrong = started(["probe", "retrieval", "--length=50"]).ended()
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "50 pairs need as many different keys" in wrong.err


def test_a_study_of_probes(tmp_path: Path) -> None:
    file = study(tmp_path, yaml.safe_dump(STUDY, sort_keys=False))
    runs = planned(file, tmp_path).final()
    assert [run.name for run in runs] == [
        "pairs-baseline-seed0",
        "pairs-oelm-seed0",
        "hops-baseline-seed0",
        "hops-oelm-seed0",
    ]
    pairs, hops = runs[0].config, runs[2].config
    assert (pairs.model.context, pairs.model.vocabulary, pairs.data.name) == (16, 12, "pairs")
    assert (hops.model.context, hops.data.hops) == (20, 2)
    assert resolve_for_plan(file.study, tmp_path)(file.study.cells[0]).data.digest == pairs.data.digest


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    text = {**STUDY, "train": None, "finetune": {"model": "gpt"}}
    with pytest.raises(ConfigError, match="needs labelled text"):
        study(tmp_path, yaml.safe_dump(text, sort_keys=False))
    halves = {**STUDY, "train": {**SMALL, "validation_half": "first"}}
    with pytest.raises(ConfigError, match="no halves"):
        planned(study(tmp_path, yaml.safe_dump(halves, sort_keys=False)), tmp_path).final()
    config = resolve_probe(TrainRequest(), PROBE)
    with pytest.raises(ValueError, match="needs our GPT with 16 positions and 12 symbols"):
        type(config).model_validate({**dict(config), "model": config.model.model_copy(update={"context": 8})})
