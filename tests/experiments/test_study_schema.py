"""The schema knows every key, and accepts and refuses what the models do."""

import json
import re
from pathlib import Path

import pytest
import yaml

from oelm.base.errors import ConfigError
from oelm.experiments.shipped import shipped_studies, study_path, write_new_study
from oelm.experiments.study import Study, StudyArm, StudyFile, TuningPlan
from oelm.experiments.study_schema import field_docstrings, json_schema, reference


def test_every_key_is_in_the_schema_and_in_the_reference() -> None:
    schema, text = json_schema(), reference()
    assert schema["properties"].keys() == Study.model_fields.keys()
    assert schema["$defs"]["TuningPlan"]["properties"].keys() == TuningPlan.model_fields.keys()
    for model in (Study, StudyArm, TuningPlan):
        for key in model.model_fields:
            assert f"| `{key}` |" in text
    assert "| `steps` |" in text
    assert json.loads(json.dumps(schema)) == schema


def test_every_part_of_a_study_has_a_table() -> None:
    tables = [re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) for part in reference().split("| key |")]
    parts = {name: list(part["properties"]) for name, part in json_schema()["$defs"].items() if "properties" in part}
    assert {"EvaluationRequest", "Resources", "Probe", "LabelledFile"} < parts.keys()
    missing = [name for name, keys in parts.items() if keys not in tables]
    assert missing == ["TokenText"], "of `source`, which the study sets"


def test_a_choice_is_shown_by_its_values() -> None:
    rows = {line.split(" | ")[0]: line for line in reference().splitlines()}
    assert "| `retrieval`, `recall`, `copy`, `induction` | needed |" in rows["| `probe`"]
    assert "| list of `likelihood`, `choices`, " in rows["| `suites`"]


def test_descriptions_are_the_strings_below_the_fields() -> None:
    described = json_schema()["properties"]["primary"]["description"]
    assert described == field_docstrings(Study)["primary"]
    assert "answers the question" in described


def test_an_arm_may_be_a_name_or_more() -> None:
    names, arms = json_schema()["properties"]["arms"]["items"]["anyOf"]
    assert names == {"type": "string"}
    assert arms == {"$ref": "#/$defs/StudyArm"}
    assert json_schema()["$defs"]["StudyArm"]["required"] == ["method"]


def test_what_the_study_sets_is_no_setting() -> None:
    settings = json_schema()["$defs"]["TrainRequest"]["properties"]
    assert "steps" in settings
    assert not {"method", "seed"} & settings.keys()


def test_a_new_study_is_valid_and_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write_new_study(path)
    study = StudyFile.read(path).study
    assert study.primary == "oelm-core"
    assert yaml.safe_load(path.read_text())["arms"][-1] == "blind"
    with pytest.raises(ConfigError, match="exists already"):
        write_new_study(path)


def test_a_shipped_study_goes_by_its_name() -> None:
    assert study_path(Path("cpu/quick")) == shipped_studies()["cpu/quick"]
    assert study_path(Path("nowhere.yaml")) == Path("nowhere.yaml")
    assert StudyFile.read(study_path(Path("cpu/quick"))).name == "cpu/quick"
