"""Printing without a Chromium, or with one that fails: an error with a fix, and no half-written file."""

from pathlib import Path

import pytest

from oelm.base.errors import OelmError
from oelm.report.write_pdf import find_chromium, write_pdf


def stand_in(folder: Path, script: str) -> str:
    path = folder / "chromium"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'no display' >&2; exit 1", r"failed \(1\): no display"),
        ("exit 0", "printed no PDF"),
        ('for a; do case "$a" in --print-to-pdf=*) printf %%PDF-1.4 > "${a#*=}";; esac; done', "printed no PDF"),
    ],
)
def test_a_chromium_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    monkeypatch.setenv("CHROMIUM", stand_in(tmp_path, script))
    output = tmp_path / "out" / "report.pdf"
    output.parent.mkdir()
    output.write_bytes(b"the last one")
    with pytest.raises(OelmError, match=problem):
        write_pdf("<!doctype html>", output)
    assert output.read_bytes() == b"the last one"
    assert list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize(
    ("variable", "problem"), [("/nowhere/chromium", "/nowhere/chromium is no program"), ("", "none")]
)
def test_without_a_chromium_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, problem: str
) -> None:
    monkeypatch.setenv("CHROMIUM", variable)
    monkeypatch.setenv("PATH", str(tmp_path))
    if not variable and find_chromium() is not None:
        pytest.skip("this machine has one that is not in PATH")
    with pytest.raises(OelmError, match=rf"{problem}. Fix: install one \(apt-get install chromium\)"):
        write_pdf("<!doctype html>", tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
