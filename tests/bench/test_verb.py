"""`oelm bench` as a person calls it."""

import sys
from pathlib import Path

import pytest

from oelm.cli.main import main

from .specs import made_up_record

TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--seq-len", "8", "--vocab-size", "31", "--batch-size", "2"]
QUICK = ["--rounds", "6", "--repeats", "1", "--no-memory", "--device", "cpu", "--peers", "none"]


def called(monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["oelm", "bench", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code in (0, None)


def test_measure_then_show(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("oelm.bench.device_peak.CPU_SIDE", 128)
    monkeypatch.setenv("COLUMNS", "100")
    out = tmp_path / "new" / "bench.json"
    called(monkeypatch, *TINY, *QUICK, "--methods", "baseline,oelm", "--out", str(out))
    printed = capsys.readouterr().out
    assert "reference" in printed
    called(monkeypatch, "--show", str(out))
    assert capsys.readouterr().out == printed


def test_several_records_as_markdown(monkeypatch, tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(made_up_record().model_dump_json())
    called(monkeypatch, "--show", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--format", "md")
    assert capsys.readouterr().out.count("| not decided |") == 2


def test_a_reference_in_no_table_is_refused_before_anything_is_printed(monkeypatch, tmp_path, capsys):
    """A table in which it did not take part stays as it was while another one has it."""
    paths = [str(tmp_path / f"{name}.json") for name in ("both", "one")]
    record, (steps,) = made_up_record(), made_up_record().steps
    without = steps.model_copy(update={"rows": steps.rows[:2]})
    for path, tables in zip(paths, ((without, steps), (without,)), strict=True):
        Path(path).write_text(record.model_copy(update={"steps": tables}).model_dump_json())
    called(monkeypatch, "--show", paths[0], "--reference", "plain", "--format", "md")
    printed = capsys.readouterr().out
    assert "time / baseline's" in printed
    assert "time / plain's" in printed
    for reference, path in (("plian", paths[0]), ("plain", paths[1])):
        monkeypatch.setattr(sys, "argv", ["oelm", "bench", "--show", *paths, "--reference", reference])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"{path} has no contestant '{reference}'. Fix: give one of: baseline, oelm" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--show"], "--show needs records"),
        (["record.json"], "records are printed by --show"),
        (["--what", "fly"], "--what does not know 'fly'"),
        (["--what", "none"], "what"),
        (["--peers", "somebody"], "--peers does not know 'somebody'"),
        (["--rounds", "0"], "rounds"),
        (["--precision", "int8"], "precision"),
        (["--methods", "baseline,nonsense"], "unknown method 'nonsense'"),
        (["--size", "huge"], "unknown size 'huge'"),
        (["--reference", "oelm-q"], "'oelm-q' does not take part"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(monkeypatch, capsys, arguments, words):
    monkeypatch.setattr(sys, "argv", ["oelm", "bench", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Fix: " in error
