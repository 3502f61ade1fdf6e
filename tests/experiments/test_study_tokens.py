"""Studies that call different data by one name do not get into each other's way, and a plan sees what a run would."""

from pathlib import Path

import pytest
from rich.console import Console

from oelm.base.errors import DataError
from oelm.config.run import RunConfig
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Files, Stories
from oelm.experiments.resolving import NOT_YET, resolve_for_plan, resolve_on_data
from oelm.experiments.study import StudyFile
from train.toys import toy_text

from .studies import TEXT, study


def one_plan(file: StudyFile, tokens: Path) -> RunConfig:
    return resolve_for_plan(file.study, tokens)(file.study.cells[0])


def one_run(file: StudyFile, tokens: Path) -> RunConfig:
    return resolve_on_data(file.study, tokens, Console(quiet=True))(file.study.cells[0])


def test_two_studies_with_one_name_for_their_data_both_run(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    forty, fifty = (study(tmp_path, TEXT, f"data.toy.source.count={count}") for count in (40, 50))
    assert one_plan(forty, tokens).data.digest == NOT_YET
    assert one_plan(forty, tokens).data.folder == (first := one_run(forty, tokens)).data.folder
    second = one_run(fifty, tokens)
    assert second.data.digest != first.data.digest
    assert one_plan(forty, tokens) == one_run(forty, tokens) == first, "the second has not replaced it"
    assert one_plan(fifty, tokens) == second


def test_what_was_prepared_by_hand_with_the_same_settings_is_used(tmp_path: Path) -> None:
    request = PrepareRequest(source=Stories(count=40), tokenizer="bytes", name="toy")
    made, file = prepare(request, tmp_path / "toy"), study(tmp_path, TEXT)
    assert one_run(file, tmp_path) == one_plan(file, tmp_path)
    assert one_plan(file, tmp_path).data.folder == str(tmp_path / "toy")
    assert one_plan(file, tmp_path).data.digest == made.digest


def test_what_was_prepared_by_hand_with_other_settings_is_left_alone(tmp_path: Path) -> None:
    made = prepare(PrepareRequest(source=Stories(count=30), tokenizer="bytes", name="toy"), tmp_path / "toy")
    file = study(tmp_path, TEXT)
    assert one_plan(file, tmp_path).data.digest == NOT_YET
    assert one_run(file, tmp_path).data.digest != made.digest


def test_a_text_that_has_changed_is_refused_in_words_for_a_study(tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_text(toy_text())
    text = str(tmp_path / "my.txt")
    file = study(tmp_path, TEXT.replace("{kind: stories, count: 40}", f"{{kind: files, paths: [{text}]}}"))
    assert isinstance(file.study.data["toy"], PrepareRequest)
    assert file.study.data["toy"].source == Files(paths=(text,))
    folder = one_run(file, tmp_path).data.folder
    (tmp_path / "my.txt").write_text(toy_text(1001))
    with pytest.raises(DataError) as refused:
        one_run(file, tmp_path)
    assert refused.value.fix == f"put the text back, or delete {folder} to prepare it anew"
