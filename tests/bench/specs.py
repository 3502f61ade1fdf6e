"""Tiny measurements, and records made up of numbers that are easy to check."""

from oelm.bench.bench_record import BenchRecord, PaperRow, Peak, Row, Scaling, ScalingFit, ScalingPoint, StepBench
from oelm.bench.spec import BenchRequest, BenchSpec, What, specs_of
from oelm.bench.statistics import ratio_of
from oelm.config.record import Environment

TINY = BenchRequest(
    layers=1,
    width=16,
    heads=2,
    batch_size=2,
    seq_len=8,
    vocab_size=31,
    tokens=3,
    methods=("baseline", "oelm"),
    rounds=6,
    repeats=1,
    threads=1,
    device="cpu",
    memory=False,
)


def tiny(what: What) -> BenchRequest:
    return TINY.model_copy(update={"what": (what,)})


def tiny_spec(what: What) -> BenchSpec:
    (spec,) = specs_of(tiny(what))
    return spec


def made_up_record() -> BenchRecord:
    """`oelm` takes 0.9 of the baseline's time in every round, the plain GPT 0.8 to 1.2 of it."""
    times = {
        "baseline": [1.0] * 6,
        "oelm": [0.9] * 6,
        "plain PyTorch GPT": [0.8, 0.9, 1.0, 1.0, 1.1, 1.2],
    }
    return BenchRecord(
        request=TINY,
        environment=Environment(
            oelm="0", python="3", torch="2", device="cpu", threads=1, git_commit=None, git_dirty=None
        ),
        processor="a processor",
        cores=2,
        matmul_gflops=50.0,
        steps=(made_up_steps(times),),
        scaling=(made_up_scaling(),),
        paper=(
            PaperRow(
                size="custom",
                method="oelm",
                trained=10,
                weight_bytes=48,
                gradient_bytes=40,
                optimiser_bytes=80,
                all_reduce_bytes={8: 70.0, 64: 78.75},
            ),
        ),
    )


def made_up_steps(times: dict[str, list[float]]) -> StepBench:
    spec = tiny_spec(What.TRAIN)
    rows = tuple(
        Row(
            name=name,
            seconds=tuple(seconds),
            median_seconds=sorted(seconds)[len(seconds) // 2],
            best_seconds=min(seconds),
            first_seconds=2.0,
            tokens_per_second=16.0,
            share=0.5,
            ratio=None if name == "baseline" else ratio_of(seconds, times["baseline"]),
            flop_bound=0.95 if name == "oelm" else 1.0,
            peak_bytes=None,
        )
        for name, seconds in times.items()
    )
    peak = Peak(flops_per_second=50e9, source="measured: a product")
    return StepBench(spec=spec, peak=peak, useful_flops=1e9, formula="f", memory="not measured", rows=rows)


def made_up_scaling() -> Scaling:
    points = tuple(
        ScalingPoint(
            layers=layers,
            width=16,
            context=8,
            batch_size=2,
            seconds=float(layers),
            matmul_flops=1.0,
            attention_flops=1.0,
            trained_weights=1,
            fitted_seconds=1.1 * layers,
        )
        for layers in (1, 2)
    )
    fit = ScalingFit(method="oelm", fixed=0.1, matmul=1e-9, attention=1e-9, weights=0.0, points=points)
    return Scaling(spec=tiny_spec(What.SCALING), fits=(fit,))
