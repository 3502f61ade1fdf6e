"""From paths to records: a report reads `record.json`, what `oelm eval` wrote beside it, and nothing else."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from oelm.base.errors import CheckpointError, ConfigError
from oelm.base.files import PARTIAL_PREFIX, read_json
from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile
from oelm.config.record import Record, opened
from oelm.config.settings import parse

RECORD = "record.json"
CONFIG = "config.yaml"


def load_records(paths: Sequence[Path]) -> tuple[Record, ...]:
    """The records of run folders, of `record.json` files and of folders of runs, in the order given.

    One run given twice counts once; two records of one run that disagree are refused, because choosing
    between them would be choosing the result.
    """
    kept: dict[tuple[str, str, str], tuple[Path, Record]] = {}
    for file in dict.fromkeys(file for path in paths for file in _record_files(path)):
        record = _with_answers(read_record(file), file.with_name(EVALUATION_FILE))
        stage = record.config.study.stage if record.config.study else ""
        run = (f"{record.task} {record.source}", stage, record.config.fingerprint)
        if run not in kept:
            kept[run] = (file, record)
        elif kept[run][1].result.loss != record.result.loss:
            raise CheckpointError(
                f"{kept[run][0]} and {file} record the same run with different results "
                f"(loss {kept[run][1].result.loss} and {record.result.loss})",
                "compare only one of them",
            )
    return tuple(record for _, record in kept.values())


def _with_answers(record: Record, file: Path) -> Record:
    """The record with what its model was asked afterwards."""
    if not file.is_file():
        return record
    try:
        values = read_json(file)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"cannot read {file}: {error}", "take it away and evaluate the run again") from error
    return parse(EvaluationFile, values, str(file)).in_record(record)


def unfinished_runs(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Run folders below `paths` without a record. They are left out, and a report must say so."""
    folders = (config.parent for path in paths if path.is_dir() for config in _found(path, CONFIG))
    return tuple(dict.fromkeys(folder for folder in folders if not (folder / RECORD).is_file()))


def read_record(path: Path) -> Record:
    """Read one `record.json`."""
    try:
        return opened(read_json(path), str(path))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        fix = f"remove it and run `oelm train --resume --out-dir {path.parent}`, which writes it anew"
        raise CheckpointError(f"{path} is not JSON ({error})", fix) from error
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
