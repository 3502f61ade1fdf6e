"""A whole measurement: every question that was asked, and one record of the answers."""

import os

import torch

from oelm.base.runtime import Runtime, choose_runtime, processor
from oelm.bench.bench_record import BenchRecord, PaperRow, Parallel, Preparing, Profile, Scaling, StepBench
from oelm.bench.device_peak import MatrixProduct
from oelm.bench.paper import paper_rows
from oelm.bench.parallel import measure_parallel
from oelm.bench.peers import require_compiler
from oelm.bench.preparing import measure_preparing
from oelm.bench.profile import measure_profile
from oelm.bench.rounds import Emit
from oelm.bench.scaling import measure_scaling
from oelm.bench.spec import BenchRequest, BenchSpec, What, specs_of
from oelm.bench.timed_steps import measure_steps
from oelm.config.run import Precision
from oelm.train.provenance import environment

_COMPILED_GRAPHS = 64


def run_bench(request: BenchRequest, emit: Emit) -> BenchRecord:
    """Measure everything that was asked for; `emit` is told what is going on."""
    specs = specs_of(request)
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    runtime = choose_runtime(request.device)
    if request.compile or request.compiled_peers:
        require_compiler(runtime)
        torch._dynamo.config.recompile_limit = _COMPILED_GRAPHS  # one graph per contestant
    steps: list[StepBench] = []
    scaling: list[Scaling] = []
    parallel: list[Parallel] = []
    profiles: list[Profile] = []
    preparing: list[Preparing] = []
    for spec in specs:
        match spec.what:
            case What.SCALING:
                scaling.append(measure_scaling(spec, runtime, emit))
            case What.PARALLEL:
                parallel.append(measure_parallel(spec, runtime, emit))
            case What.PROFILE:
                profiles.append(measure_profile(spec, runtime, emit))
            case What.PREPARE:
                preparing.append(measure_preparing(spec, runtime, emit))
            case _:
                steps.append(measure_steps(spec, runtime, emit))
    return BenchRecord(
        request=request,
        environment=environment(runtime),
        processor=processor(),
        cores=os.cpu_count() or 1,
        matmul_gflops=_matmul_gflops(runtime, steps),
        steps=tuple(steps),
        scaling=tuple(scaling),
        parallel=tuple(parallel),
        profiles=tuple(profiles),
        preparing=tuple(preparing),
        paper=_on_paper(specs),
    )


def _on_paper(specs: tuple[BenchSpec, ...]) -> tuple[PaperRow, ...]:
    """Of every size of our GPT that was asked for, once."""
    rows = [row for spec in specs if spec.what not in (What.FINETUNE, What.PREPARE) for row in paper_rows(spec)]
    return tuple({(row.size, row.method): row for row in rows}.values())


def _matmul_gflops(runtime: Runtime, steps: list[StepBench]) -> float | None:
    """The best product of all benches on a CPU; on a GPU each bench has its own peak."""
    if runtime.device.type != "cpu":
        return None
    rates = [bench.peak.flops_per_second for bench in steps]
    if not rates:
        product = MatrixProduct(runtime, Precision.FLOAT32)
        rates = [product.flops_per_second() for _ in range(5)]
    return max(rates) / 1e9
