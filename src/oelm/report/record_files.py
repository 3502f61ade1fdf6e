"""From paths to records, the answers of `oelm eval` beside them, their study files and the plans that they name."""

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from oelm.base.errors import CheckpointError, ConfigError, UnreadableError
from oelm.base.files import PARTIAL_PREFIX, read_json, read_text
from oelm.config.consistency import contradiction, disagreement
from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile
from oelm.config.methods import parse_method
from oelm.config.record import Record, RunState, StateFile, opened
from oelm.config.registered import (
    AMENDMENTS,
    PLAN_FILE,
    RegisteredArm,
    RegisteredPlan,
    file_digest,
    settings_to_plan,
)
from oelm.config.run import RunConfig
from oelm.config.settings import fingerprint, flattened, parse, refuse_unshowable
from oelm.config.study_role import PlanStamp
from oelm.config.yaml_file import plain_values
from oelm.report.arms import cell_of, decides_the_problem, is_of_method

RECORD = "record.json"
CONFIG = "config.yaml"
STATE = "state.json"
STUDY = "study.yaml"
_TEXTS = frozenset({"samples"})
"""Of evaluations: what models wrote."""
_FOLDERS_ABOVE = 2
"""A study's plan lies two folders above its runs."""


@dataclass(frozen=True)
class FoundRun:
    """A record, where it lies, and what its model was asked afterwards."""

    file: Path
    record: Record
    """With the figures of the answers."""
    answers: EvaluationFile | None


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Records are many small objects that all stay: to look among them for garbage takes longer than to read them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_records(paths: Sequence[Path]) -> tuple[Record, ...]:
    """The records of `find_runs`; a damaged one is refused."""
    return tuple(run.record for run in find_runs(paths, strict=True)[0])


@_no_garbage()
def find_runs(paths: Sequence[Path], *, strict: bool = False) -> tuple[tuple[FoundRun, ...], tuple[str, ...]]:
    """The runs of run folders, of `record.json` files and of folders of runs, in the order given.

    One run given twice counts once; two records of one run that disagree are refused, because choosing
    between them would be choosing the result. So is a record that contradicts itself, or another one. A damaged
    record among others, unless it was asked for by its own name, only leaves its run out; the second part says what
    is wrong with each of these, and a report must say so.
    """
    named = {file for path in paths if path.is_file() or (path / RECORD).is_file() for file in _record_files(path)}
    read: list[FoundRun] = []
    damaged: dict[Path, CheckpointError | ConfigError] = {}
    for file in dict.fromkeys(file for path in paths for file in _record_files(path)):
        try:
            read.append(_read_run(file))
        except (CheckpointError, ConfigError) as error:
            if strict or file in named:
                raise
            damaged[file] = error
    if damaged and not read:
        raise next(iter(damaged.values()))
    # A page names no place on somebody's machine.
    told = (error.problem.replace(f"{file.parent.parent}/", "") for file, error in damaged.items())
    return _agreeing(read), tuple(told)


def _read_run(file: Path) -> FoundRun:
    record, answers = read_record(file), _answers(file.with_name(EVALUATION_FILE))
    return FoundRun(file, answers.in_record(record) if answers else record, answers)


def _agreeing(read: Sequence[FoundRun]) -> tuple[FoundRun, ...]:
    """Each run once for each study that planned it; refused where two records cannot both be true."""
    first: dict[tuple[str, ...], FoundRun] = {}
    kept: dict[tuple[str | None, ...], FoundRun] = {}
    for found in read:
        record, role = found.record, found.record.config.study
        run = (f"{record.task} {record.source}", role.stage if role else "", record.config.fingerprint)
        planned_by = (role.study, role.cell) if role and role.plan and role.stage == "final" else ()
        if (unlike := _unlike_result(first.setdefault(run, found).record, record)) is not None:
            raise CheckpointError(
                f"{first[run].file} and {found.file} record the same run with different results ({unlike})",
                "compare only one of them",
            )
        kept.setdefault((*run, *planned_by), found)
    if reason := disagreement({str(run.file): run.record for run in first.values()}):
        raise CheckpointError(reason, "put the files back as the runs wrote them, or leave one of the two out")
    return tuple(kept.values())


def _unlike_result(one: Record, other: Record) -> str | None:
    """In what two records of one run disagree; None where in nothing that is judged."""
    if one.result.loss != other.result.loss:
        return f"loss {one.result.loss} and {other.result.loss}"
    theirs = {(row.name, row.checkpoint): row for row in other.evaluations}
    for row in one.evaluations:
        again = theirs.get((row.name, row.checkpoint))
        if again is not None and (row.measures, row.predictions) != (again.measures, again.predictions):
            return f"answers on {row.name}"
    return None if one.result.measures == other.result.measures else "measures"


def _answers(file: Path) -> EvaluationFile | None:
    """What the model of a run was asked; None where nothing was."""
    if not file.is_file():
        return None
    try:
        values = read_json(file)
    except (OSError, UnreadableError) as error:
        raise CheckpointError(f"cannot read {file}: {error}", "take it away and evaluate the run again") from error
    refuse_unshowable(values, str(file), texts=_TEXTS)
    return parse(EvaluationFile, values, str(file))


def unfinished_runs(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Run folders below `paths` without a record. They are left out, and a report must say so."""
    folders = (config.parent for path in paths if path.is_dir() for config in _found(path, CONFIG))
    return tuple(dict.fromkeys(folder for folder in folders if not (folder / RECORD).is_file()))


def how_it_ended(folder: Path) -> RunState | None:
    """The last state of a run without a record; None where nothing is known of it."""
    try:
        return parse(StateFile, read_json(folder / STATE), str(folder / STATE)).state
    except (OSError, ValueError, ConfigError):
        return None


def read_record(path: Path) -> Record:
    """Read one `record.json`, refused if it contradicts itself."""
    record = _opened(path)
    if reason := contradiction(record):
        fix = "put the file back as the run wrote it, or leave that run out"
        raise CheckpointError(f"{path} contradicts itself: {reason}", fix)
    return record


def _opened(path: Path) -> Record:
    try:
        return opened(read_json(path), str(path))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    except UnreadableError as error:
        fix = f"remove it and run `oelm train --resume --out-dir {path.parent}`, which writes it anew"
        raise CheckpointError(error.problem, fix) from error
    except ConfigError as error:
        fix = "compare records that this version of oelm wrote"
        raise CheckpointError(error.problem.replace(f"{path}:", f"{path} is not a record:", 1), fix) from error


def _record_files(path: Path) -> tuple[Path, ...]:
    """The record files that one argument stands for, resolved so that one file has one name."""
    if path.is_file():
        return (path.resolve(),)
    if not path.exists():
        raise CheckpointError(f"there is no file or folder {path}", "give run folders, or a folder that holds some")
    if (path / RECORD).is_file():
        return ((path / RECORD).resolve(),)
    if files := tuple(file.resolve() for file in _found(path, RECORD)):
        return files
    if unfinished := unfinished_runs([path]):
        fix = f"finish it first: `oelm train --resume --out-dir {unfinished[0]}`"
        raise CheckpointError(f"the run in {unfinished[0]} has no {RECORD}: it is not finished", fix)
    raise CheckpointError(f"{path} holds no run (no {RECORD} in it or below)", "give the folder of a finished run")


def _found(folder: Path, name: str) -> Iterable[Path]:
    """Files of this name in or below `folder`, sorted; half-written folders are not looked into."""
    found = (file for file in folder.rglob(name) if file.is_file())
    return sorted(file for file in found if not any(part.startswith(PARTIAL_PREFIX) for part in file.parts))


# --- study files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyText:
    """What a study says of itself: in its file, which lies beside the records kept of it, or in its plan."""

    study: str
    title: str
    question: str | None
    kind: str | None
    """`screening`, `reproduction`, ..."""
    file: str | None
    """The whole study file; None where only the plan is here."""


def study_texts(runs: Sequence[FoundRun], plans: "Mapping[str, FoundPlan]") -> tuple[StudyText, ...]:
    """One for each study of the runs whose file or plan is here."""
    found: dict[str, StudyText] = {}
    for run in runs:
        role = run.record.config.study
        if role is None or role.study in found:
            continue
        files = (folder / STUDY for folder in run.file.parents[1 : 2 + _FOLDERS_ABOVE])
        file = next((file for file in files if file.is_file()), None)
        plan = plans.get(role.plan.digest) if role.plan else None
        text = _study_text(role.study, file) if file else None
        if text is None and plan is not None:
            text = StudyText(role.study, plan.plan.title, plan.plan.question, plan.plan.kind, None)
        if text is not None:
            found[role.study] = text
    return tuple(found.values())


def _study_text(study: str, file: Path) -> StudyText | None:
    """Only what is shown is read: a file that another version wrote can still be. None for one that is damaged."""
    try:
        text = read_text(file)
        values = plain_values(text, str(file))
    except (OSError, UnreadableError, ConfigError):
        return None
    said = values if isinstance(values, dict) else {}
    title, question, kind = (
        str(said[name]).strip() if said.get(name) else None for name in ("title", "question", "kind")
    )
    return StudyText(study, title or study, question, kind, text)


# --- registered plans ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundPlan:
    """The file of a plan or of an amendment."""

    folder: Path
    """The study's, which holds its runs too."""
    plan: RegisteredPlan


@dataclass(frozen=True)
class Registration:
    """Runs of one study that were made under one plan, or under none; where the plan's file is here, against it."""

    study: str | None
    runs: int
    plan: PlanStamp | None
    """None where no plan was registered: whatever is found is exploratory."""
    missing: tuple[str, ...] | None = None
    """Planned final runs without a record; None where the file of the plan is not here."""
    diverged: tuple[str, ...] = ()
    """Those of them whose loss was no longer a number."""
    failed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    """Runs beyond the plan. They are not judged: whoever adds seeds until the result fits finds one that fits."""
    unlike: tuple[str, ...] = ()
    """Runs with other settings than the plan has for their arm. They are not judged, and count as missing."""
    arms: frozenset[str] = frozenset()
    """The arms that were planned before the runs. Others are shown, and narrow no interval of these."""
    primaries: frozenset[str] = frozenset()
    """Those called as the primary arm is: one for each data set and size."""
    controls: Mapping[str, str] = field(default_factory=dict)
    """The control that was planned for each arm, where it was planned too."""
    negatives: Mapping[str, str] = field(default_factory=dict)
    """For the arms of each experiment the negative control that was planned for it."""
    absent_arms: int = 0
    """Arms that were planned and have no record at all, controls aside."""
    primary: str | None = None
    """The method of the primary arm that was planned, and the margin."""
    margin: float | None = None
    looks: int = 1
    """How many analyses the plan allows for, each with more seeds than the last."""
    is_first: bool = True
    """Whether what is judged was registered before the first run had ended, and not changed since."""
    changed: tuple[str, ...] = ()
    """What of it amendments changed that came after runs had ended; further seeds are a matter of `looks`."""

    def provides_for(self, config: RunConfig) -> bool:
        """Whether a run belongs to an arm that was planned before the runs."""
        stamp = config.study.plan if config.study else None
        return stamp is not None and stamp.digest == self.digest and cell_of(config) in self.arms

    @property
    def digest(self) -> str | None:
        """Of the plan's file."""
        return self.plan.digest if self.plan else None

    def lacks(self, cell: str | None) -> bool:
        """Whether planned runs of an arm, or of the control that was planned for it, are missing."""
        names = {name.rpartition("-seed")[0] for name in self.missing or ()}
        return cell is not None and not names.isdisjoint((cell, self.controls.get(cell, cell)))

    def lacks_negative(self, cell: str | None) -> bool:
        """Whether planned runs of the negative control of an arm's experiment are missing."""
        return self.lacks(self.negatives.get(cell or ""))


def registrations(records: Sequence[Record], plans: Mapping[str, FoundPlan]) -> tuple[Registration, ...]:
    """One for each study and plan among the final runs that are ours; `plans` are those found, by their digests."""
    groups: dict[tuple[str | None, str | None], list[Record]] = {}
    for record in records:
        if record.source == "measured":
            groups.setdefault(_study_and_plan(record), []).append(record)
    planned = _planned_settings(records)
    return tuple(
        _registration(study, group, plans)
        if digest
        else Registration(study, len(group), None, added=tuple(_run_name(r) for r in group if _is_beside(r, planned)))
        for (study, digest), group in groups.items()
    )


def within_plan(records: Sequence[Record], found: Sequence[Registration]) -> list[Record]:
    """The records without those that a plan does not provide for, or that were made beside it for one of its arms."""
    unplanned: dict[tuple[str | None, str | None], tuple[str, ...]]
    unplanned = {(each.study, each.plan.digest): (*each.added, *each.unlike) for each in found if each.plan}
    planned = _planned_settings(records)
    return [
        record
        for record in records
        if not _is_beside(record, planned) and _run_name(record) not in unplanned.get(_study_and_plan(record), ())
    ]


def registration_of(records: Sequence[Record], found: Sequence[Registration]) -> Registration | None:
    """The plan of these runs, also where those of further arms were made beside it; None where there are several."""
    keys = {_study_and_plan(record) for record in records if _stamp(record)}
    return next((each for each in found if each.plan and keys == {(each.study, each.plan.digest)}), None)


def have_several_plans(records: Sequence[Record]) -> bool:
    """Whether runs of one experiment were made under different plans: then none of them fixed what is judged."""
    return len({stamp.digest for record in records if (stamp := _stamp(record))}) > 1


def find_plans(paths: Sequence[Path], records: Sequence[Record]) -> dict[str, FoundPlan]:
    """Plans and amendments in, below and just above `paths` that the records name; any other file is passed over."""
    stamps = [stamp for record in records if (stamp := _stamp(record))]
    wanted = {digest for stamp in stamps for digest in (stamp.digest, *stamp.amendments)}
    found: dict[str, FoundPlan] = {}
    for file in _plan_files(paths) if wanted else ():
        try:
            content = read_text(file).encode()
        except (OSError, UnreadableError):
            continue
        digest = file_digest(content)
        if digest in wanted and digest not in found and (plan := _parsed(content)) is not None:
            found[digest] = FoundPlan(file.parent, plan)
    return found


def _registration(study: str | None, group: Sequence[Record], plans: Mapping[str, FoundPlan]) -> Registration:
    stamps = [stamp for record in group if (stamp := _stamp(record))]
    last = max(stamps, key=lambda stamp: len(stamp.amendments))
    digests = (last.digest, *last.amendments)
    if not all(digest in plans for digest in digests):  # what an amendment changed cannot be seen
        return Registration(study, len(group), last, is_first=last.runs_before == 0 and not last.amendments)
    folder, versions = plans[last.digest].folder, [plans[digest].plan for digest in digests]
    planned, fixed, changed = _planned_runs(versions), _fixed_before_the_runs(versions), _changed_after_runs(versions)
    unlike = {_run_name(record) for record in group if not _is_as_planned(record, versions)} & planned.keys()
    made = set(map(_run_name, group))
    missing = tuple(name for name in planned if name not in made - unlike)
    ended = {name: how_it_ended(folder / "final" / name) for name in missing}
    cells = {record.config.study.cell for record in group if record.config.study}
    return Registration(
        study,
        len(group),
        last,
        missing,
        diverged=tuple(name for name, state in ended.items() if state is RunState.DIVERGED),
        failed=tuple(name for name, state in ended.items() if state is RunState.FAILED),
        added=tuple(sorted(made - planned.keys())),
        unlike=tuple(sorted(unlike)),
        arms=frozenset(fixed.arms),
        primaries=frozenset(fixed.primary_arms),
        controls=_controls(fixed),
        negatives=_negatives(fixed),
        absent_arms=sum(name not in cells and arm.method != arm.control for name, arm in fixed.arms.items()),
        primary=fixed.primary_method,
        margin=fixed.margin,
        looks=fixed.looks,
        is_first=last.runs_before == 0 and not changed,
        changed=changed,
    )


def _fixed_before_the_runs(versions: Sequence[RegisteredPlan]) -> RegisteredPlan:
    """The last version of a plan that had seen no result; the first one where even that had."""
    unseen = [plan for plan in versions if plan.runs_before == 0]
    return unseen[-1] if unseen else versions[0]


def _changed_after_runs(versions: Sequence[RegisteredPlan]) -> tuple[str, ...]:
    """In which keys of the study file later versions differ from what was fixed; new arms and seeds change nothing."""
    fixed = _fixed_before_the_runs(versions)
    later = [plan for plan in versions if plan.runs_before]
    names = [
        name
        for name in ("primary", "margin", "tuning")
        if any(getattr(plan, name) != getattr(fixed, name) for plan in later)
    ]
    arms = any(plan.arms.get(name) != arm for plan in later for name, arm in fixed.arms.items())
    return (*names, "arms") if arms else tuple(names)


def _planned_runs(versions: Sequence[RegisteredPlan]) -> dict[str, None]:
    """The runs that may be judged: those of the plan, and seeds of as many amendments as it allows for further looks.

    An amendment from before any run had ended has seen nothing, so it costs no look.
    """
    fixed = _fixed_before_the_runs(versions)
    later = [plan for plan in versions if plan.runs_before and plan is not fixed]
    seeds, looks = set(fixed.seeds), 1
    for plan in later:
        looks += bool(set(plan.seeds) - seeds)
        seeds |= set(plan.seeds) if looks <= fixed.looks else set()
    runs = (run for plan in (fixed, *later) for run in plan.runs)
    return dict.fromkeys(f"{cell}-seed{seed}" for cell, seed in runs if seed in seeds)


def _is_as_planned(record: Record, versions: Sequence[RegisteredPlan]) -> bool:
    """Whether a run has the settings that some version of the plan has for its arm."""
    cell = record.config.study.cell if record.config.study else None
    planned = [plan for plan in versions if cell in plan.arms]
    return not planned or any(
        plan.arms[cell].settings == settings_to_plan(record.config, is_tuned=plan.tuning is not None)
        for plan in planned
        if cell is not None
    )


def _controls(plan: RegisteredPlan) -> dict[str, str]:
    """By arm: the planned arm with the method of its control, where the same is learned."""
    return _nearest(plan, lambda arm, other: other.method == arm.control != arm.method)


def _negatives(plan: RegisteredPlan) -> dict[str, str]:
    """By arm: the planned arm that must fail where the same is learned."""
    return _nearest(plan, lambda _, other: parse_method(other.method).blind)


def _nearest(plan: RegisteredPlan, belongs: Callable[[RegisteredArm, RegisteredArm], bool]) -> dict[str, str]:
    """By arm, of the others that belong to it and learn the same, the one whose settings are most alike."""
    unlike = {
        (name, other): _unlike(arm, plan.arms[other])
        for name, arm in plan.arms.items()
        for other in plan.arms
        if name != other and belongs(arm, plan.arms[other])
    }
    found: dict[str, str] = {}
    for (name, other), paths in sorted(unlike.items(), key=lambda each: len(each[1])):
        if not any(map(decides_the_problem, paths)):
            found.setdefault(name, other)
    return found


def _unlike(arm: RegisteredArm, other: RegisteredArm) -> list[str]:
    """The settings beside the method in which two planned arms differ."""
    ours, theirs = flattened(arm.settings), flattened(other.settings)
    paths = dict.fromkeys((*ours, *theirs))
    return [path for path in paths if not is_of_method(path) and ours.get(path) != theirs.get(path)]


def _stamp(record: Record) -> PlanStamp | None:
    return record.config.study.plan if record.config.study else None


def _study_and_plan(record: Record) -> tuple[str | None, str | None]:
    study, stamp = record.config.study, _stamp(record)
    return study.study if study else None, stamp.digest if stamp else None


def _run_name(record: Record) -> str:
    """As the plan calls it."""
    study = record.config.study
    return f"{study.cell if study and study.cell else record.method}-seed{record.config.seed}"


def _planned_settings(records: Sequence[Record]) -> set[str]:
    """Of the arms that have runs under a plan."""
    return {_settings(record) for record in records if _stamp(record)}


def _is_beside(record: Record, planned: set[str]) -> bool:
    """Whether a run without a plan would be a further seed of an arm that has one."""
    return bool(planned) and not _stamp(record) and _settings(record) in planned


def _settings(record: Record) -> str:
    return fingerprint([record.task, record.source, {**record.config.numbers(), "seed": None}])


def _plan_files(paths: Sequence[Path]) -> Iterable[Path]:
    for path in dict.fromkeys(path.resolve() for path in paths):
        for name in (PLAN_FILE, AMENDMENTS):
            yield from (file for folder in path.parents[:_FOLDERS_ABOVE] for file in folder.glob(name))
            yield from path.rglob(name) if path.is_dir() else ()


def _parsed(content: bytes) -> RegisteredPlan | None:
    try:
        return RegisteredPlan.model_validate(json.loads(content))
    except (ValueError, ValidationError):
        return None
