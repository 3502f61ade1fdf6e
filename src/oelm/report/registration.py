"""Whether runs were planned before they were made: the plan that their records name, and what is missing of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from oelm.config.record import Record
from oelm.config.registered import AMENDMENTS, PLAN_FILE, RegisteredPlan, file_digest
from oelm.config.study import PlanStamp
from oelm.report.sides import study_of

_UP = 2
"""A study's plan lies two folders above its runs."""


@dataclass(frozen=True)
class Registration:
    """Runs of one study that were made under one plan, or under none."""

    study: str | None
    runs: int
    stamp: PlanStamp | None
    """None where no plan was registered: whatever is found is exploratory."""
    missing: tuple[str, ...] | None
    """Planned final runs without a record; None where the file of the plan is not here."""


def registrations(records: Sequence[Record], plans: Mapping[str, RegisteredPlan]) -> tuple[Registration, ...]:
    """One for each study and plan among the final runs that are ours; `plans` are those found, by their digests."""
    groups: dict[tuple[str | None, str | None], list[Record]] = {}
    for record in records:
        if record.source == "measured":
            stamp = _stamp(record)
            groups.setdefault((study_of(record.config), stamp.digest if stamp else None), []).append(record)
    return tuple(_registration(study, group, plans) for (study, _), group in groups.items())


def find_plans(paths: Sequence[Path], records: Sequence[Record]) -> dict[str, RegisteredPlan]:
    """Plans and amendments in, below and just above `paths` that the records name; any other file is passed over."""
    stamps = [stamp for record in records if (stamp := _stamp(record))]
    wanted = {digest for stamp in stamps for digest in (stamp.digest, *stamp.amendments)}
    found: dict[str, RegisteredPlan] = {}
    for file in _candidates(paths) if wanted else ():
        content = file.read_bytes()
        digest = file_digest(content)
        if digest in wanted and digest not in found and (plan := _parsed(content)) is not None:
            found[digest] = plan
    return found


def _registration(study: str | None, group: Sequence[Record], plans: Mapping[str, RegisteredPlan]) -> Registration:
    stamps = [stamp for record in group if (stamp := _stamp(record))]
    if not stamps:
        return Registration(study, len(group), None, None)
    last = max(stamps, key=lambda stamp: len(stamp.amendments))
    named = [plans[digest] for digest in (last.digest, *last.amendments) if digest in plans]
    if len(named) < 1 + len(last.amendments):
        return Registration(study, len(group), last, None)
    made = {(record.config.study.cell, record.config.seed) for record in group if record.config.study}
    planned = dict.fromkeys(run for plan in named for run in plan.runs)
    missing = tuple(f"{cell}-seed{seed}" for cell, seed in planned if (cell, seed) not in made)
    return Registration(study, len(group), last, missing)


def _stamp(record: Record) -> PlanStamp | None:
    return record.config.study.plan if record.config.study else None


def _candidates(paths: Sequence[Path]) -> Iterable[Path]:
    for path in dict.fromkeys(path.resolve() for path in paths):
        for name in (PLAN_FILE, AMENDMENTS):
            yield from (file for folder in path.parents[:_UP] for file in folder.glob(name))
            yield from path.rglob(name) if path.is_dir() else ()


def _parsed(content: bytes) -> RegisteredPlan | None:
    try:
        return RegisteredPlan.model_validate(json.loads(content))
    except (ValueError, ValidationError):
        return None
