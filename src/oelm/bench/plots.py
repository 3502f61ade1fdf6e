"""Records as SVG: step-time ratios against what the FLOPs allow, and the fit of the scaling."""

from pathlib import Path
from typing import TYPE_CHECKING

from oelm.base.errors import ConfigError
from oelm.base.files import make_folder, refusing_storage
from oelm.bench.bench_record import BenchRecord, Decision, Row, Scaling, StepBench

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_plots(record: BenchRecord, folder: Path, name: str) -> tuple[Path, ...]:
    """Write every plot of a record as `folder/NAME-WHAT-SIZE.svg`."""
    figures = {
        f"{name}-{bench.spec.what}-{bench.spec.size}": ratio_plot(bench) for bench in record.steps if _plotted(bench)
    }
    figures |= {f"{name}-scaling-{scaling.spec.size}": scaling_plot(scaling) for scaling in record.scaling}
    paths = []
    for stem, figure in figures.items():
        path = make_folder(folder) / f"{stem}.svg"
        with refusing_storage(path):
            figure.savefig(path, metadata={"Date": None, "Creator": None})
        paths.append(path)
    return tuple(paths)


def ratio_plot(bench: StepBench) -> "Figure":
    """Measured ratio over FLOP ratio, a point with its 95 % interval per method; hollow where not decided."""
    figure = new_figure()
    axes = figure.subplots()
    rows = _plotted(bench)
    for row in rows:
        assert row.ratio is not None
        assert row.flop_bound is not None
        ratio, decided = row.ratio, row.ratio.decision is not Decision.NOT_DECIDED
        low, high = ratio.low or ratio.median, ratio.high or ratio.median
        axes.errorbar(
            [row.flop_bound],
            [ratio.median],
            yerr=[[ratio.median - low], [high - ratio.median]],
            fmt="o",
            capsize=3,
            color="tab:blue",
            mfc="tab:blue" if decided else "white",
        )
        axes.annotate(row.name, (row.flop_bound, ratio.median), xytext=(6, 4), textcoords="offset points", fontsize=8)
    bounds = [row.flop_bound for row in rows if row.flop_bound is not None]
    ends = [min(*bounds, 1.0) - 0.03, max(*bounds, 1.0) + 0.03]
    axes.plot(ends, ends, color="grey", linewidth=1, linestyle="--")
    axes.axhline(1.0, color="lightgrey", linewidth=1, zorder=0)
    axes.set_xlabel(f"FLOPs / {bench.spec.reference} (dashed: time follows FLOPs)")
    axes.set_ylabel(f"time / {bench.spec.reference}, median and 95 %")
    return figure


def scaling_plot(scaling: Scaling) -> "Figure":
    """Measured over fitted milliseconds on logarithmic axes, one colour per method."""
    figure = new_figure()
    axes = figure.subplots()
    for fit in scaling.fits:
        fitted = [1e3 * point.fitted_seconds for point in fit.points]
        measured = [1e3 * point.seconds for point in fit.points]
        label = f"{fit.method} (RMS {100 * fit.rms_residual:.1f} %)"
        axes.plot(fitted, measured, "o", label=label, markersize=4)
    ends = [1e3 * f(point.seconds for fit in scaling.fits for point in fit.points) for f in (min, max)]
    axes.plot(ends, ends, color="grey", linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("fitted ms per step")
    axes.set_ylabel("measured ms per step")
    axes.legend(fontsize=8)
    return figure


def _plotted(bench: StepBench) -> list[Row]:
    """The methods: peers all need the baseline's FLOPs and would lie on top of each other."""
    ours = [row for row in bench.rows if row.name.split(",")[0] in bench.spec.methods]
    return [row for row in ours if row.ratio is not None and row.flop_bound is not None]


def new_figure() -> "Figure":
    """An empty figure; equal records give equal files."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("plots need matplotlib", "pip install 'oelm[docs]'") from error
    mpl.rcParams["svg.hashsalt"] = "oelm"
    return Figure(figsize=(6.4, 4.4), layout="constrained")
