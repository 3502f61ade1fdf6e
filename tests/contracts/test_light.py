"""What does not compute answers at once: no torch is loaded."""

import os
import resource
import subprocess
import sys

import pytest

from oelm.cli.main import VERBS

from .source import sources

LIGHT_ROOMS = ("oelm.config", "oelm.report", "oelm.cli")
COMMANDS = (
    ["--help"],
    ["--version"],
    ["methods"],
    *([verb, "--help"] for verb in VERBS),
)

# Says which heavy packages a piece of code has loaded.
REPORT = (
    "print('LOADED', [name for name in ('torch', 'transformers', 'datasets', 'tensorboard') if name in sys.modules])"
)
RUN = """
import sys
from oelm.cli.main import main
sys.argv = ["oelm", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
"""


def loaded_by(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", f"import sys\n{code}\n{REPORT}"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split("LOADED")[-1].strip()


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_that_does_not_compute_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(RUN.format(arguments=arguments)) == "[]"


def test_light_rooms_load_nothing_heavy() -> None:
    light = [module for module in sources() if module == "oelm" or module.startswith(LIGHT_ROOMS)]
    assert "oelm.report.findings" in light
    assert loaded_by("".join(f"import {module}\n" for module in light)) == "[]"


def test_little_is_imported_before_ctrl_c_is_heard() -> None:
    """Until `main` runs, Python answers it with a traceback."""
    before = "import typing, collections.abc, dataclasses, importlib.util, signal\nknown = set(sys.modules)\n"
    new = "print('NEW', sorted(name for name in set(sys.modules) - known if not name.startswith('oelm')))"
    code = f"import sys\n{before}import oelm.cli.main\n{new}"
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_with_path())
    assert run.stdout.strip() == "NEW []", run.stderr


def _with_path() -> dict[str, str]:
    """For `-S`, which leaves out what other packages import at every start."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.slow
def test_a_heavy_import_would_be_noticed() -> None:
    assert "torch" in loaded_by("import oelm.model.gpt")


def test_help_answers_at_once() -> None:
    """Half a second on an idle machine. Processor time, best of five and twice that: neighbours must not fail it."""

    def processor_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "oelm", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    best = min(processor_seconds() for _ in range(5))
    assert best < 1.0, f"{best:.2f} s"
