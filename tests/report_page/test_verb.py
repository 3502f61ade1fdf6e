import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oelm.base.errors import OelmError
from oelm.cli.main import command_line
from report.records import make_arm, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for method, losses in (("baseline", (2.5, 2.6, 2.7)), ("oelm", (2.51, 2.62, 2.71))):
        for record in make_arm(method, losses):
            write_run(tmp_path / "runs" / f"{method}-{record.config.seed}", record)
    return tmp_path / "runs"


def run(*arguments: object) -> str:
    done = CliRunner().invoke(command_line(["report"]), ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_ending_says_the_format(runs: Path, tmp_path: Path) -> None:
    assert "report:" in run(runs, "-o", tmp_path / "a.html")
    run(runs, "-o", tmp_path / "a.md", "--lang", "zh")
    run(runs, "-o", tmp_path / "a.json")
    run(runs, "-o", tmp_path / "other", "--format", "md")
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "困惑度" in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["groups"]
    assert (tmp_path / "other").read_text(encoding="utf-8").startswith("# ")


def test_the_language_is_the_one_it_opens_in(runs: Path, tmp_path: Path) -> None:
    run(runs, "-o", tmp_path / "a.html", "--lang", "zh")
    assert '<html lang="zh">' in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_the_page_tells_the_command_that_makes_it(runs: Path, tmp_path: Path) -> None:
    run(runs, "-o", tmp_path / "a.md", "--primary", "oelm", "--margin", "1.1", "--original")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert f"oelm report {runs} --original --margin 1.1 --primary oelm -o {tmp_path / 'a.md'}" in text


def test_bad_input_is_refused(runs: Path, tmp_path: Path) -> None:
    for arguments in (
        (runs, "-o", tmp_path),
        (tmp_path / "nowhere",),
        (runs, "-o", tmp_path / "no" / "folder.html"),
        (),
        (runs, "--serve", "-o", tmp_path / "a.html"),
        (runs, "--serve", "--format", "pdf"),
        ("--serve", "--original"),
        (tmp_path / "nowhere", "--serve"),
    ):
        with pytest.raises(OelmError):
            run(*arguments)


def test_the_quickstart_ends_with_the_page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oelm.experiments import run_study

    monkeypatch.setattr(run_study, "run_study", lambda *_, **__: None)
    done = CliRunner().invoke(
        command_line(["quickstart"]), ["quickstart", "--out-dir", str(runs)], catch_exceptions=False
    )
    page = runs / "report.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"open it in a browser: {page.as_uri()}" in done.output
