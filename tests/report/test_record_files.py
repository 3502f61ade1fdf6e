from pathlib import Path

import pytest

from oelm.base.errors import CheckpointError, OelmError
from oelm.report.groups import report_runs
from oelm.report.record_files import load_records, unfinished_runs

from .records import make_arm, make_config, make_record, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for record in make_arm("baseline", (2.5, 2.6)) + make_arm("oelm", (2.7,)):
        write_run(tmp_path / "runs" / f"{record.method}-{record.config.seed}", record)
    return tmp_path / "runs"


def names(paths: list[Path]) -> list[tuple[str, int]]:
    return [(record.method, record.config.seed) for record in load_records(paths)]


def test_a_folder_of_runs_is_searched_in_a_stable_order(runs: Path) -> None:
    assert names([runs]) == [("baseline", 0), ("baseline", 1), ("oelm", 0)]
    assert names([runs.parent]) == names([runs])


def test_run_folders_and_record_files_keep_the_order_given(runs: Path) -> None:
    assert names([runs / "oelm-0", runs / "baseline-1" / "record.json"]) == [("oelm", 0), ("baseline", 1)]


def test_one_run_given_twice_counts_once(runs: Path, tmp_path: Path) -> None:
    copy = write_run(tmp_path / "copy", make_record(make_config("oelm", 0), 2.7))
    assert len(load_records([runs, runs / "oelm-0", runs / "oelm-0" / "record.json", copy])) == 3


def test_two_results_of_one_run_are_refused(runs: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", make_record(make_config("oelm", 0), 2.6))
    with pytest.raises(CheckpointError, match=r"different results.*Fix: compare only one"):
        load_records([runs, other])


def test_the_same_settings_in_another_task_are_another_run(runs: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", make_record(make_config("oelm", 0), 0.4, task="classification"))
    assert len(load_records([runs, other])) == 4


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(runs: Path) -> None:
    (runs / "oelm-0" / "record.json").unlink()
    with pytest.raises(CheckpointError, match=r"not finished.*oelm train --resume --out-dir .*oelm-0"):
        load_records([runs / "oelm-0"])


def test_unfinished_runs_among_others_are_left_out_and_named(runs: Path) -> None:
    assert unfinished_runs([runs]) == ()
    (runs / "oelm-0" / "record.json").unlink()
    assert unfinished_runs([runs]) == (runs / "oelm-0",)
    assert report_runs([runs]).unfinished == (runs / "oelm-0",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "not JSON"), ("{}", "is not a record"), ('{"format": 2}', "is not a record: format")],
)
def test_an_unreadable_record_is_named(runs: Path, content: str, complaint: str) -> None:
    broken = runs / "oelm-0" / "record.json"
    broken.write_text(content)
    with pytest.raises(OelmError, match=complaint) as error:
        load_records([runs])
    assert str(broken) in str(error.value)
    assert "Fix:" in str(error.value)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no file or folder"):
        load_records([tmp_path / "absent"])
    with pytest.raises(CheckpointError, match="holds no run"):
        load_records([tmp_path])
