"""A simulated study as files: run folders with records, and the plan that was registered for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from oelm.config.record import Record
from oelm.config.registered import RegisteredArm, RegisteredPlan, file_digest, settings_to_plan
from oelm.config.run import RunConfig
from oelm.config.study_role import PlanStamp, StudyRole
from report.records import make_config, make_record

METHODS = ("baseline", "oelm", "oelm-random", "oelm-q", "oelm-random-matched")
"""The control, the primary arm, and others with the same control."""
PRIMARY = METHODS[1]
MARGIN = 1.05
ENTROPY = 5.0
"""Twice the losses: all models have learnt."""
_LOSS = 2.5
_WHEN = "2026-01-01T00:00:00Z"


@dataclass
class WrittenStudy:
    """Below `folder`: what `oelm report` is given. Arms are the first of METHODS; data sets are `corpus0`, ..."""

    folder: Path
    arms: int
    data_sets: int = 1
    digests: list[str] = field(default_factory=list)
    """Of the plan and its amendments; empty for a study without a plan."""

    def register(self, seeds: Sequence[int], looks: int = 1, runs_before: int = 0) -> None:
        """The plan, or an amendment of it."""
        plan = RegisteredPlan(
            study="simulated",
            title="A simulated study",
            question=None,
            kind="confirmation",
            primary=PRIMARY,
            margin=MARGIN,
            seeds=tuple(seeds),
            tuning=None,
            arms=self._arms(),
            data={f"corpus{place}": _digest(place) for place in range(self.data_sets)},
            git_commit="c" * 40,
            git_dirty=False,
            registered_at=_WHEN,
            runs_before=runs_before,
            looks=looks,
            amends=self.digests[-1] if self.digests else None,
        )
        file = self.folder / (f"amendment-{len(self.digests)}.json" if self.digests else "plan.json")
        file.write_text(plan.model_dump_json())
        self.digests.append(file_digest(file.read_bytes()))

    def add_runs(self, values_AS: np.ndarray, seeds: Sequence[int], data_set: int = 0) -> None:
        """A run for each value (log of the perplexity relative to a common one) that is a number."""
        for method, values in zip(METHODS[: self.arms], values_AS, strict=True):
            for seed, value in zip(seeds, values, strict=True):
                if not np.isnan(value):
                    self._write(self._record(method, seed, float(value), data_set))

    def _record(self, method: str, seed: int, value: float, data_set: int) -> Record:
        role = StudyRole(
            study="simulated",
            stage="final",
            cell=self._cell(method, data_set),
            primary=PRIMARY,
            margin=MARGIN,
            plan=self._stamp(),
        )
        config = _config(method, seed, data_set).model_copy(update={"study": role})
        return make_record(config, _LOSS + value, answer_entropy=ENTROPY)

    def _write(self, record: Record) -> None:
        assert record.config.study is not None
        folder = self.folder / "final" / f"{record.config.study.cell}-seed{record.config.seed}"
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(record.model_dump_json())

    def _stamp(self) -> PlanStamp | None:
        if not self.digests:
            return None
        first, *amendments = self.digests
        return PlanStamp(
            digest=first,
            registered_at=_WHEN,
            git_commit="c" * 40,
            git_dirty=False,
            runs_before=0,
            amendments=tuple(amendments),
        )

    def _arms(self) -> Mapping[str, RegisteredArm]:
        return {
            self._cell(method, place): RegisteredArm(
                method=method,
                control="baseline",
                settings=settings_to_plan(_config(method, 0, place), is_tuned=False),
            )
            for place in range(self.data_sets)
            for method in METHODS[: self.arms]
        }

    def _cell(self, method: str, data_set: int) -> str:
        return method if self.data_sets == 1 else f"corpus{data_set}-{method}"


@cache
def _config(method: str, seed: int, data_set: int) -> RunConfig:
    return make_config(method, seed, data=f"corpus{data_set}", digest=_digest(data_set))


def _digest(data_set: int) -> str:
    return str(data_set) * 16
