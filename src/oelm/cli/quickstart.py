"""`oelm quickstart`: the whole idea on the built-in corpus, from text to a verdict and its page."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from oelm.base.console import Console
from oelm.base.files import write_text
from oelm.cli.locations import RUNS

STUDY = Path(__file__).parents[1] / "experiments" / "quickstart.yaml"


def quickstart(
    out_dir: Annotated[Path, Option("--out-dir", help="Folder for the data and the runs.")] = RUNS / "quickstart",
    seeds: Annotated[int, Option(min=1, help="Paired seeds per method; a verdict needs three.")] = 3,
    steps: Annotated[int, Option(min=20, help="Steps per run.")] = 400,
    at_once: Annotated[int, Option(min=1, help="Runs at a time.")] = 2,
) -> None:
    """Train six methods with paired seeds on the built-in corpus and say whether freezing cost quality.

    Offline, a few minutes on two cores. Interrupted, the same command goes on where it stopped.
    """
    from oelm.experiments.local_launcher import local_launcher
    from oelm.experiments.run_study import run_study
    from oelm.experiments.study import StudyFile
    from oelm.report.groups import report_runs
    from oelm.report.write_html import as_html
    from oelm.report.write_terminal import print_report

    console, fifth = Console(), max(10, steps // 5)  # a short trial should train more than it validates
    lengths = {"steps": steps, "validate_every": fifth, "warmup_steps": fifth}
    settings = [f"seeds={list(range(seeds))}", *(f"train.{name}={value}" for name, value in lengths.items())]
    study = StudyFile.read(STUDY, settings)
    launcher, most = local_launcher("cpu", at_once, None, free_gib=0, idle_seconds=0)
    run_study(study, out_dir, out_dir / "data", launcher, only=(), at_once=most, console=console)
    report, page = report_runs([out_dir]), out_dir / "report.html"
    print_report(report, console)
    write_text(page, as_html(report, command=shlex.join(("oelm", "report", str(out_dir), "-o", str(page)))))
    console.print("All arms had one learning rate, and each one's own best may differ: a demonstration, not evidence.")
    console.print(f"\nagain: oelm compare {out_dir}   curves: tensorboard --logdir {out_dir}", highlight=False)
    console.print(
        f"\nthe page: {page} (one file, also to be copied from a server)\n"
        f"open it in a browser: {page.resolve().as_uri()}",
        highlight=False,
        soft_wrap=True,
    )
