"""`oelm experiment`: a whole study from one file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option, Typer

from oelm.cli.locations import RUNS, TOKENS

experiment = Typer(no_args_is_help=True, rich_markup_mode=None)

StudyPath = Annotated[Path, Argument(metavar="FILE", help="A study, such as experiments/cpu/quick.yaml.")]
OutDir = Annotated[Path | None, Option("--out-dir", help="Folder for the runs. [default: runs/STUDY]")]
Only = Annotated[list[str] | None, Option("--only", help="Only this arm, by name, method or id; may be repeated.")]
Set = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override, e.g. train.steps=200.")]


class On(StrEnum):
    """What runs are placed on."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


@experiment.command()
def run(
    file: StudyPath,
    out_dir: OutDir = None,
    only: Only = None,
    settings: Set = None,
    on: Annotated[On, Option(help="auto: GPUs if NVML shows any.")] = On.AUTO,
    at_once: Annotated[int | None, Option(min=1, help="Runs at a time. [default: all GPUs, or one per 1 core]")] = None,
    threads: Annotated[int | None, Option(min=1, help="Per run on a CPU. [default: cores / runs at a time]")] = None,
    gpu_free_gib: Annotated[float, Option(min=0, help="Free memory of an idle GPU.")] = 8.0,
    gpu_idle_seconds: Annotated[float, Option(min=0, help="How long it must be idle before a run is started.")] = 30.0,
    results: Annotated[Path | None, Option(help="Copy the records there at the end, to commit them.")] = None,
) -> None:
    """Bring every run to its record, then compare. Finished runs are skipped, interrupted ones resume.

    Killed at any instant, the same command goes on. Several of these, also on several machines with a common
    folder, share the work.
    """
    from oelm.experiments.coordinate import Stopped
    from oelm.experiments.places import choose_engine
    from oelm.experiments.running import keep_records, run_study
    from oelm.experiments.study_file import StudyFile

    console = Console()
    study_file = StudyFile(file, settings or ())
    engine, most = choose_engine(on.value, at_once, threads, free_gib=gpu_free_gib, idle_seconds=gpu_idle_seconds)
    try:
        finished = run_study(
            study_file, out_dir or _out(file), TOKENS, engine, only=only or (), at_once=most, console=console
        )
    except Stopped as stopped:
        console.print(str(stopped))
        raise typer.Exit(stopped.exit_code) from stopped
    if results is not None:
        keep_records(finished, study_file, results)
    from oelm.report.output import OutputFormat, compare_and_write

    folders = [each.folder for each in finished.final]
    compare_and_write(folders, study_file.study.margin, console, OutputFormat.TABLE)


def _out(file: Path) -> Path:
    from oelm.experiments.study import study_name

    return RUNS / study_name(str(file))
