"""The contestants of a measurement."""

from oelm.base.runtime import Runtime
from oelm.bench.contestant import Builder
from oelm.bench.peers import peer_builders
from oelm.bench.spec import BenchSpec, What


def line_up(spec: BenchSpec, runtime: Runtime) -> dict[str, Builder]:
    """The contestants by the names of their rows, in the order of the table."""
    if spec.what is What.FINETUNE:
        from oelm.bench.finetuning import finetuning_builders

        return finetuning_builders(spec, runtime)
    from oelm.bench.ours import our_builders

    return {**our_builders(spec, runtime), **peer_builders(spec, runtime)}
