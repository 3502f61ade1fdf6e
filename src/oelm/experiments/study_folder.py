"""The runs of a study from its folder alone: those that its registered plan names, started or not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oelm.config.measure import BY_TASK, Measure
from oelm.config.registered import RegisteredPlan
from oelm.experiments.launchers import left_in_queue
from oelm.experiments.register import plan_files, read_plan
from oelm.experiments.run_status import RunStatus, status_of

_TASKS = {"tokens": "language-modelling", "labelled": "classification", "probe": "probing"}
"""By the kind of data."""


@dataclass(frozen=True)
class RegisteredRun:
    """One run of a registered plan."""

    folder: Path
    steps: int
    measure: Measure

    @property
    def name(self) -> str:
        """Unique in the study."""
        return self.folder.name


def study_status(out: Path) -> tuple[str, list[RunStatus]] | None:
    """The study's name and how each of its runs is doing; None where no study was registered in the folder."""
    plans = [read_plan(path) for path in plan_files(out)]
    if not plans:
        return None
    runs = list({run.folder: run for plan in plans for run in _runs(plan, out)}.values())
    queued = left_in_queue([run.folder for run in runs]).values()
    return plans[0].study, [status_of(run, queued) for run in runs]


def _runs(plan: RegisteredPlan, out: Path) -> Iterator[RegisteredRun]:
    """The tuning runs, also those beyond the grid that have been started, then the final ones."""
    tuning: dict[str, Any] = plan.tuning or {"grid": (), "share": 1}
    for cell, arm in plan.arms.items():
        steps = max(1, round(arm.settings["train"]["steps"] * tuning["share"]))
        planned = (out / "tuning" / f"{cell}-lr{rate:g}" for rate in tuning["grid"])
        started = sorted(out.glob(f"tuning/{cell}-lr*"))
        yield from (RegisteredRun(folder, steps, _measure(arm.settings)) for folder in (*planned, *started))
    for cell, seed in plan.runs:
        settings = plan.arms[cell].settings
        yield RegisteredRun(out / "final" / f"{cell}-seed{seed}", settings["train"]["steps"], _measure(settings))


def _measure(settings: dict[str, Any]) -> Measure:
    return BY_TASK[_TASKS[settings["data"]["kind"]]][0]
