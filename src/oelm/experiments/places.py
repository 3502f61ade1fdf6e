"""Which engine a person gets: GPUs where there are some, else CPU slots."""

from oelm.experiments.engine import Engine
from oelm.experiments.gpus import IdleGpus, IdleRule, read_gpus, require_gpus
from oelm.experiments.local import CpuSlots, GpuPlaces, LocalEngine, cores


def choose_engine(
    on: str, at_once: int | None, threads: int | None, *, free_gib: float, idle_seconds: float
) -> tuple[Engine, int]:
    """The engine, and how many runs this coordinator has at a time at most."""
    if on == "gpu":
        require_gpus(1)
    gpus = 0 if on == "cpu" else len(read_gpus())
    if gpus:
        rule = IdleRule(free_bytes=int(free_gib * (1 << 30)), seconds=idle_seconds)
        return LocalEngine(GpuPlaces(IdleGpus(rule), total=gpus)), at_once or gpus
    most = at_once or max(1, cores() // (threads or 1))
    return LocalEngine(CpuSlots(most, threads=threads)), most
