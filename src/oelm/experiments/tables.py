"""Plan and status of a study as tables that fit a terminal."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from oelm.config.measure import Measure
from oelm.config.model import GPTConfig, Style
from oelm.config.original_study import original_record
from oelm.config.record import Record
from oelm.experiments.matrix import StudyRun, main_measure
from oelm.experiments.run_status import RunStatus, Status
from oelm.experiments.study import TuningPlan
from oelm.experiments.study_plan import PlannedCell, StudyPlan
from oelm.train.folder import RunFolder

_COLOURS = {
    Status.WAITING: "dim",
    Status.QUEUED: "blue",
    Status.RUNNING: "cyan",
    Status.INTERRUPTED: "yellow",
    Status.FAILED: "red",
    Status.DIVERGED: "red",
    Status.FINISHED: "green",
}
_SILENT_SECONDS = 60.0
_MANY = 100
"""Runs beyond which their lines are one row of the table (each row of its own takes a millisecond and a half), and a
column in which there is nothing is left out."""
_LEAST_NEEDED = ("loss", "best", "tokens/s", "device", "elapsed")
"""What a narrow terminal does without, this first."""
_Columns = dict[str, tuple[str, ...]]
"""The cells of a table by their heading."""
_NOTHING = "-"


def plan_table(plan: StudyPlan) -> Table:
    """The arms with their weights and costs. Counts are exact, so names are folded on a narrow terminal."""
    table = _table("arm")
    columns = [column for column in _plan_columns(plan) if any(cell != _NOTHING for cell in column[1])]
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for index, row in enumerate(plan.rows):
        name = " ".join(part for part in (row.cell.arm.id, row.cell.name) if part)
        table.add_row(name, *(cells[index] for _, cells in columns))
    return table


def tuning_rule(plan: TuningPlan) -> str:
    """How learning rates will be chosen, the same for every arm."""
    parts = [f"lr {', '.join(f'{lr:g}' for lr in plan.grid)}; seed {plan.seed}"]
    if plan.extend:
        times = "once" if plan.extend == 1 else "twice"
        parts.append(f"a best rate at an edge adds the next one, x{plan.factor:.3g} beyond, at most {times} per arm")
    if plan.refine:
        parts.append("used is the vertex of the parabola in log(lr) through the best and its neighbours")
    if plan.validation == "half":
        parts.append("chosen on one half of the validation documents, judged on the other")
    return "; ".join(parts)


def _plan_columns(plan: StudyPlan) -> list[tuple[str, list[str]]]:
    """Headings with a cell for every row; a column in which there is nothing is left out."""
    rows, tuned = plan.rows, plan.study.tuning is not None
    return [
        ("style", [_style(row) for row in rows]),
        ("lr", ["tuned" if tuned else f"{row.config.optim.lr:g}" for row in rows]),
        ("steps", [_short(row.config.train.steps) for row in rows]),
        *((kind, [_count(row, kind) for row in rows]) for kind in ("trained", "frozen", "absent")),
        ("FLOPs", [_NOTHING if row.flops is None else f"{row.flops:.1e}".replace("e+", "e") for row in rows]),
        ("saved", [_NOTHING if row.saved_share is None else f"{row.saved_share:.1%}" for row in rows]),
        ("reported", [_written_report(_original(row, plan), main_measure(row.config)) for row in rows]),
    ]


def _original(row: PlannedCell, plan: StudyPlan) -> Record | None:
    """What the original reported; a study that does not reproduce it may still use its ids."""
    return original_record(row.cell.arm.id) if plan.study.kind == "reproduction" else None


def _style(row: PlannedCell) -> str:
    """Only if it is not the default."""
    model = row.config.model
    return model.style.value if isinstance(model, GPTConfig) and model.style is not Style.GPT else _NOTHING


def _count(row: PlannedCell, kind: str) -> str:
    if row.counts is None:
        return "?"
    count: int = getattr(row.counts, kind)
    return f"{count:,}" if count else _NOTHING


def _short(count: int) -> str:
    return f"{count // 1000}K" if count >= 10_000 and count % 1000 == 0 else f"{count:,}"


def _written_report(reported: Record | None, measure: Measure) -> str:
    """What somebody else reported, in a few characters."""
    value = reported.result.measures.get(measure.name) if reported else None
    return _NOTHING if value is None else measure.written(value)


def _note(reported: Record | None) -> str:
    """Time and remarks that a reported figure came with."""
    if reported is None or reported.reported is None:
        return ""
    timing, times = reported.timing, []
    if timing.wall_seconds is not None:
        times.append(written_seconds(timing.wall_seconds))
    if timing.mean_step_seconds is not None:
        times.append(f"{timing.mean_step_seconds:g} s/step")
    if timing.validation_seconds is not None:
        times.append(f"validation {written_seconds(timing.validation_seconds)}")
    return "; ".join([", ".join(times), *(remark.english for remark in reported.reported.remarks)]).removeprefix("; ")


def reported_table(runs: Sequence[StudyRun]) -> Table:
    """The finished runs of a study beside what the original reported for their ids."""
    table = _table("arm")
    for heading in ("ours", "seeds", "reported"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for name in dict.fromkeys(run.cell.name for run in runs):
        own = [run for run in runs if run.cell.name == name]
        arm, measure = own[0].cell.arm, main_measure(own[0].config)
        theirs = original_record(arm.id)
        mean = _mean([RunFolder(run.folder).record() for run in own], measure, theirs)
        shown = (_written_report(theirs, measure), _note(theirs))
        table.add_row(" ".join(part for part in (arm.id, name) if part), mean, str(len(own)), *shown)
    return table


def _mean(records: Sequence[Record], measure: Measure, theirs: Record | None) -> str:
    """Over seeds, on the logarithm where the measure has one; of evaluation sets that of theirs, or the first one."""
    measured = [record.result.measures for record in records]
    if measure.read_from == "evaluation":
        wanted = {row.name for row in theirs.evaluations} if theirs else set()
        rows = [[*(row for row in each.evaluations if row.name in wanted), *each.evaluations] for each in records]
        measured = [row.measures for own in rows for row in own[:1]]
    if measure.logarithm is not None:
        return measure.written(math.exp(fmean(values[measure.logarithm] for values in measured)))
    return measure.written(fmean(values[measure.name] for values in measured))


@dataclass(frozen=True)
class StatusTable:
    """Every run: its state, how good it is and was at best, how long it takes, what it runs on and how busy that is.

    A terminal that is too narrow for all of it shows whole names and fewer columns.
    """

    rows: Sequence[RunStatus]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich asks for it, and says how much room there is."""
        many = len(self.rows) > _MANY
        columns = _fitting(self._columns(), options.max_width, without_empty=many)
        if many:
            columns = {heading: ("\n".join(cells),) for heading, cells in columns.items()}
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for heading in columns:
            justify: Literal["left", "right"] = "left" if heading in ("run", "state", "device") else "right"
            overflow: Literal["fold", "ellipsis"] = "fold" if heading == "run" else "ellipsis"
            table.add_column(heading, justify=justify, overflow=overflow, no_wrap=many)
        for line in zip(*columns.values(), strict=True):
            table.add_row(line[0], Text.from_markup(line[1]), *line[2:])
        yield table

    def _columns(self) -> _Columns:
        measure = self.rows[0].run.measure.title.english
        headings = ("run", "state", "step", "loss", measure, "best", "tokens/s", "left", "elapsed", "device")
        lines = [(row.run.name, _state(row), *progress(row)) for row in self.rows]
        return dict(zip(headings, zip(*lines, strict=True), strict=True))


def _fitting(columns: _Columns, width: int, *, without_empty: bool) -> _Columns:
    """As many as the width has room for: those in which there is nothing go first, then the least needed."""
    empty = [heading for heading, cells in columns.items() if not any(cells)]
    if without_empty:
        columns = {heading: cells for heading, cells in columns.items() if heading not in empty}
    for heading in (*empty, *_LEAST_NEEDED):
        if _width(columns) <= width:
            break
        columns = {each: cells for each, cells in columns.items() if each != heading}
    return columns


def _width(columns: _Columns) -> int:
    """What a table takes that cuts nothing off: two blanks between columns, one at each edge."""
    shown = {**columns, "state": tuple(Text.from_markup(cell).plain for cell in columns["state"])}
    return sum(2 + max(map(cell_len, (heading, *cells))) for heading, cells in shown.items())


def _state(row: RunStatus) -> str:
    """With markup: words of ours only."""
    return f"[{_COLOURS[row.status]}]{row.status}[/]{' (silent)' if is_silent(row) else ''}"


def is_silent(row: RunStatus) -> bool:
    """Whether a run that should be under way has not given a sign of life for a while."""
    heard = row.state.heartbeat_at if row.status is Status.RUNNING and row.state else None
    return heard is not None and time.time() - heard > _SILENT_SECONDS


def progress(row: RunStatus) -> list[str]:
    """Step, loss, quality, the best so far, speed, time left, elapsed and device, as far as they are known."""
    return [*_numbers(row), _device(row)]


def _numbers(row: RunStatus) -> list[str]:
    steps, state = row.run.steps, row.state
    elapsed = "" if row.elapsed_seconds is None else written_seconds(row.elapsed_seconds)
    if row.status is Status.FINISHED:
        return [
            f"{steps:,}/{steps:,}",
            _number(row.measures.get("loss"), ".4f"),
            row.quality,
            row.best,
            "",
            "",
            elapsed,
        ]
    if state is None:
        return [""] * 7
    running = row.status is Status.RUNNING
    return [
        f"{state.step:,}/{state.steps:,}" if state.step else "",
        _number(state.loss, ".4f"),
        row.quality,
        row.best,
        _number(state.tokens_per_second, ",.0f") if running else "",
        written_seconds(state.seconds_left) if running and state.seconds_left is not None else "",
        elapsed,
    ]


def _device(row: RunStatus) -> str:
    """`gpu 0, 93 %, 21 GB`: of a run that is under way."""
    parts, state = [row.device or ""], row.state
    if row.status is Status.RUNNING and state is not None:
        parts.append(f"{state.utilisation:.0%}".replace("%", " %") if state.utilisation is not None else "")
        parts.append(written_bytes(state.memory_bytes) if state.memory_bytes is not None else "")
    return ", ".join(part for part in parts if part)


def summary(rows: Sequence[RunStatus]) -> str:
    """`27 runs: 12 finished, 2 running, 13 waiting`."""
    counts = [(status, sum(row.status is status for row in rows)) for status in Status]
    return f"{len(rows)} runs: " + ", ".join(f"{count} {status}" for status, count in counts if count)


def written_seconds(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `4 d 2 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def written_bytes(size: float) -> str:
    """`12 MB`, `3.4 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _table(first: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, overflow="fold")
    return table
