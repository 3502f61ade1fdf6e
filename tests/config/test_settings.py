from pathlib import Path

import pytest
from pydantic import ValidationError

from builders import run_config
from oelm.base.errors import ConfigError
from oelm.config.method import Extras, Method
from oelm.config.model import GPTConfig
from oelm.config.run import OptimConfig, RunConfig
from oelm.config.settings import fingerprint, parse
from oelm.config.yaml_file import read_yaml, write_yaml

OPTIM = {"lr": 1e-3, "warmup_steps": 5}


def complaint(values: object, kind: type = OptimConfig) -> str:
    with pytest.raises(ConfigError) as error:
        parse(kind, values, "here.yaml")
    text = str(error.value)
    assert text.startswith("here.yaml: ")
    assert "Fix:" in text
    assert "\n" not in text
    return text


def test_unknown_keys_are_refused_by_name() -> None:
    assert "learning_rate: unknown key" in complaint({**OPTIM, "learning_rate": 1})


def test_missing_keys_are_refused_by_name() -> None:
    assert "lr: Field required" in complaint({"warmup_steps": 5})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr", "fast"),
        ("lr", 0),
        ("lr", -1e-3),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("lr", None),
        ("warmup_steps", 1.5),
        ("warmup_steps", -1),
        ("beta1", 1.0),
        ("min_lr_ratio", 1.1),
    ],
)
def test_wrong_values_are_shown_with_their_key(key: str, value: object) -> None:
    text = complaint({**OPTIM, key: value})
    assert f"{key}: " in text
    assert f"given: {value!r}" in text


def test_several_complaints_are_counted() -> None:
    assert "and 1 more" in complaint({"lr": -1, "warmup_steps": -1})


def test_nested_keys_are_given_with_their_path() -> None:
    values = run_config().model_dump(mode="json")
    values["method"]["plan"]["when"] = {"kind": "sometimes"}
    assert "method.plan.when" in complaint(values, RunConfig)
    assert "width 30 is not divisible by 4 heads" in complaint({**values["model"], "width": 30}, GPTConfig)


@pytest.mark.parametrize("values", [None, [], 3, "text"])
def test_what_is_not_a_mapping_is_refused(values: object) -> None:
    complaint(values)


def test_settings_never_change_after_birth() -> None:
    config = run_config()
    with pytest.raises(ValidationError):
        config.seed = 1
    with pytest.raises(ValidationError):
        config.optim.lr = 1.0


METHODS = [
    "oelm",
    "baseline",
    "oelm-core+thaw=0.2..0.8",
    "oelm+freeze=0.25+layers=0,2+until=30",
    "oelm+all-but-last=1+every=3",
    "oelm-core+bias+norm+gain=2+thin=3+qk-lr=0.3+one-draw+from=0.1",
    "oelm-frame+strided",
    "blind",
]


@pytest.mark.parametrize("method", METHODS)
def test_yaml_there_and_back(method: str, tmp_path: Path) -> None:
    config = run_config(method)
    write_yaml(config, tmp_path / "config.yaml")
    assert read_yaml(RunConfig, tmp_path / "config.yaml") == config
    assert read_yaml(RunConfig, tmp_path / "config.yaml").fingerprint == config.fingerprint


def test_later_fields_are_written_only_where_they_say_something() -> None:
    """So that what was written before there were such fields keeps its content and its fingerprint."""
    for method in ("oelm", "baseline", "oelm-core+thaw=0.2..0.8"):
        written = run_config(method).model_dump(mode="json")["method"]
        assert not written.keys() & Method.later
        assert not written["extras"].keys() & Extras.later
        assert written.keys() | Method.later == Method.model_fields.keys()
        assert written["extras"].keys() | Extras.later == Extras.model_fields.keys()
    plain, written = run_config(), run_config("oelm+norm+thin=3").numbers()["method"]
    assert (written["thin"], written["extras"]["norm"]) == (3, True)
    assert not written.keys() & {"name", "blind", "strided", "one_draw"}, "names are no numbers"
    levers = ("bias", "norm", "gain", "gain=2", "qk-lr=0.3", "thin=3", "one-draw", "from=0.1", "until=0.1")
    fingerprints = {run_config(f"oelm+{lever}").fingerprint for lever in levers} | {plain.fingerprint}
    assert len(fingerprints) == len(levers) + 1


def test_yaml_reads_a_learning_rate_as_people_write_it(tmp_path: Path) -> None:
    """YAML 1.1 takes `3e-4` for a string."""
    (tmp_path / "optim.yaml").write_text("lr: 3e-4\nwarmup_steps: 5\n")
    assert read_yaml(OptimConfig, tmp_path / "optim.yaml").lr == 3e-4
    for lr in (3e-4, 1e-5, 1.0, 1e-10):
        write_yaml(OptimConfig(lr=lr, warmup_steps=5), tmp_path / "optim.yaml")
        assert read_yaml(OptimConfig, tmp_path / "optim.yaml").lr == lr


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*absent\.yaml.*Fix:"):
        read_yaml(OptimConfig, tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("lr: [1, 2\nwarmup: }")
    with pytest.raises(ConfigError, match=r"bad\.yaml is not YAML.*Fix:") as error:
        read_yaml(OptimConfig, tmp_path / "bad.yaml")
    assert "\n" not in str(error.value)
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"empty\.yaml"):
        read_yaml(OptimConfig, tmp_path / "empty.yaml")


def test_fingerprints_ignore_the_order_of_keys_only() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    different = [{"a": 1}, {"a": 1.5}, {"a": "1"}, {"a": None}, {"b": 1}, {"a": [1, 2]}, {"a": [2, 1]}, {}]
    assert len({fingerprint(values) for values in different}) == len(different)
