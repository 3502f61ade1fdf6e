"""What data-parallel training needs, by arithmetic alone: gradients sent per step, and the memory of the optimiser."""

from oelm.bench.bench_record import PaperRow
from oelm.bench.spec import BenchSpec
from oelm.config.method import Method
from oelm.model.ledger import count_weights

GPUS = (8, 64)
_FLOAT32 = 4
_MOMENTS = 2


def paper_rows(spec: BenchSpec) -> tuple[PaperRow, ...]:
    """One row for each method."""
    return tuple(_row(spec, method) for method in spec.parsed_methods)


def _row(spec: BenchSpec, method: Method) -> PaperRow:
    counts = count_weights(spec.shape, method, total_steps=1)
    gradients = _FLOAT32 * counts.trained
    return PaperRow(
        size=spec.size,
        method=method.name,
        trained=counts.trained,
        weight_bytes=_FLOAT32 * counts.stored,
        gradient_bytes=gradients,
        optimiser_bytes=_MOMENTS * gradients,
        all_reduce_bytes={gpus: ring_bytes(gradients, gpus) for gpus in GPUS},
    )


def ring_bytes(gradient_bytes: int, gpus: int) -> float:
    """2 (n-1)/n of the gradients: each GPU sends so much in a ring all-reduce, and receives as much."""
    return 2 * (gpus - 1) / gpus * gradient_bytes
