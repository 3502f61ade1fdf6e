"""A record as tables in the terminal, or as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from oelm.base.errors import ConfigError
from oelm.base.files import read_text
from oelm.bench.bench_record import BenchRecord, StepBench
from oelm.bench.spec import row_name
from oelm.bench.statistics import ratio_of
from oelm.bench.words import Sheet, machine_line, sheets
from oelm.config.settings import complaint


def read_record(path: Path) -> BenchRecord:
    """A record of `oelm bench`."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}", "give a record that `oelm bench --out FILE` has written")
    try:
        return BenchRecord.model_validate_json(read_text(path))
    except ValidationError as error:
        raise ConfigError(f"{path} is not a record of `oelm bench`: {complaint(error)}", "measure anew") from error


def require_contestant(record: BenchRecord, name: str, path: Path) -> None:
    """Refuse a method or peer that took part in nothing that the record's ratios are of."""
    if not any(row.name == row_name(bench.spec, name) for bench in record.steps for row in bench.rows):
        known = ", ".join(dict.fromkeys(row.name for bench in record.steps for row in bench.rows))
        raise ConfigError(
            f"{path} has no contestant {name!r}", f"give one of: {known}" if known else "leave --reference out"
        )


def relative_to(record: BenchRecord, reference: str) -> BenchRecord:
    """The same measurement with ratios to another contestant, where it took part."""

    def changed(bench: StepBench) -> StepBench:
        base = next((row for row in bench.rows if row.name == row_name(bench.spec, reference)), None)
        if base is None:
            return bench
        rows = tuple(
            row.model_copy(
                update={
                    "ratio": None if row is base else ratio_of(row.seconds, base.seconds),
                    "flop_bound": row.flop_bound and base.flop_bound and row.flop_bound / base.flop_bound,
                }
            )
            for row in bench.rows
        )
        return bench.model_copy(update={"rows": rows, "spec": bench.spec.model_copy(update={"reference": reference})})

    return record.model_copy(update={"steps": tuple(map(changed, record.steps))})


def print_record(record: BenchRecord, console: Console) -> None:
    """Print every table; in a narrow terminal names and decisions fold."""
    console.print(machine_line(record), highlight=False, markup=False)
    for sheet in sheets(record):
        console.print()
        console.print(sheet.title, style="bold", highlight=False, markup=False)
        console.print(_table(sheet))
        for remark in sheet.remarks:
            console.print(remark, style="dim", highlight=False, markup=False)


def _table(sheet: Sheet) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for index, column in enumerate(sheet.columns):
        cells = [row[index] for row in sheet.rows]
        words = any(" " in cell for cell in cells)  # names and decisions may fold, numbers may not
        table.add_column(column, justify="right" if index else "left", no_wrap=not words, overflow="fold")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def record_markdown(record: BenchRecord) -> str:
    """The same as Markdown."""
    parts = [machine_line(record)]
    for sheet in sheets(record):
        parts += [f"**{sheet.title[:1].upper()}{sheet.title[1:]}**", sheet_markdown(sheet)]
        parts += ["\n".join(f"- {remark}" for remark in sheet.remarks)] if sheet.remarks else []
    return "\n\n".join(parts)


def sheet_markdown(sheet: Sheet) -> str:
    """One table."""
    lines = [_line(sheet.columns), _line(["---", *["---:"] * (len(sheet.columns) - 1)])]
    return "\n".join([*lines, *map(_line, sheet.rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
