"""The report on paper, printed by a real Chromium."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oelm.cli.main import command_line
from oelm.report.write_pdf import find_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason="NO CHROMIUM: no PDF is printed. Fix: apt-get install chromium"),
]
RESULTS = Path(__file__).resolve().parents[2] / "results" / "quickstart"


def test_the_report_as_pdf(tmp_path: Path) -> None:
    output = tmp_path / "report.pdf"
    done = CliRunner().invoke(
        command_line(["report"]), ["report", str(RESULTS), "-o", str(output)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    printed = output.read_bytes()
    assert printed.startswith(b"%PDF")
    assert b"/Title (quickstart)" in printed
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
    assert list(tmp_path.iterdir()) == [output]
