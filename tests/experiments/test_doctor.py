"""The doctor examines this machine with real runs; what it writes can be read and printed again."""

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from oelm.base.errors import ConfigError
from oelm.cli.doctor import _chosen, doctor
from oelm.config.doctor_record import Check, DoctorRecord, Outcome
from oelm.config.run import Precision
from oelm.config.settings import parse
from oelm.experiments import deadline, doctor_hours
from oelm.experiments import doctor as examination
from oelm.experiments.doctor_bench import Bench, NotHere, plain_name
from oelm.experiments.gpus import GpuReading
from oelm.experiments.shipped import shipped_studies
from oelm.train.stopping import Interrupted

ROOT = Path(__file__).resolve().parents[2]
STUDIES = [ROOT / "experiments" / f"{name}.yaml" for name in ("cpu/quick", "original/m512", "original/bert-sst2")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself, and here a warning would be an error
def test_a_whole_examination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor_hours, "_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(examination, "_CHECKING_SECONDS", 3600.0)  # a busy machine is no reason to leave one out
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is there
    doctor(studies=STUDIES, out=tmp_path / "doctor.json", device="cpu")
    printed = " ".join(capsys.readouterr().out.split())
    record = parse(DoctorRecord, json.loads((tmp_path / "doctor.json").read_text()), "doctor.json")
    outcomes = {check.name: check.outcome for check in record.checks}
    needed = {"GPT-2's tokenizer", "tinystories", "sst2", "bert-base-uncased"}
    assert {outcomes.pop(f"Hub: {name}") for name in needed} == {Outcome.ABSENT}
    assert outcomes.pop("idle GPUs") is not Outcome.FAILED
    assert set(outcomes.values()) == {Outcome.WORKS}, [check.note for check in record.failed]
    assert {"disk", "resume", "freeze audit", "bf16", "float16", "compile", "data parallel"} < outcomes.keys()
    assert [(speed.size, speed.precision, speed.device) for speed in record.speeds] == [
        ("small", "float32", "cpu"),
        ("medium-512", "float32", "cpu"),
        ("small", "bf16", "cpu"),
        ("small", "float16", "cpu"),
    ]
    assert record.versions["torch"] == record.environment.torch
    quick, m512, bert = record.studies
    assert (quick.study, quick.runs, m512.runs, m512.devices, bert.runs) == ("cpu/quick", 24, 2, 2, 3)
    assert quick.hours is not None
    assert m512.hours is not None
    assert bert.hours is not None
    assert 0 < quick.hours < m512.hours
    assert quick.by == "small in float32 on cpu"
    assert m512.by == "medium-512 in float32 on cpu, scaled to bf16 as small was"
    for word in ("data parallel", "byte-equal", "medium-512", "original/m512", "record:"):
        assert word in printed
    doctor(studies=None, out=tmp_path / "doctor.json", device="cpu", show=True)
    again = " ".join(capsys.readouterr().out.split())
    assert again == printed.split(" record:")[0]


def test_studies_go_by_their_names_wherever_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _chosen(None) == list(shipped_studies().values())
    assert _chosen([Path("cpu/quick"), STUDIES[1]]) == STUDIES[:2]
    with pytest.raises(ConfigError, match="there is no study cpu/quik"):
        _chosen([Path("cpu/quik")])


def test_what_fails_is_a_finding_and_the_others_go_on() -> None:
    def broken() -> str:
        raise ValueError("two\nlines" + 1000 * "." + "the end")

    def absent() -> str:
        raise NotHere("no such unit")

    found = [examination._checked(name, act) for name, act in (("a", broken), ("b", absent), ("c", lambda: "fine"))]
    assert [check.outcome for check in found] == [Outcome.FAILED, Outcome.ABSENT, Outcome.WORKS]
    assert [check.note for check in found[1:]] == ["no such unit", "fine"]
    note, last = found[0].note, found[0].traceback
    assert (note[:21], note[-8:], len(note)) == ("ValueError: two lines", ".the end", 405)
    assert 'raise ValueError("two' in " ".join(last), "of a failure, where it was"
    assert found[1].traceback == found[2].traceback == ()


def test_a_note_names_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert examination._checked("a", lambda: f"no {tmp_path}/.cache/x").note == "no ~/.cache/x"

    def failing() -> str:
        raise ValueError(f"no {tmp_path}/.cache/x")

    assert examination._checked("a", failing).traceback[-1] == "ValueError: no ~/.cache/x"


def test_a_signal_is_no_finding() -> None:
    def stopped() -> str:
        raise Interrupted(signal.SIGINT)

    with pytest.raises(Interrupted):
        examination._checked("training", stopped)


def test_a_failure_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from typer import Exit

    record = json.loads((Path(__file__).parent / "doctor.json").read_text())
    failed = Check(name="resume", outcome=Outcome.FAILED, note="not byte-equal", seconds=1).model_dump(mode="json")
    (tmp_path / "doctor.json").write_text(json.dumps({**record, "checks": [*record["checks"], failed]}))
    with pytest.raises(Exit) as end:
        doctor(out=tmp_path / "doctor.json", show=True)
    assert end.value.exit_code == 1
    assert "not byte-equal" in capsys.readouterr().out


def test_a_record_from_before_there_were_versions_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(out=Path(__file__).parent / "doctor.json", show=True)
    printed = " ".join(capsys.readouterr().out.split())
    for word in ("Apple GPU", "small float32 2 1,172", "cpu/quick 18 8 min small in float32"):
        assert word in printed


def test_a_check_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_CHECK_SECONDS", 0.2)
    monkeypatch.setattr(deadline, "_AGAIN_SECONDS", 60.0)
    found = examination._checked("compile", lambda: time.sleep(30) or "done")
    assert (found.outcome, found.note) == (Outcome.FAILED, "TooLongError: not done after 0 s")
    assert found.seconds < 10


def test_what_comes_too_late_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_CHECKING_SECONDS", -1.0)
    record = examination.examine([], "cpu", lambda _said: None)
    assert {check.outcome for check in record.checks} == {Outcome.LEFT_OUT}
    assert record.failed == ()


class Written(Bench):
    """Runs that only leave weights behind, of every name the next of a list."""

    weights: ClassVar[list[bytes]]

    def plain(self, device: str) -> None:  # type: ignore[override]
        self.trained(plain_name(device))

    def trained(self, name: str, **_changes: object) -> None:  # type: ignore[override]
        last = self.run_folder(name).checkpoint_folder / "step-00000030"
        last.mkdir(parents=True)
        (last / "model.safetensors").write_bytes(self.weights.pop(0))
        self.run_folder(name).record_file.write_text("{}")


@pytest.mark.parametrize(
    ("weights", "outcome"),
    [
        ([b"a", b"a"], Outcome.WORKS),
        ([b"a", b"b", b"a"], Outcome.FAILED),
        ([b"a", b"b", b"c"], Outcome.ABSENT),
    ],
    ids=["equal", "resume is wrong", "kernels differ from run to run"],
)
def test_a_device_that_never_computes_the_same_is_no_bug_of_resuming(
    tmp_path: Path, weights: list[bytes], outcome: Outcome
) -> None:
    Written.weights = list(weights)
    assert examination._checked("resume", lambda: examination._resume(Written(tmp_path, "cuda:0"))).outcome is outcome


def test_apples_gpu_is_looked_at_though_a_run_would_not_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(examination, "choose_runtime", chosen.append)
    for available in (True, False):
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda available=available: available)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        for device in ("auto", "cpu"):
            examination._chosen(device)
    assert chosen == ["mps", "cpu", "auto", "cpu"]


def test_every_gpu_is_compared_with_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    bench = Bench(tmp_path, "cuda:0")
    runtime = examination.choose_runtime("cpu")
    found = [name for name, _ in examination._checks(bench, runtime, []) if name.startswith("training")]
    assert found == ["training", "training on cuda:0", "training on cuda:1", "training on mps"]


@pytest.mark.parametrize(("gpu", "outcome"), [("cuda:1", Outcome.FAILED), ("mps", Outcome.WORKS)])
def test_a_gpu_that_computes_something_else_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, outcome: Outcome
) -> None:
    losses = {"cpu": 5.0, "cuda:1": 5.2, "mps": 5.01}
    monkeypatch.setattr(Bench, "plain", lambda _bench, device: SimpleNamespace(loss=losses[device], skipped_steps=0))
    bench = Bench(tmp_path, "cuda:0")
    found = examination._checked("training", lambda: examination._training_on(bench, gpu))
    assert found.outcome is outcome
    assert "5.0000" in found.note


@pytest.mark.parametrize(("device", "outcome"), [("mps", Outcome.ABSENT), ("cuda:0", Outcome.FAILED)])
def test_what_mps_has_not_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, outcome: Outcome
) -> None:
    def lacking(_bench: Bench, _name: str, **_changes: object) -> None:
        raise NotImplementedError("aten::x is not implemented for the MPS device")

    monkeypatch.setattr(Bench, "trained", lacking)
    found = examination._checked("compile", lambda: examination._compile(Bench(tmp_path, device)))
    assert found.outcome is outcome


def test_bf16_of_an_old_macos_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda *_version: False)
    bench, device = Bench(tmp_path, "mps"), torch.device("mps")
    found = examination._checked("bf16", lambda: examination._precision(bench, device, Precision.BF16))
    assert (found.outcome, found.note) == (Outcome.ABSENT, "MPS has bf16 from macOS 14 on")


def test_nvml_is_asked_for_what_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = (GpuReading(index=0, uuid="GPU-a", name="A", processes=(1, 2), free_bytes=3 * 10**9),)
    monkeypatch.setattr(examination, "read_gpus", lambda: seen)
    assert examination._idle_gpus() == "GPU 0: A, 3 GB free, 2 processes"
    monkeypatch.setattr(examination, "read_gpus", lambda: ())
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    for available, outcome in ((True, Outcome.FAILED), (False, Outcome.ABSENT)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert examination._checked("idle GPUs", examination._idle_gpus).outcome is outcome
