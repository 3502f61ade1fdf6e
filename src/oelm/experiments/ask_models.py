"""What a study asks its finished models (`evaluate:` in its file): one after the other, each in a process of its own.

A process that has used a GPU holds a part of it until it ends, and a coordinator lives as long as all of its studies.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from oelm.base.errors import CheckpointError
from oelm.config.evaluated import EVALUATION_FILE, EvaluationRequest
from oelm.experiments.coordinate import stop_if_asked
from oelm.experiments.evaluated_model import is_answered
from oelm.experiments.matrix import StudyRun
from oelm.train.stopping import stop_on_signal

_LOOK_SECONDS = 0.1
_LISTS = {"texts": "--text", "items": "--items"}
"""Given once for each; the names of suites and tasks stand with commas between."""


def ask_models(runs: Sequence[StudyRun], request: EvaluationRequest, out: Path, device: str, console: Console) -> None:
    """Ask every model that has not answered yet; the same call goes on where this one was stopped."""
    waiting = [run for run in runs if not is_answered(run.folder, request)]
    console.print(f"evaluation: {len(waiting)} models", highlight=False)
    for run in waiting:
        if not is_answered(run.folder, request):  # another coordinator may have asked it by now
            _ask(run.folder, [*as_options(request), "--device", device], out)
        console.print(f"  {run.folder / EVALUATION_FILE}", highlight=False, soft_wrap=True)


def _ask(folder: Path, options: Sequence[str], out: Path) -> None:
    """Its answers are written at its end, whole or not at all: it can be stopped at any instant."""
    command, log = [sys.executable, "-m", "oelm", "eval", str(folder), *options], folder / "eval.log"
    with log.open("wb") as said, stop_on_signal() as stop:
        child = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while child.poll() is None:
                stop_if_asked(stop, out)
                time.sleep(_LOOK_SECONDS)
        finally:
            child.terminate()
            child.wait()
    if child.returncode:
        raise CheckpointError(
            f"{folder} could not be evaluated (exit code {child.returncode})",
            f"read {log}, correct the cause and run the same command again",
        )


def as_options(request: EvaluationRequest) -> list[str]:
    """The request as the options of `oelm eval`; what is at its default is left out."""
    given = request.model_dump(mode="json", exclude_defaults=True)
    options = ["--suite", ",".join(request.suites)]
    if request.tasks:
        options += ["--tasks", ",".join(request.tasks)]
    for name, value in given.items():
        if name in _LISTS:
            options += [word for each in value for word in (_LISTS[name], each)]
        elif name not in ("suites", "tasks"):
            options += [f"--{name.replace('_', '-')}", str(value)]
    return options
