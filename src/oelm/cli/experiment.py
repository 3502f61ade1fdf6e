"""`oelm experiment`: whole studies from files."""

import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from typer import Argument, Option, Typer

from oelm.base.console import Console
from oelm.base.errors import CheckpointError, ConfigError
from oelm.base.files import write_text
from oelm.cli.locations import RUNS, TOKENS

if TYPE_CHECKING:
    from rich.console import Group

    from oelm.experiments.matrix import StudyRun
    from oelm.experiments.run_study import Finished
    from oelm.experiments.study import StudyFile
    from oelm.experiments.study_plan import StudyPlan

experiment = Typer(
    help="A whole study from one file: new, plan, run, attach, status, logs, stop; list, schema.", no_args_is_help=True
)

Files = Annotated[
    list[Path], Argument(metavar="FILE...", help="Studies (experiments/cpu/quick.yaml) or folders of them.")
]
OneFile = Annotated[Path, Argument(metavar="FILE", help="A study, such as experiments/cpu/quick.yaml.")]
OutDir = Annotated[Path | None, Option("--out-dir", help="Folder for the runs. \\[default: runs/STUDY]")]
Only = Annotated[list[str] | None, Option("--only", help="Only this arm, by name, method or id; may be repeated.")]
Profile = Annotated[
    Path | None,
    Option(metavar="FILE", help="Resources of a run on a cluster (YAML) where the study leaves them open."),
]
Set = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override, e.g. train.steps=200.")]

_REFRESH_SECONDS = 2.0
_ATTACHED_LINES = 40


class On(StrEnum):
    """What runs are placed on."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"
    RAY = "ray"
    SLURM = "slurm"


@experiment.command()
def plan(
    files: Files,
    out_dir: OutDir = None,
    only: Only = None,
    settings: Set = None,
    tflops: Annotated[
        float | None, Option(min=0.001, help="Matrix-product speed to plan for. \\[default: measured here]")
    ] = None,
    on: Annotated[On, Option(help="slurm: print also the scripts that would be submitted.")] = On.AUTO,
    profile: Profile = None,
) -> None:
    """Print runs, counts, FLOPs, time, disk and confounds. Nothing is started, prepared or fetched."""
    from oelm.experiments.study_plan import plan_study

    console = Console()
    for file, out in _studies(files, out_dir, settings):
        planned = plan_study(file, out, TOKENS, only or ())
        _print_plan(planned, console, tflops)
        if on is On.SLURM:
            _print_scripts(planned, profile)


@experiment.command()
def run(
    files: Files,
    out_dir: OutDir = None,
    only: Only = None,
    settings: Set = None,
    on: Annotated[On, Option(help="auto: this machine, on its GPUs if NVML shows any.")] = On.AUTO,
    profile: Profile = None,
    at_once: Annotated[int | None, Option(min=1, help="Runs at a time. \\[default: as many as fit]")] = None,
    threads: Annotated[int | None, Option(min=1, help="Per run on a CPU. \\[default: cores / runs at a time]")] = None,
    gpu_free_gib: Annotated[float, Option(min=0, help="Free memory of an idle GPU.")] = 8.0,
    gpu_idle_seconds: Annotated[float, Option(min=0, help="How long it must be idle before a run is started.")] = 30.0,
    results: Annotated[Path | None, Option(help="Copy the records there at the end, to commit them.")] = None,
    amend: Annotated[
        bool, Option("--amend", help="The study has changed: keep its registered plan, write an amendment beside it.")
    ] = False,
    detached: Annotated[
        bool, Option("--detach", help="Go on without this terminal: see `attach`, `status` and `stop`.")
    ] = False,
) -> None:
    """Bring every run to its record, then compare; finished ones are skipped, interrupted ones resume.

    The first start registers the plan (plan.json); a study that has changed since is refused. It ends with a page.
    Killed at any instant, the same command goes on. Several of these, also on several machines with a common folder,
    share the work.
    """
    from oelm.experiments.coordinate import Stopped
    from oelm.experiments.launchers import choose_launcher
    from oelm.experiments.resources import resources_of
    from oelm.experiments.run_study import keep_records, run_study

    console = Console()
    studies = _studies(files, out_dir, settings)
    if detached:
        _detach(studies, console)
        return
    launchers = {
        needs: choose_launcher(on.value, needs, at_once, threads, free_gib=gpu_free_gib, idle_seconds=gpu_idle_seconds)
        for needs in {resources_of(file.study.resources, profile) for file, _ in studies}
    }
    for file, out in studies:
        launcher, most = launchers[resources_of(file.study.resources, profile)]
        try:
            finished = run_study(
                file, out, TOKENS, launcher, only=only or (), at_once=most, console=console, amend=amend
            )
        except Stopped as stopped:
            console.print(str(stopped))
            raise typer.Exit(stopped.exit_code) from stopped
        if results is not None:
            keep_records(finished, file, results)
        _print_comparison(finished, file, console)


@experiment.command()
def status(
    files: Files,
    out_dir: OutDir = None,
    only: Only = None,
    settings: Set = None,
    watch: Annotated[bool, Option("--watch", help="Stay, and show how it changes, until Ctrl-C.")] = False,
) -> None:
    """Every run: state, step, loss, main measure and its best, tokens/s, time left and elapsed, device and its use."""
    from rich.live import Live

    console = Console()
    plans = [_planned(file, out, only) for file, out in _studies(files, out_dir, settings)]
    if not watch:
        console.print(_status(plans))
        return
    with Live(_status(plans), console=console, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(_status(plans), refresh=True)
        except KeyboardInterrupt:
            return


@experiment.command()
def logs(
    file: OneFile,
    name: Annotated[str, Argument(metavar="RUN", help="A run's name, or the beginning of one, as in `status`.")],
    out_dir: OutDir = None,
    settings: Set = None,
    follow: Annotated[bool, Option("-f", "--follow", help="Go on as the run writes, until it ends.")] = False,
    lines: Annotated[int, Option("-n", "--lines", min=0, help="How many of the last lines.")] = 40,
) -> None:
    """Print what a run printed."""
    from oelm.experiments.ownership import is_claimed
    from oelm.experiments.run_status import log_lines
    from oelm.train.folder import RunFolder

    folder = _one_run(_planned(*_one_study(file, out_dir, settings), None), name).folder
    log = RunFolder(folder).console_file
    if not log.is_file():
        raise CheckpointError(f"{folder.name} has not been started", "see `oelm experiment status`")
    _print_lines(log_lines(log, lines, (lambda: is_claimed(folder)) if follow else None))


@experiment.command()
def attach(file: OneFile, out_dir: OutDir = None, settings: Set = None) -> None:
    """Show what a coordinator prints that was started with `run --detach`, until it ends. Ctrl-C leaves it alone."""
    from oelm.base.locks import is_locked
    from oelm.experiments.detached import last_log
    from oelm.experiments.run_status import log_lines

    _, out = _one_study(file, out_dir, settings)
    log = last_log(out)
    try:
        _print_lines(log_lines(log, _ATTACHED_LINES, lambda: is_locked(log)))
    except KeyboardInterrupt:
        Console().print("the coordinator goes on")


@experiment.command()
def stop(
    file: Annotated[Path, Argument(metavar="FILE", help="A study, or a folder of them: all are stopped.")],
    name: Annotated[str | None, Argument(metavar="[RUN]", help="One run. Without it, the whole study.")] = None,
    out_dir: OutDir = None,
    settings: Set = None,
    wait: Annotated[float, Option(min=0, help="Seconds to wait for runs to save themselves.")] = 120.0,
) -> None:
    """Ask coordinators and runs to save and end; `run` goes on later."""
    from oelm.experiments.launchers import stop_in_queue
    from oelm.experiments.ownership import stop_run, stop_study

    console = Console()
    if name is not None:
        chosen = _one_run(_planned(*_one_study(file, out_dir, settings), None), name)
        asked = stop_run(chosen.folder) or bool(stop_in_queue([chosen.folder]))
        console.print(f"{chosen.name}: {'asked to save and end' if asked else 'is not running'}")
        raise typer.Exit(0 if asked else 1)
    plans = {out: _planned(study_file, out, None) for study_file, out in _studies([file], out_dir, settings)}
    still: list[Path] = []
    for out, planned in plans.items():  # in the order of `run`, which has no folder yet for those that come later
        if out.is_dir():
            folders = [each.folder for each in planned.runs]
            stop_in_queue(folders)
            still += stop_study(folders, out, wait_seconds=wait)
    if not any(out.is_dir() for out in plans):
        absent = " and no ".join(map(str, plans))
        console.print(f"nothing to stop: there is no {absent}", highlight=False, soft_wrap=True)
        raise typer.Exit(1)
    if still:
        names = [str(each) if len(plans) > 1 else each.name for each in still]
        console.print(f"still running: {', '.join(names)}", highlight=False)
        raise typer.Exit(1)
    console.print("stopped; `oelm experiment run` goes on", highlight=False)


@experiment.command("list")
def list_shipped() -> None:
    """The studies that come with oelm. Wherever a FILE is asked for, such a name will do."""
    from rich.table import Table

    from oelm.experiments.shipped import shipped_studies
    from oelm.experiments.study import StudyFile

    table = Table(box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("title")
    for name, path in shipped_studies().items():
        table.add_row(name, StudyFile.read(path).study.title)
    Console().print(table)


@experiment.command()
def new(path: Annotated[Path, Argument(metavar="FILE", help="The study to write, such as mine.yaml.")]) -> None:
    """Write a commented study to start from."""
    from oelm.experiments.shipped import write_new_study

    write_new_study(path)
    Console().print(f"{path}: edit it, then `oelm experiment plan {path}`", highlight=False, soft_wrap=True)


@experiment.command()
def schema() -> None:
    """Print the JSON Schema of a study file: for an editor that completes and checks it."""
    import json

    from oelm.experiments.study_schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def _detach(studies: Sequence[tuple["StudyFile", Path]], console: Console) -> None:
    """Start the same command again, without this terminal."""
    from oelm.experiments.detached import detach

    if len(studies) > 1:
        raise ConfigError("--detach is for one study", "start one command for each of them")
    ((file, out),) = studies
    coordinator, log = detach([word for word in sys.argv[1:] if word != "--detach"], out)
    if coordinator.poll() is None:
        again = f"oelm experiment attach {file.path}"
        console.print(f"detached as process {coordinator.pid}; to see it: {again}", highlight=False, soft_wrap=True)
        return
    console.print(log.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True, end="")
    raise typer.Exit(coordinator.returncode)


def _print_lines(lines: Iterable[str]) -> None:
    console = Console()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _studies(
    files: Sequence[Path], out_dir: Path | None, settings: Sequence[str] | None
) -> list[tuple["StudyFile", Path]]:
    """Every study with its folder; all of them are read before anything is done with the first."""
    from oelm.experiments.shipped import study_path
    from oelm.experiments.study import StudyFile

    found = [study_path(given) for given in files]
    paths = [path for given in found for path in (sorted(given.glob("*.yaml")) if given.is_dir() else [given])]
    if not paths:
        raise ConfigError(f"there is no study in {files[0]}", "give a .yaml file, or a folder that holds some")
    if out_dir is not None and len(paths) > 1:
        raise ConfigError("--out-dir is for one study", "leave it out: each study has its own folder in runs/")
    studies = [StudyFile.read(path, settings or ()) for path in paths]
    return [(study, out_dir or RUNS / study.name) for study in studies]


def _one_study(file: Path, out_dir: Path | None, settings: Sequence[str] | None) -> tuple["StudyFile", Path]:
    """The only study of a file or folder."""
    first, *others = _studies([file], out_dir, settings)
    if others:
        names = ", ".join(str(study.path) for study, _ in (first, *others))
        raise ConfigError(f"{file} holds {len(others) + 1} studies, and this is for one", f"give one of: {names}")
    return first


def _planned(file: "StudyFile", out: Path, only: Sequence[str] | None) -> "StudyPlan":
    from oelm.experiments.study_plan import plan_study

    return plan_study(file, out, TOKENS, only or ())


def _print_plan(plan: "StudyPlan", console: Console, tflops: float | None) -> None:
    from oelm.experiments.tables import plan_table
    from oelm.report.confounds import planned_confounds
    from oelm.report.sentences import planned_sentence

    study = plan.study
    console.print(Text.assemble((plan.name, "bold"), f": {study.title} ({study.kind})"))
    if study.question:
        console.print(study.question, highlight=False, markup=False)
    console.print(plan_table(plan))
    console.print(_runs(plan), highlight=False)
    console.print(_costs(plan, tflops), highlight=False)
    warnings = planned_confounds([each.config for each in plan.final], [each.cell.name for each in plan.final])
    for found in warnings:
        console.print(Text.assemble(("confound", "yellow"), f" {planned_sentence(found)}"))
    if not warnings:
        console.print("no confounds in the plan", highlight=False)
    console.print()


def _print_scripts(plan: "StudyPlan", profile: Path | None) -> None:
    """What `run --on slurm` would submit first of each stage. Plain text: it may go into a file."""
    from oelm.experiments.resources import resources_of
    from oelm.experiments.slurm_launcher import AT_ONCE, batch_script
    from oelm.train.folder import RunFolder

    needs = resources_of(plan.study.resources, profile)
    for stage, runs in (("tuning", plan.tuning), ("final", plan.final)):
        waiting = [run for run in runs if not RunFolder(run.folder).finished]
        for processes in sorted({run.config.train.processes for run in waiting}):
            folders = [run.folder.resolve() for run in waiting if run.config.train.processes == processes]
            for first in range(0, len(folders), AT_ONCE):
                array = folders[first : first + AT_ONCE]
                print(f"# {plan.name}, {stage}: {len(array)} runs\n{batch_script(array, processes, needs)}")


def _print_comparison(finished: "Finished", file: "StudyFile", console: Console) -> None:
    from oelm.experiments.tables import reported_table
    from oelm.report.groups import report_runs
    from oelm.report.write_html import as_html
    from oelm.report.write_terminal import print_report

    if finished.diverged:
        names = ", ".join(run.name for run in finished.diverged)
        said = f"{len(finished.diverged)} of {len(finished.final)} runs diverged ({names}): a result, which the same "
        said += "settings give again. Arms that need their records have no verdict."
        console.print(said, highlight=False, markup=False)
    if len(finished.diverged) == len(finished.final):
        return
    report = report_runs([finished.out])
    print_report(report, console)
    if file.study.kind == "reproduction":
        title = "Beside what the original study reported (its figures are one seed each)"
        console.print(title, reported_table(finished.final), sep="\n", highlight=False)
    out, page = finished.out, finished.out / "report.html"
    write_text(page, as_html(report, command=shlex.join(("oelm", "report", str(out), "-o", str(page)))))
    console.print(f"the page: {page.resolve().as_uri()}", highlight=False, soft_wrap=True)


def _runs(plan: "StudyPlan") -> str:
    from oelm.experiments.tables import tuning_rule

    study, tuned = plan.study, ""
    if study.tuning is not None:
        tuned = f"{len(plan.tuning)} tuning runs ({tuning_rule(study.tuning)}) and "
    done = f", {plan.done} done" if plan.done else ""
    return (
        f"{tuned}{len(plan.final)} final runs (seeds {', '.join(map(str, study.seeds))}){done}; primary arm "
        f"{study.primary}, margin {study.margin:g}; data: {', '.join(study.data)}"
    )


def _costs(plan: "StudyPlan", tflops: float | None) -> str:
    from oelm.config.model import GPTConfig
    from oelm.config.run import Precision
    from oelm.experiments.study_plan import estimated_seconds, matmul_flops_per_second, measured_precision
    from oelm.experiments.tables import written_bytes, written_seconds

    disk = "" if plan.disk_bytes is None else f"; disk up to {written_bytes(plan.disk_bytes)}"
    model, precision = plan.rows[0].config.model, plan.rows[0].config.train.precision
    if plan.flops is None or not isinstance(model, GPTConfig):
        return f"FLOPs and time are known once the model is here{disk}"
    if tflops:
        speed, how = tflops * 1e12, ""
    else:
        speed, measured = matmul_flops_per_second(model.width, precision), measured_precision(precision)
        named = "" if measured is precision is Precision.FLOAT32 else f" in {measured.value}"
        unlike = "" if measured is precision else f", though the runs are in {precision.value},"
        how = f", measured on this machine{named}{unlike}"
    where = f"at {speed / 1e12:.3g} TFLOP/s of matrix products{how}"
    seconds = written_seconds(estimated_seconds(plan.flops, speed))
    return f"to do: {plan.flops:.3g} FLOPs, about {seconds} {where} and half of it reached{disk}"


def _status(plans: Sequence["StudyPlan"]) -> "Group":
    from rich.console import Group

    from oelm.experiments.launchers import left_in_queue
    from oelm.experiments.run_status import status_of
    from oelm.experiments.tables import StatusTable, summary

    parts: list[Text | StatusTable] = []
    for each in plans:
        queued = left_in_queue([planned.folder for planned in each.runs]).values()
        rows = [status_of(planned, queued) for planned in each.runs]
        parts += [Text.assemble((each.name, "bold"), f": {summary(rows)}"), StatusTable(rows)]
        failed = [row for row in rows if row.reason and row.status == "failed"]
        parts += [Text.assemble((row.run.name, "red"), f": {row.reason}") for row in failed]
    return Group(*parts)


def _one_run(plan: "StudyPlan", name: str) -> "StudyRun":
    exact = [each for each in plan.runs if each.name == name]
    found = exact or [each for each in plan.runs if each.name.startswith(name)]
    if len(found) != 1:
        known = ", ".join(each.name for each in (found or plan.runs))
        raise ConfigError(
            f"{'several runs begin' if found else 'no run begins'} with {name!r}", f"give one of: {known}"
        )
    return found[0]
