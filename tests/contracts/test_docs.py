"""The documentation builds without a warning, and the wheel works outside of the repository."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from .source import REPOSITORY


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
