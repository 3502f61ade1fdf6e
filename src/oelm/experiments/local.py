"""Runs as processes on this machine, a few at a time. A failed one does not stop the others."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from oelm.base.errors import CheckpointError, OelmError
from oelm.base.files import make_folder, refusing_storage
from oelm.config.run import RunConfig
from oelm.config.settings import write_yaml
from oelm.train.folder import RunFolder
from oelm.train.stopping import stop_on_signal

_POLL_SECONDS = 0.5
_LAST_LINES = 5


@dataclass(frozen=True)
class Planned:
    """A run and where it goes."""

    label: str
    config: RunConfig
    folder: Path


@dataclass
class _Started:
    planned: Planned
    process: subprocess.Popen[bytes]
    bar: TaskID


def run_all(planned: Sequence[Planned], *, at_once: int, console: Console) -> None:
    """Bring every run to its record: finished ones are skipped, interrupted ones resume, the rest start.

    Ctrl-C or SIGTERM asks the running ones to save; the same call later goes on. Failures are reported at the end.
    """
    for run in planned:
        RunFolder(run.folder).refuse_other(run.config)
    waiting = [run for run in planned if not RunFolder(run.folder).finished]
    threads = max(1, _cores() // at_once)
    failed: list[Planned] = []
    with _display(console, len(planned), len(planned) - len(waiting)) as (progress, total):
        running: list[_Started] = []
        with stop_on_signal() as stop, _ended_together(running):
            while waiting or running:
                if stop.signal is not None:
                    raise SystemExit(128 + stop.signal)
                while waiting and len(running) < at_once:
                    running.append(_start(waiting.pop(0), threads, progress))
                time.sleep(_POLL_SECONDS)
                for started in [each for each in running if each.process.poll() is not None]:
                    running.remove(started)
                    progress.remove_task(started.bar)
                    progress.advance(total)
                    failed += _report(started, console)
                for started in running:
                    _show_state(started, progress)
    if failed:
        names = ", ".join(run.label for run in failed)
        raise CheckpointError(
            f"{len(failed)} of {len(planned)} runs failed ({names})",
            f"read {failed[0].folder / 'console.log'}, mend the cause and run the same command again",
        )


def _start(run: Planned, threads: int, progress: Progress) -> _Started:
    make_folder(run.folder)
    config_file = RunFolder(run.folder).config_file
    write_yaml(run.config, config_file)
    command = [sys.executable, "-m", "oelm", "train", "--config", str(config_file), "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    with refusing_storage(run.folder / "console.log"), (run.folder / "console.log").open("ab") as log:
        # A session of its own: the terminal's Ctrl-C reaches only us, and we ask the runs to save.
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    return _Started(run, process, progress.add_task(run.label, total=run.config.train.steps, facts=""))


def _report(started: _Started, console: Console) -> list[Planned]:
    """Say how a run ended; returns it if it failed."""
    files = RunFolder(started.planned.folder)
    if files.finished:
        result = files.record().result
        shown = "accuracy" if "accuracy" in result.measures else "perplexity"
        console.print(f"{started.planned.label:<28} {shown} {result.measures[shown]:.4g}", highlight=False)
        return []
    lines = (started.planned.folder / "console.log").read_text(errors="replace").splitlines()[-_LAST_LINES:]
    console.print(f"[red]{started.planned.label} failed[/] (exit code {started.process.returncode}):")
    for line in lines:
        console.print(f"    {line}", markup=False, highlight=False)
    return [started.planned]


def _show_state(started: _Started, progress: Progress) -> None:
    with contextlib.suppress(OelmError, OSError, ValueError):
        state = RunFolder(started.planned.folder).state()
        if state is not None and state.pid == started.process.pid:
            facts = f"PPL {state.perplexity:.2f}" if state.perplexity else ""
            progress.update(started.bar, completed=state.step, facts=facts)


@contextlib.contextmanager
def _ended_together(running: list[_Started]) -> Iterator[None]:
    """However we end, the runs are asked to save and are waited for; none is left behind."""
    try:
        yield
    finally:
        for started in running:
            started.process.terminate()
        for started in running:
            started.process.wait()


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _display(console: Console, runs: int, done: int) -> Iterator[tuple[Progress, TaskID]]:
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task("[bold]all runs", total=runs, completed=done, facts="")
