"""Small studies on the toy corpus, and what their processes leave behind."""

import os
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from oelm.config.request import TrainRequest
from oelm.experiments.launcher import JobState
from oelm.experiments.local_launcher import process_state
from oelm.experiments.matrix import StudyRun, StudyRuns
from oelm.experiments.ownership import is_claimed, last_state, read_note
from oelm.experiments.resolving import resolve_on_data
from oelm.experiments.study import StudyArm, StudyCell, StudyFile
from oelm.train.folder import RunFolder
from train.toys import TINY, tiny_config, tokens


def toy_run(folder: Path, name: str, *, method: str = "oelm", **changes: object) -> StudyRun:
    """One run of the toys; what it is called is also its folder."""
    cell = StudyCell("toy", StudyArm(method=method, name=method), method, TrainRequest(method=method))
    return StudyRun(cell, folder / name, tiny_config(method, **changes))  # type: ignore[arg-type]


def broken(run: StudyRun) -> StudyRun:
    """The same run on data that is not there: it fails before its first step."""
    data = run.config.data.model_copy(update={"folder": "/nowhere"})
    return StudyRun(run.cell, run.folder, run.config.model_copy(update={"data": data}))


def write_study(path: Path, *, train: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A study of two methods on the toy corpus."""
    shared = {"steps": 200, "lr": 1e-2, "save_every": 20, "validate_every": 50, "log_every": 10, **TINY}
    settings = {**shared, "validation_sequences": 8, "tensorboard": False, "device": "cpu", **(train or {})}
    values = {
        "title": "Toys",
        "data": {"toy": {"tokens": str(tokens())}},
        "train": {name: value for name, value in settings.items() if value is not None},
        "arms": ["baseline", "oelm"],
        "seeds": [0, 1],
        "primary": "oelm",
        **changes,
    }
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def runs_of(path: Path, out: Path) -> StudyRuns:
    """The runs of a study, resolved as `oelm experiment run` resolves them."""
    file = StudyFile.read(path)
    resolve = resolve_on_data(file.study, out / "tokens", Console(quiet=True))
    return StudyRuns(file.study, file.name, out, resolve, file.study.cells)


def final_of(path: Path, out: Path) -> list[StudyRun]:
    """The final runs of a study."""
    return runs_of(path, out).final()


def steps_saved(run: StudyRun) -> int:
    """The step of the last checkpoint."""
    return RunFolder(run.folder).saved_step


def steps_told(run: StudyRun) -> int:
    """The step that the run last wrote into its state."""
    state = last_state(run.folder)
    return state.step if state else 0


def worker_of(run: StudyRun) -> int | None:
    """The process that works on the run, if one does."""
    note = read_note(run.folder)
    if note is None or note.job is None or not is_claimed(run.folder):
        return None
    return int(note.job.split("/")[1]) if process_state(note.job) is JobState.ALIVE else None


def is_alive(process: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask about its end does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def processes_of(out: Path) -> list[int]:
    """All living processes, except this one, whose command line names the study's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid() or not is_alive(int(entry.name)):
            continue
        try:
            if str(out).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
