"""Registering a study: its plan is written once, at the first start, and every later start must agree with it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oelm.base.errors import CheckpointError, ConfigError, UnreadableError
from oelm.base.files import read_json, write_text
from oelm.base.locks import FileLock
from oelm.config.methods import control_of
from oelm.config.record import RunState, StateFile
from oelm.config.registered import (
    AMENDMENTS,
    PLAN_FILE,
    RegisteredArm,
    RegisteredPlan,
    file_digest,
    plan_differences,
    settings_to_plan,
)
from oelm.config.run import RunConfig
from oelm.config.settings import parse
from oelm.config.study_role import PlanStamp
from oelm.experiments.matrix import StudyRun, StudyRuns
from oelm.train.folder import RunFolder
from oelm.train.provenance import git_state

_SHOWN = 3
"""How many differences an error names."""


def register(planned: StudyRuns, *, amend: bool) -> PlanStamp:
    """The plan under which runs are started now: written if there is none yet, amended if asked, else the same.

    A study that no longer is what was registered is refused before any run.
    """
    out, now = planned.out, plan_of(planned)
    with FileLock.wait_for(out / "plan.lock"):  # coordinators that start together register one plan
        files = plan_files(out)
        if not files:
            _write(now, out / PLAN_FILE)
        else:
            _agree(now, files, out, amend=amend)
        return _stamp(plan_files(out))


def plan_of(planned: StudyRuns) -> RegisteredPlan:
    """All arms of the study, also where only some are run now, on the data as it is."""
    study = planned.study
    first = {run.cell.name: run for run in reversed(replace(planned, cells=study.cells).final())}
    commit, dirty = git_state()
    return RegisteredPlan(
        study=planned.name,
        title=study.title,
        question=study.question,
        kind=study.kind,
        primary=study.primary,
        margin=study.margin,
        seeds=study.seeds,
        looks=study.looks,
        tuning=study.tuning.model_dump(mode="json") if study.tuning else None,
        evaluate=study.evaluate.model_dump(mode="json") if study.evaluate else None,
        arms={cell.name: _arm(first[cell.name].config, is_tuned=study.tuning is not None) for cell in study.cells},
        data={cell.data: first[cell.name].config.data.digest for cell in study.cells},
        git_commit=commit,
        git_dirty=dirty,
        registered_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        runs_before=len(_seen(planned.out)),
    )


def _seen(out: Path) -> set[Path]:
    """Runs of which something is known: finished, diverged, or validated at least once."""
    states = (RunFolder(file.parent) for file in out.rglob("state.json"))
    begun = {run.path for run in states if (state := run.state()) and _tells(state)}
    return begun | {file.parent for file in out.rglob("record.json")}


def _tells(state: StateFile) -> bool:
    return state.state is RunState.DIVERGED or bool(state.measures)


def plan_files(out: Path) -> list[Path]:
    """The registered plan, if there is one, and its amendments in their order."""
    if not (out / PLAN_FILE).is_file():
        return []
    numbered = (path for path in out.glob(AMENDMENTS) if path.is_file() and _number(path).isdecimal())
    return [out / PLAN_FILE, *sorted(numbered, key=lambda path: int(_number(path)))]


def _number(amendment: Path) -> str:
    return amendment.stem.rpartition("-")[2]


def under_plan(runs: Sequence[StudyRun], stamp: PlanStamp) -> list[StudyRun]:
    """The same runs, whose records will name the plan."""
    return [replace(run, config=_stamped(run.config, stamp)) for run in runs]


def _stamped(config: RunConfig, stamp: PlanStamp) -> RunConfig:
    assert config.study is not None, "runs of a study know it"
    return config.model_copy(update={"study": config.study.model_copy(update={"plan": stamp})})


def _agree(now: RegisteredPlan, files: Sequence[Path], out: Path, *, amend: bool) -> None:
    last = read_plan(files[-1])
    found = plan_differences(last, now)
    if not found:
        return
    if amend:
        amended = now.model_copy(update={"amends": file_digest(files[-1].read_bytes())})
        _write(amended, out / AMENDMENTS.replace("*", str(len(files))))
        return
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    said = "; ".join(found[:_SHOWN])
    raise ConfigError(
        f"the study is not the one that was registered in {files[-1]} at {last.registered_at}: {said}{more}",
        "put it back, choose another --out-dir, or add --amend, which keeps the registered plan and writes an "
        "amendment beside it",
    )


def _arm(config: RunConfig, *, is_tuned: bool) -> RegisteredArm:
    settings = settings_to_plan(config, is_tuned=is_tuned)
    return RegisteredArm(method=config.method.name, control=control_of(config.method), settings=settings)


def _stamp(files: Sequence[Path]) -> PlanStamp:
    digests, plan = [file_digest(path.read_bytes()) for path in files], read_plan(files[0])
    return PlanStamp(
        digest=digests[0],
        registered_at=plan.registered_at,
        git_commit=plan.git_commit,
        git_dirty=plan.git_dirty,
        runs_before=plan.runs_before,
        amendments=tuple(digests[1:]),
    )


def read_plan(path: Path) -> RegisteredPlan:
    """A plan or an amendment from its file."""
    try:
        values = read_json(path)
    except (OSError, UnreadableError) as error:
        raise CheckpointError(
            f"the registered plan {path} cannot be read ({error})", "put it back as it was, or choose another --out-dir"
        ) from error
    return parse(RegisteredPlan, values, str(path))


def _write(plan: RegisteredPlan, path: Path) -> None:
    write_text(path, plan.model_dump_json(indent=2) + "\n")
