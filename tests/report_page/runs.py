"""Studies that never ran, with curves: as many arms, seeds and events as a test wants."""

import math
import random
from collections.abc import Sequence

from oelm.config.record import CurvePoint, Record
from oelm.config.study_role import StudyRole, Tuning
from report.records import make_config, make_record

TEN_METHODS = (
    "baseline",
    "oelm",
    "oelm-random",
    "oelm-random-matched",
    "oelm-global",
    "orthogonal-trained",
    "baseline+shift+gain",
    "oelm-core",
    "oelm-frame",
    "oelm-random-matched+all-but-last=1+until=0.25",
)


def make_study(
    methods: Sequence[str] = TEN_METHODS, seeds: int = 3, events: int = 25, steps: int = 400
) -> list[Record]:
    """One record per method and seed; the later a method stands, the worse it is."""
    return [
        _run(method, seed, 2.5 + 0.015 * place, events, steps)
        for place, method in enumerate(methods)
        for seed in range(seeds)
    ]


def _run(method: str, seed: int, about: float, events: int, steps: int) -> Record:
    loss = about + 0.05 * math.sin(seed) + 0.01 * math.sin(500 * about + seed)
    noise = random.Random(f"{method} {seed}")
    config = make_config(method, seed, steps=steps)
    curve = tuple(_point(event / events, loss, steps, noise) for event in range(1, events + 1))
    record = make_record(config, curve[-1].loss, step_seconds=0.03 + 0.002 * noise.random())
    best = min(curve, key=lambda point: point.loss)
    result = record.result.model_copy(update={"best_step": best.step, "best_loss": best.loss})
    return record.model_copy(update={"curve": curve, "result": result})


def _point(share: float, loss: float, steps: int, noise: random.Random) -> CurvePoint:
    here = loss + 4.5 * math.exp(-6 * share) + 0.004 * noise.random()
    step = round(share * steps)
    return CurvePoint(
        step=step, tokens=2048 * step, seconds=0.031 * step, loss=here, train_loss=here + 0.05 * noise.random()
    )


def make_tuned_study(methods: Sequence[str] = ("baseline", "oelm", "oelm-random-matched")) -> list[Record]:
    """A study on TinyStories with its tuning runs: three learning rates, of which the middle one is taken."""
    grid = (3e-4, 1e-3, 3e-3)
    tuning = Tuning(grid=grid, seed=100, steps=200, runs=3, split="validation", measure="loss")
    final = StudyRole(study="tuned stories", stage="final", primary="oelm", tuning=tuning)
    trial = StudyRole(study="tuned stories", stage="tuning", primary="oelm")
    tried = [
        _in_study(make_record(make_config(method, 100, lr=rate, steps=200), 2.9 + abs(math.log10(rate / 1e-3))), trial)
        for method in methods
        for rate in grid
    ]
    return [*tried, *(_in_study(record, final) for record in make_study(methods))]


def _in_study(record: Record, role: StudyRole) -> Record:
    data = record.config.data.model_copy(update={"name": "tinystories"})
    return record.model_copy(update={"config": record.config.model_copy(update={"study": role, "data": data})})
