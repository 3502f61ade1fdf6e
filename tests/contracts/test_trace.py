"""How much of the laboratory one answer passes through: files of these rooms that run a line, `__init__` aside."""

import subprocess
import sys
from pathlib import Path

import pytest

from .source import PACKAGE, REPOSITORY

ROOMS = ("report", "experiments", "train", "evaluate", "cli")
TRACED = """
import sys
files = set()
sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename) if event == "call" else None)
from oelm.cli.main import main
sys.argv = ["oelm", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
    print(*sorted(files), sep="\\n", file=sys.stderr)
"""


def files_that_run(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TRACED, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    ours = [Path(name).relative_to(PACKAGE) for name in done.stderr.splitlines() if name.startswith(str(PACKAGE))]
    return [str(path) for path in ours if path.parts[0] in ROOMS and path.name != "__init__.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "most"),
    [(("compare", "results/quickstart", "--format", "json"), 12), (("report", "results/quickstart"), 25)],
)
def test_an_answer_passes_through_few_files(arguments: tuple[str, ...], most: int, tmp_path: Path) -> None:
    output = ("-o", str(tmp_path / "page.html")) if arguments[0] == "report" else ()
    files = files_that_run(*arguments, *output)
    assert "report/verdicts.py" in files
    assert len(files) <= most, files
