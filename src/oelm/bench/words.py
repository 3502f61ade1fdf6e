"""A record as titles, columns, cells and remarks: what the terminal and Markdown both show."""

from dataclasses import dataclass
from statistics import median

from oelm.bench.bench_record import (
    BenchRecord,
    PaperRow,
    Parallel,
    Preparing,
    Profile,
    Ratio,
    Row,
    Scaling,
    ScalingFit,
    StepBench,
)
from oelm.bench.spec import What
from oelm.config.model import Style

_TITLES = {
    What.TRAIN: "training step",
    What.VALIDATE: "validation",
    What.GENERATE: "generation",
    What.FINETUNE: "fine-tuning step",
    What.SCALING: "scaling of a training step",
    What.PARALLEL: "data-parallel training step",
    What.PROFILE: "where a training step's time goes",
    What.PREPARE: "text to tokens",
}
_MEGA = 1e6


@dataclass(frozen=True)
class Sheet:
    """One table with its title and the sentences below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]


def sheets(record: BenchRecord) -> tuple[Sheet, ...]:
    """Every table of a record."""
    return (
        *(_steps(bench) for bench in record.steps),
        *(_coefficients(scaling) for scaling in record.scaling),
        *(_points(fit) for scaling in record.scaling for fit in scaling.fits),
        *(_parallel(bench) for bench in record.parallel),
        *(_profile(bench) for bench in record.profiles),
        *(_preparing(bench) for bench in record.preparing),
        *([_paper(record.paper)] if record.parallel and record.paper else []),
    )


def machine_line(record: BenchRecord) -> str:
    """On what it was measured."""
    where = record.environment
    device = record.processor if where.device == "cpu" else where.device
    rate = "" if record.matmul_gflops is None else f", matmul {record.matmul_gflops:,.0f} GFLOP/s"
    preloaded = f", with {where.preloaded}" if where.preloaded else ""
    return (
        f"{device}, {_count(where.threads, 'thread')} of {_count(record.cores, 'core')}{rate}, "
        f"torch {where.torch}{preloaded}"
    )


def ratio_text(ratio: Ratio | None) -> tuple[str, str, str]:
    """Median, interval and decision of a ratio; dashes for the reference itself."""
    if ratio is None:
        return "1", "", "reference"
    interval = "" if ratio.low is None or ratio.high is None else f"{ratio.low:.3f}–{ratio.high:.3f}"
    return f"{ratio.median:.3f}", interval, ratio.decision.value


# --- steps -------------------------------------------------------------------------------------------------------


def _steps(bench: StepBench) -> Sheet:
    spec = bench.spec
    columns = ("", "ms", "tokens/s", _share(bench), "ratio", "95 %", "", "FLOPs")
    memory = ("MB",) if spec.memory else ()
    return Sheet(
        title=f"{_TITLES[spec.what]}, {spec.size}: {_size(bench)}",
        columns=(*columns, *memory),
        rows=tuple((*_step_cells(row), *([_bytes(row.peak_bytes)] if memory else [])) for row in bench.rows),
        remarks=_step_remarks(bench),
    )


def _share(bench: StepBench) -> str:
    """Of the data sheet's peak, or of the machine's own matrix product."""
    return "% peak" if bench.peak.source.startswith("data sheet") else "% mm"


def _step_cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _milliseconds(row.median_seconds),
        f"{row.tokens_per_second:,.0f}",
        f"{100 * row.share:.1f}",
        *ratio_text(row.ratio),
        "" if row.flop_bound is None else f"{row.flop_bound:.3f}",
    )


def _step_remarks(bench: StepBench) -> tuple[str, ...]:
    spec, rate = bench.spec, bench.peak.flops_per_second / 1e9
    ratio = bench.rows[0].ratio or bench.rows[-1].ratio
    coverage = (
        f" (order statistics, coverage {100 * ratio.coverage:.1f} %)"
        if ratio and ratio.coverage
        else ": none, it takes at least 6 rounds"
    )
    remarks = [
        f"Ratio: time / {spec.reference}'s, the median over {_count(spec.rounds, 'round')} of the ratio within a "
        f"round of {_count(spec.repeats, 'step')} each, in random order in one process; 95 %: sign interval of that "
        f"median{coverage}. Not decided: the interval includes 1.",
        f"{_share(bench)}: {bench.formula} = {bench.useful_flops / 1e9:,.3g} GFLOP for every row, in the best step, "
        f"of {rate:,.0f} GFLOP/s ({bench.peak.source}).",
        f"FLOPs: of the matrix products that the method needs, over {spec.reference}'s. They bound what is saved in "
        "products; passes over weights (AdamW, clipping) are not in them, so fewer trained weights can save more.",
    ]
    if spec.peers and bench.peak.source.startswith("measured"):
        remarks.append("Peers run with the C library's default memory; keeping freed memory is part of our engine.")
    if spec.memory:
        remarks.append(f"MB: peak memory, {bench.memory}, each in a process of its own.")
    ours = spec.methods if spec.compile else ()
    compiled = [row for row in bench.rows if row.name in ours or row.name.endswith(", compiled")]
    if compiled:
        remarks.append(
            "First step, with compilation: "
            + ", ".join(f"{row.name} {row.first_seconds:.0f} s" for row in compiled)
            + "."
        )
    return tuple(remarks)


def _size(bench: StepBench | Scaling | Parallel | Profile) -> str:
    spec, shape = bench.spec, bench.spec.shape
    if spec.what is What.GENERATE:
        amount = f"{spec.tokens} tokens after {spec.prompt_length}"
    else:
        amount = f"{spec.batch_size} x {shape.context} tokens"
    style = "" if shape.style is Style.GPT else f"{shape.style.value} style, "
    return (
        f"{style}{_count(shape.layers, 'layer')}, width {shape.width}, {_count(shape.heads, 'head')}, "
        f"vocabulary {shape.vocabulary:,}, {amount}, {spec.precision.value}"
    )


# --- scaling and parallel ----------------------------------------------------------------------------------------


def _coefficients(scaling: Scaling) -> Sheet:
    def cells(fit: ScalingFit) -> tuple[str, ...]:
        return (
            fit.method,
            f"{1e3 * fit.fixed:.2f}",
            *(f"{1e12 * value:.2f}" for value in (fit.matmul, fit.attention)),
            f"{1e9 * fit.weights:.3f}",
            f"{100 * fit.rms_residual:.1f}",
            f"{100 * max(abs(point.residual) for point in fit.points):.1f}",
        )

    return Sheet(
        title=f"{_TITLES[What.SCALING]} around {_size(scaling)}",
        columns=("", "fixed, ms", "ms / GFLOP matmul", "ms / GFLOP attention", "ns / weight", "RMS %", "worst %"),
        rows=tuple(cells(fit) for fit in scaling.fits),
        remarks=(
            "seconds = fixed + a x FLOPs of products with weights + b x FLOPs of scores and mixing + c x trained "
            "weights; least squares of (fitted - measured) / measured, no coefficient below 0; medians over "
            f"{_count(scaling.spec.rounds, 'round')}.",
        ),
    )


def _points(fit: ScalingFit) -> Sheet:
    rows = tuple(
        (
            str(point.layers),
            str(point.width),
            str(point.context),
            str(point.batch_size),
            _milliseconds(point.seconds),
            _milliseconds(point.fitted_seconds),
            f"{100 * point.residual:+.1f}",
        )
        for point in fit.points
    )
    columns = ("layers", "width", "context", "batch", "ms", "fitted", "off by %")
    return Sheet(f"{fit.method}: measured and fitted", columns, rows, ())


def _parallel(bench: Parallel) -> Sheet:
    rows = tuple(
        (
            row.method,
            *map(_milliseconds, (row.alone_seconds, row.side_by_side_seconds, row.together_seconds)),
            f"{row.efficiency:.3f}",
            *ratio_text(row.communication)[:2],
            f"{row.trained_bytes / _MEGA:,.1f}",
        )
        for row in bench.rows
    )
    columns = ("", "alone, ms", "side by side", "together", "efficiency", "together / side", "95 %", "MB averaged")
    return Sheet(
        title=f"{_TITLES[What.PARALLEL]}, {bench.processes} processes over {bench.backend}: {_size(bench)} per process",
        columns=columns,
        rows=rows,
        remarks=(
            "Efficiency: median over rounds of alone / together at the same batch per process. Side by side: each "
            "process trains a model of its own, so together / side by side is what averaging the gradients costs.",
        ),
    )


def _profile(bench: Profile) -> Sheet:
    kinds = tuple(kind for kind in bench.rows[0].shares if any(row.shares[kind] for row in bench.rows))
    rows = tuple(
        (row.method, _milliseconds(row.step_seconds), *(f"{100 * row.shares[kind]:.1f}" for kind in kinds))
        for row in bench.rows
    )
    return Sheet(
        title=f"{_TITLES[What.PROFILE]}: {_size(bench)}",
        columns=("", "ms", *kinds),
        rows=rows,
        remarks=(
            f"Per cent of the mean of {_count(bench.spec.rounds, 'step')} under torch's profiler, "
            "which slows them a little. AdamW: with clipping. Softmax: with the loss.",
        ),
    )


def _preparing(bench: Preparing) -> Sheet:
    rows = tuple(
        (
            row.name,
            _milliseconds(median(row.round_seconds)),
            f"{row.bytes_per_second / _MEGA:.1f}",
            *ratio_text(row.ratio),
        )
        for row in bench.rows
    )
    return Sheet(
        title=f"{_TITLES[What.PREPARE]}: {bench.text_bytes / _MEGA:.0f} MB of stories in "
        f"{bench.documents:,} documents, BPE of {bench.spec.shape.vocabulary:,}",
        columns=("", "ms", "MB/s", "ratio", "95 %", ""),
        rows=rows,
        remarks=(
            "The library encodes all documents in memory in one call; `oelm prepare` also reads the file twice, holds "
            "out documents and writes token files with digests. Medians over "
            f"{_count(bench.spec.rounds, 'round')}, in turns.",
        ),
    )


def _paper(rows: tuple[PaperRow, ...]) -> Sheet:
    gpus = tuple(rows[0].all_reduce_bytes)
    cells = tuple(
        (
            row.size,
            row.method,
            f"{row.trained:,}",
            *(f"{value / _MEGA:,.1f}" for value in (row.weight_bytes, row.gradient_bytes, row.optimiser_bytes)),
            *(f"{row.all_reduce_bytes[count] / _MEGA:,.1f}" for count in gpus),
        )
        for row in rows
    )
    sent = tuple(f"sent, {count} GPUs" for count in gpus)
    return Sheet(
        title="On paper, in MB per GPU: float32 gradients and AdamW's moments",
        columns=("size", "", "trained", "weights", "gradients", "optimiser", *sent),
        rows=cells,
        remarks=("Sent: 2 (n-1)/n of the gradients per step, a ring all-reduce.",),
    )


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count / _MEGA:,.0f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
