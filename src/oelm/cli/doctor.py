"""`oelm doctor`: what works on this machine, how fast it is, and how long each study would take here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from oelm.base.console import Console
from oelm.base.errors import ConfigError
from oelm.base.files import read_json, ready_to_write, write_text
from oelm.config.settings import parse

if TYPE_CHECKING:
    from oelm.config.doctor_record import DoctorRecord

_COLOURS = {"works": "green", "not here": "dim", "failed": "bold red", "left out": "yellow"}


def doctor(
    studies: Annotated[
        list[Path] | None, Argument(help="Studies to predict. \\[default: all that `oelm experiment list` shows]")
    ] = None,
    out: Annotated[Path, Option(help="The record: send it to us with a question.")] = Path("doctor.json"),
    device: Annotated[
        str, Option(help="auto (a GPU if there is one, also Apple's), cpu, cuda, cuda:N or mps.")
    ] = "auto",
    show: Annotated[bool, Option("--show", help="Print the record that --out names; nothing is run.")] = False,
) -> None:
    """Check this machine in ten minutes: devices, precisions, resume, data parallel; hours of each study.

    Exit code 1 if something that should work does not.
    """
    from oelm.config.doctor_record import DoctorRecord

    record = parse(DoctorRecord, read_json(out), str(out)) if show else _examined(_chosen(studies), device, out)
    _print(record, Console())
    if not record.studies:
        missing = "study" if record.speeds else "speed"
        Console().print(f"no hours: the record has no {missing}", highlight=False, soft_wrap=True)
    if not show:
        Console().print(f"record: {out}", highlight=False, soft_wrap=True)
    if record.failed:
        raise Exit(1)


def _chosen(studies: list[Path] | None) -> list[Path]:
    """The files of the studies that are asked for, by path or by the name of a shipped one; else of all shipped."""
    from oelm.experiments.shipped import shipped_studies, study_path

    found = [study_path(given) for given in studies] if studies else list(shipped_studies().values())
    missing = [str(path) for path in found if not path.is_file()]
    if missing:
        raise ConfigError(
            f"there is no study {missing[0]}", "check the path, or take a name from `oelm experiment list`"
        )
    return found


def _examined(studies: list[Path], device: str, out: Path) -> "DoctorRecord":
    from oelm.experiments.doctor import examine
    from oelm.train.stopping import Interrupted

    ready_to_write(out)  # what cannot be written is refused before it is measured
    try:
        with Console(stderr=True).status("looking at the machine") as status:
            record = examine(studies, device, status.update)
    except Interrupted as interrupted:
        raise Exit(interrupted.exit_code) from interrupted
    write_text(out, record.model_dump_json(indent=2) + "\n")
    return record


def _print(record: "DoctorRecord", console: Console) -> None:
    from oelm.experiments.tables import written_bytes, written_seconds

    made = record.environment
    console.print(
        f"oelm {made.oelm}, Python {made.python}, PyTorch {made.torch}, {record.system}, {record.cores} cores, "
        f"{made.device}; {written_seconds(record.seconds)}",
        highlight=False,
    )
    if record.versions:
        console.print(", ".join(f"{name} {version}" for name, version in record.versions.items()), highlight=False)
    checks = _table("check", "", "what was seen")
    for check in record.checks:
        checks.add_row(check.name, Text(check.outcome.value, style=_COLOURS[check.outcome]), check.note)
    speeds = _table("size", "precision", "device", "sequences", "ms/step", "tokens/s", "TFLOP/s", "peak memory")
    for speed in record.speeds:
        speeds.add_row(
            speed.size,
            speed.precision.value,
            speed.device,
            str(speed.sequences),
            f"{1000 * speed.step_seconds:,.0f}",
            f"{speed.tokens_per_second:,.0f}",
            f"{speed.flops_per_second / 1e12:.3g}",
            written_bytes(speed.peak_bytes),
        )
    studies = _table("study", "runs", "one after the other", "predicted by")
    for each in record.studies:
        most = "at most " if each.at_most else ""
        time = "not known" if each.hours is None else most + written_seconds(3600 * each.hours)
        devices = f" (a run takes {each.devices} devices)" if each.devices > 1 else ""
        studies.add_row(each.study, str(each.runs), time + devices, each.by)
    for table in (checks, speeds, studies):
        if table.row_count:
            console.print(table)


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
