"""A study that every engine brings to the same records, and the commands that do."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.toy_studies import final_of, processes_of, steps_saved, write_study
from oelm.experiments.matrix import StudyRun
from oelm.experiments.ownership import last_state
from oelm.train.folder import RunFolder
from train.processes import Ended, Running, started, until
from train.toys import last_weights, timeless_record, trained

SLOW = {"steps": 800, "save_every": 40, "validate_every": 400}
"""Long enough to be hit in the middle: from the first checkpoint on there are seconds left."""


class Commands:
    """`oelm experiment VERB` on one study; none of its processes outlives a test."""

    def __init__(self, study: Path) -> None:
        self.study = study
        self.out = study.parent / "out"
        self._all: list[Running] = []

    def start(self, verb: str, *arguments: str) -> Running:
        words = ["experiment", verb, str(self.study), *arguments, f"--out-dir={self.out}"]
        command = started(words, COLUMNS="160", OMP_NUM_THREADS="1")
        self._all.append(command)
        return command

    def end(self, verb: str, *arguments: str, code: int = 0) -> Ended:
        ended = self.start(verb, *arguments).ended()
        assert ended.code == code, (ended.out, ended.err)
        return ended

    def kill_all(self) -> None:
        for command in self._all:
            command.killed()
        for process in processes_of(self.out):
            os.kill(process, signal.SIGKILL)


def toy_study(folder: Path, **changes: Any) -> Path:
    """Two arms, one seed; one thread and no GPU per run on every engine."""
    train = {**SLOW, **changes.pop("train", {})}
    values = {"seeds": [0], "resources": {"gpus": 0}, **changes}
    return write_study(folder / "study.yaml", train=train, **values)


def undisturbed(study: Path, folder: Path) -> list[StudyRun]:
    """The same runs, trained one after the other in this process."""
    runs = final_of(study, folder)
    for run in runs:
        trained(run.config, run.folder)
    return runs


def paused(runs: Sequence[StudyRun], process: Running, beyond: int = 0) -> tuple[StudyRun, int]:
    """A run that has saved a step beyond this one, and its worker, stopped: it cannot end while we look at it."""
    found: list[tuple[StudyRun, int]] = []

    def pause_one() -> bool:
        for run in runs:
            state = last_state(run.folder)
            if state is None or steps_saved(run) <= beyond or RunFolder(run.folder).finished:
                continue
            try:
                os.kill(state.pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            found.append((run, state.pid))
            return True
        return False

    until(pause_one, alive=process.process.is_alive)
    run, worker = found[0]
    until(lambda: _is_stopped(worker))  # the signal takes a moment
    assert not RunFolder(run.folder).finished, "it was quicker than we"
    return run, worker


def assert_same_records(runs: Sequence[StudyRun], others: Sequence[StudyRun]) -> None:
    """Times aside; the weights are the same bytes."""
    for run, other in zip(runs, others, strict=True):
        assert planless_record(run.folder) == planless_record(other.folder)
        assert last_weights(run.folder) == last_weights(other.folder)
        assert not list(run.folder.rglob(".partial-*"))


def planless_record(folder: Path) -> dict[str, Any]:
    """A record without time and plan: what is trained by itself has none."""
    values: dict[str, Any] = timeless_record(folder)
    del values["config"]["study"]["plan"]
    return values


def was_sent(process: int, number: int) -> bool:
    """Whether a signal waits for a stopped process, or has woken and ended it already."""
    fields = _status(process)
    pending = int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16) if "ShdPnd" in fields else 0
    return not _is_stopped(process) or bool(pending >> (number - 1) & 1)


def _is_stopped(process: int) -> bool:
    return _status(process).get("State", "").startswith("T")


def _status(process: int) -> dict[str, str]:
    """Of the system about a process; nothing of one that is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def go_on(process: int) -> None:
    """Wake a stopped process, if nobody else has."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)
