from pathlib import Path

import pytest

from oelm.cli.quickstart import STUDY
from oelm.experiments.study import StudyFile
from oelm.train.folder import RunFolder
from train.processes import started


@pytest.mark.slow
def test_quickstart_ends_with_a_comparison_and_goes_on_where_it_was(tmp_path: Path) -> None:
    methods = [arm.method for arm in StudyFile.read(STUDY).study.arms]
    command = ["quickstart", "--seeds=1", "--at-once=2", f"--out-dir={tmp_path}"]
    ended = started([*command, "--steps=20"]).ended()
    assert ended.code == 0, ended.err
    folders = [tmp_path / "final" / f"{method}-seed0" for method in methods]
    assert all(RunFolder(folder).finished for folder in folders)
    assert all(method in ended.out for method in methods)
    written = [RunFolder(folder).record_file.stat().st_mtime_ns for folder in folders]
    assert started([*command, "--steps=20"]).ended().code == 0
    assert written == [RunFolder(folder).record_file.stat().st_mtime_ns for folder in folders], "trained twice"
    other = started([*command, "--steps=30"]).ended()
    assert other.code == 2
    assert "train.steps is 20 there and 30 here" in other.err
