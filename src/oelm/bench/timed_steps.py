"""Time the contestants of one question, and say how they compare."""

from statistics import median

from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Peak, Row, StepBench
from oelm.bench.contestant import Contestant
from oelm.bench.device_peak import MatrixProduct, runtime_peak
from oelm.bench.line_up import line_up
from oelm.bench.memory import how_measured, peak_of
from oelm.bench.rounds import Emit, Timed, interleave
from oelm.bench.spec import BenchSpec, row_name
from oelm.bench.statistics import ratio_of
from oelm.bench.useful import formula, timed_tokens, useful_flops


def measure_steps(spec: BenchSpec, runtime: Runtime, emit: Emit) -> StepBench:
    """All contestants in turns, then the memory of each in a process of its own."""
    contestants = {name: build() for name, build in line_up(spec, runtime).items()}
    timed = interleave(
        {name: contestant.act for name, contestant in contestants.items()},
        rounds=spec.rounds,
        repeats=spec.repeats,
        runtime=runtime,
        product=MatrixProduct(runtime, spec.precision),
        emit=lambda line: emit(f"{spec.what} {spec.size}: {line}"),
    )
    peak = runtime_peak(runtime, spec.precision, timed.flops_per_second)
    rows = [_row(spec, name, contestants, timed, peak, _memory(spec, name, emit)) for name in contestants]
    return StepBench(
        spec=spec,
        peak=peak,
        useful_flops=useful_flops(spec),
        formula=formula(spec),
        memory=how_measured(runtime) if spec.memory else "not measured",
        rows=tuple(rows),
    )


def _memory(spec: BenchSpec, name: str, emit: Emit) -> int | None:
    if not spec.memory:
        return None
    emit(f"{spec.what} {spec.size}: memory of {name}")
    return peak_of(spec, name)


def _row(
    spec: BenchSpec, name: str, contestants: dict[str, Contestant], timed: Timed, peak: Peak, peak_bytes: int | None
) -> Row:
    reference = row_name(spec, spec.reference)
    flops, reference_flops = contestants[name].flops, contestants[reference].flops
    middle = median(timed.rounds[name])
    return Row(
        name=name,
        seconds=timed.rounds[name],
        median_seconds=middle,
        best_seconds=timed.best[name],
        first_seconds=timed.first[name],
        tokens_per_second=timed_tokens(spec) / middle,
        share=useful_flops(spec) / timed.best[name] / peak.flops_per_second,
        ratio=None if name == reference else ratio_of(timed.rounds[name], timed.rounds[reference]),
        flop_bound=None if flops is None or reference_flops is None else flops / reference_flops,
        peak_bytes=peak_bytes,
    )
