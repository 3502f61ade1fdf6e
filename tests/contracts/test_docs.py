"""The documentation builds without a warning, and the wheel works outside of the repository."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import oelm
from oelm.cli.main import command_line
from oelm.config.evaluated import EvaluationRequest
from oelm.config.request import FinetuneRequest, TrainRequest
from oelm.config.settings import Settings
from oelm.data.prepare_request import PrepareRequest

from .source import REPOSITORY


def test_the_api_page_has_every_public_name_and_no_other() -> None:
    page = (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")
    described = re.findall(r"^::: oelm\.([\w.]+)\.(\w+)$", page, re.MULTILINE)
    assert sorted(name for _, name in described) == sorted(oelm.__all__)
    assert {name: module for module, name in described} == oelm._HOME


def test_every_extra_is_explained() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = (REPOSITORY / "docs/index.md").read_text(encoding="utf-8").partition("| extra |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(project["optional-dependencies"])


@pytest.mark.parametrize(
    ("verb", "settings"),
    [("train", TrainRequest), ("finetune", FinetuneRequest), ("eval", EvaluationRequest), ("prepare", PrepareRequest)],
)
def test_keys_of_a_study_file_that_are_no_flags_are_named(verb: str, settings: type[Settings]) -> None:
    command = get_command(command_line([verb]))
    assert isinstance(command, TyperGroup)
    flags = {flag for option in command.commands[verb].params for flag in option.opts}
    others = [key for key in settings.model_fields if f"--{key.replace('_', '-')}" not in flags]
    exceptions = (REPOSITORY / "docs/study-file.md").read_text(encoding="utf-8").partition("<!-- begin")[0]
    assert others
    assert [key for key in others if not re.search(rf"`{key}\b", exceptions)] == []


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Freeze, and where the method says so rewrite" in (tmp_path / "site/api/index.html").read_text()
    assert "extend" in (tmp_path / "site/study-file/index.html").read_text()


@pytest.mark.slow
def test_the_wheel_works_outside_of_the_repository(tmp_path: Path) -> None:
    """Built, installed into a clean environment (which borrows our dependencies, not our oelm) and tried."""
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            tmp_path,
            REPOSITORY,
        ],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("oelm-*.whl")
    environment = tmp_path / "clean"
    venv.create(environment, with_pip=False)
    (packages,) = environment.glob("lib/python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--target", packages, wheel],
        check=True,
        capture_output=True,
    )
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    clean = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), *borrowed])}

    def oelm(*arguments: str) -> str:
        command = [str(environment / "bin/python"), "-P", "-m", "oelm", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert "cpu/quick" in oelm("experiment", "list")
    oelm("experiment", "new", "mine.yaml")
    assert "oelm-core" in oelm("experiment", "plan", "mine.yaml", "--tflops", "0.1")
    assert "oelm" in oelm("experiment", "plan", "cpu/quick", "--tflops", "0.1")
    typed = subprocess.run(
        [str(environment / "bin/python"), "-P", "-c", "import oelm; print(oelm.__file__, oelm.GPT)"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert str(packages) in typed
    assert (packages / "oelm/py.typed").is_file()
