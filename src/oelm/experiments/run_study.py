"""A whole study from its file to its records: data, tuning, the choice of learning rates, the final runs."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from oelm.base.errors import CheckpointError
from oelm.base.files import make_folder, write_text
from oelm.config.evaluated import EVALUATION_FILE
from oelm.config.study_role import ChosenBy
from oelm.experiments.ask_models import ask_models
from oelm.experiments.coordinate import Outcome, bring_to_records
from oelm.experiments.launcher import Launcher
from oelm.experiments.matrix import StudyRun, StudyRuns
from oelm.experiments.register import plan_files, register, under_plan
from oelm.experiments.resolving import resolve_on_data
from oelm.experiments.selection import Selection, all_tuning_runs, select, select_where_ended, write_selection
from oelm.experiments.study import StudyFile
from oelm.train.folder import RunFolder, stop_request


@dataclass(frozen=True)
class Finished:
    """A study whose runs have all ended: with a record, or without a number, which is a result too."""

    out: Path
    tuning: tuple[StudyRun, ...]
    final: tuple[StudyRun, ...]
    diverged: tuple[StudyRun, ...]
    """Those of the final ones."""
    selection: Selection | None


def run_study(
    file: StudyFile,
    out: Path,
    tokens: Path,
    launcher: Launcher,
    *,
    only: Sequence[str],
    at_once: int,
    console: Console,
    amend: bool = False,
) -> Finished:
    """Bring every run of the study to its record; the same call later goes on where this one stopped.

    The plan is registered before the first run; a study that has changed since is refused unless it may `amend`.
    """
    study, chosen = file.study, file.study.chosen(only)
    stop_request(make_folder(out)).unlink(missing_ok=True)
    planned = StudyRuns(study, file.name, out, resolve_on_data(study, tokens, console), chosen)
    everything = replace(planned, cells=study.cells)
    stamp = register(planned, amend=amend)
    _keep_study(file, out)
    console.print(f"{study.title}: on {launcher.description}", highlight=False, markup=False)

    def bring(runs: Sequence[StudyRun], what: str) -> Outcome:
        console.print(f"{what}: {len(runs)} runs", highlight=False)
        stamped, keep = under_plan(runs, stamp), study.keep_checkpoints
        return bring_to_records(stamped, launcher, out, at_once=at_once, keep_checkpoints=keep, console=console)

    tuning, selection = _tuned(lambda: all_tuning_runs(planned), bring), None
    if study.tuning is not None:
        selection = select(tuning, study.tuning)
        # Arms may be run one after the other.
        write_selection(select_where_ended(all_tuning_runs(everything), study.tuning), out / "selection.json")
        _show(selection, console)
    final = planned.final(selection.by_cell if selection else {})
    without_record = {run.folder for run in _require_all(bring(final, "final"), len(final))}
    if study.evaluate is not None:
        recorded = [run for run in final if run.folder not in without_record]
        ask_models(recorded, study.evaluate, out, launcher.device_of_ours, console)
    diverged = tuple(run for run in final if run.folder in without_record)
    return Finished(out, tuple(tuning), tuple(final), diverged, selection)


def _tuned(known: Callable[[], list[StudyRun]], bring: Callable[[Sequence[StudyRun], str], Outcome]) -> list[StudyRun]:
    """Bring the grids to their records, and the extensions that they turn out to need, until there are no more."""
    runs, what = known(), "tuning"
    while runs:
        _require_all(bring(runs, what), len(runs))
        with_extensions = known()
        if len(with_extensions) == len(runs):
            break
        runs, what = with_extensions, "tuning, grids extended where the best rate lies at an edge"
    return runs


def keep_records(finished: Finished, file: StudyFile, results: Path) -> None:
    """Copy what a report needs, and what was asked for, to a folder that is small enough to commit."""
    for run in (*finished.tuning, *finished.final):
        kept = make_folder(results / run.folder.parent.name / run.folder.name)
        if RunFolder(run.folder).finished:
            shutil.copy(RunFolder(run.folder).record_file, kept / "record.json")
        elif run in finished.diverged and (state := RunFolder(run.folder).state()):
            write_text(kept / "state.json", state.model_copy(update={"host": None}).model_dump_json(indent=2) + "\n")
        if (answers := run.folder / EVALUATION_FILE).is_file():
            shutil.copy(answers, kept / EVALUATION_FILE)
    if finished.selection is not None:
        write_selection(finished.selection, results / "selection.json")
    for plan in plan_files(finished.out):
        shutil.copy(plan, results / plan.name)
    _keep_study(file, results)


def _keep_study(file: StudyFile, folder: Path) -> None:
    """What was asked for stands beside the answers; reports show it."""
    write_text(folder / "study.yaml", file.text)


def _show(selection: Selection, console: Console) -> None:
    console.print("learning rates chosen by validation:", highlight=False)
    for choice in selection.choices:
        tried = ", ".join(
            f"{trial.lr:g}: {'diverged' if trial.loss is None else f'{trial.loss:.4f}'}" for trial in choice.trials
        )
        edge = " (edge of the grid: a better one may lie beyond)" if choice.at_edge else ""
        vertex = " (vertex of the parabola)" if choice.by is ChosenBy.VERTEX else ""
        console.print(f"  {choice.cell:<34} {choice.lr:g}{vertex}{edge}   ({tried})", highlight=False)


def _require_all(outcome: Outcome, total: int) -> tuple[StudyRun, ...]:
    """Those that diverged, which started again would do so again; any other without a record is refused."""
    lost = [*outcome.failed, *outcome.interrupted]
    names = ", ".join(run.name for run in lost)
    if lost and len(lost) == len(outcome.interrupted):
        raise CheckpointError(
            f"{len(lost)} of {total} runs were stopped, as somebody asked, and have no record ({names})",
            "run the same command again: they go on where they stopped",
        )
    if lost:
        raise CheckpointError(
            f"{len(lost)} of {total} runs have no record ({names})",
            f"read {lost[0].folder / 'console.log'}, correct the cause and run the same command again",
        )
    return outcome.diverged
