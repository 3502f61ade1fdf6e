"""The doctor examines this machine with real runs; what it writes can be read and printed again."""

import json
import signal
from pathlib import Path

import pytest

from oelm.base.errors import ConfigError
from oelm.cli.doctor import _chosen, doctor
from oelm.config.doctor_record import Check, DoctorRecord, Outcome, Speed
from oelm.config.request import TrainRequest, resolve_on
from oelm.config.run import DataConfig, Precision
from oelm.config.settings import parse
from oelm.experiments import doctor as examination
from oelm.experiments.shipped import shipped_studies
from oelm.train.stopping import Interrupted

ROOT = Path(__file__).resolve().parents[2]
DATA = DataConfig(folder="-", name="stories", digest="d")
STUDIES = [ROOT / "experiments" / f"{name}.yaml" for name in ("cpu/quick", "original/m512", "original/bert-sst2")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself, and here a warning would be an error
def test_a_whole_examination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examination, "_TIMED_SECONDS", 0.0)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is there
    doctor(studies=STUDIES, out=tmp_path / "doctor.json", device="cpu")
    printed = " ".join(capsys.readouterr().out.split())
    record = parse(DoctorRecord, json.loads((tmp_path / "doctor.json").read_text()), "doctor.json")
    outcomes = {check.name: check.outcome for check in record.checks}
    assert outcomes.pop("Hub") is Outcome.ABSENT
    assert outcomes.pop("Apple GPU") is not Outcome.FAILED
    assert set(outcomes.values()) == {Outcome.WORKS}, [check.note for check in record.failed]
    assert {"resume", "freeze audit", "bf16", "float16", "compile", "data parallel"} < outcomes.keys()
    assert [(speed.size, speed.precision) for speed in record.speeds] == [
        ("small", "float32"),
        ("medium-512", "float32"),
    ]
    quick, m512, bert = record.studies
    assert (quick.study, quick.runs, m512.runs, m512.devices, bert.runs) == ("cpu/quick", 24, 2, 2, 3)
    assert quick.hours is not None
    assert m512.hours is not None
    assert bert.hours is not None
    assert 0 < quick.hours < m512.hours
    assert (quick.by, m512.by) == ("small in float32", "medium-512 in float32")
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
        raise ValueError("two\nlines")

    def absent() -> str:
        raise examination._NotHere("no such unit")

    found = [examination._checked(name, act) for name, act in (("a", broken), ("b", absent), ("c", lambda: "fine"))]
    assert [check.outcome for check in found] == [Outcome.FAILED, Outcome.ABSENT, Outcome.WORKS]
    assert [check.note for check in found] == ["ValueError: two lines", "no such unit", "fine"]


def test_a_study_that_cannot_be_planned_loses_nothing_else(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("title: [\n")
    speed = Speed(
        size="small", width=256, precision=Precision.FLOAT32, sequences=2, step_seconds=1.0, tokens_per_second=512.0,
        flops_per_second=1e9, peak_bytes=1,
    )  # fmt: skip
    first, second = (examination._hours(path, [speed]) for path in (broken, STUDIES[0]))
    assert (first.study, first.runs, first.hours) == ("broken", 0, None)
    assert "broken.yaml" in first.by
    assert second.hours is not None


def test_hours_count_validation() -> None:
    plan = TrainRequest(method="baseline", size="tiny", seq_len=64, steps=100, batch_size=8)
    often, never = (
        examination._run_flops(
            resolve_on(plan.model_copy(update={"validate_every": every, "validation_sequences": 80}), 512, DATA), None
        )
        for every in (10, 1000)
    )
    assert often == pytest.approx(never * (1 + 10 * 80 / 3 / 800), rel=1e-2)


def test_a_note_names_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert examination._checked("a", lambda: f"no {tmp_path}/.cache/x").note == "no ~/.cache/x"


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
