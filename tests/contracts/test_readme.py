"""The README's commands and code run as written, and its numbers are those of the committed records."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from oelm.data.stories import story
from oelm.report.comparison import compare_runs
from oelm.report.markdown import as_markdown

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What makes a command quick enough for a test; everything else runs as it stands in the README.
QUICKER = {"--steps 1000": "--steps 20 --size tiny --seq-len 64 --validation-sequences 8"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("oelm ")]


def region(name):
    return re.search(rf"<!-- begin: {re.escape(name)} -->\n(.*?)<!-- end -->", README, flags=re.DOTALL)[1].strip()


@pytest.mark.slow
def test_commands_run(tmp_path):
    (tmp_path / "my.txt").write_text(
        "\n<|endoftext|>\n".join(story(0, index) for index in range(300)), encoding="utf-8"
    )
    found = commands()
    assert [command.split()[1] for command in found] == ["prepare", "train", "train", "compare", "generate", "inspect"]
    for command in found:
        for slow, quick in QUICKER.items():
            command = command.replace(slow, quick)
        ran = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert ran.returncode == 0, (command, ran.stderr)
    assert (tmp_path / "runs/mine/oelm-seed0/record.json").is_file()


def test_python_runs(capsys):
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    assert "layer=0" in capsys.readouterr().out


def test_quickstart_table_is_the_records():
    assert (
        region("oelm compare results/quickstart --format md")
        == as_markdown(compare_runs([ROOT / "results" / "quickstart"])).strip()
    )


def test_step_times_are_the_records():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from step_time import table
    finally:
        sys.path.pop(0)
    record = json.loads((ROOT / "results" / "step-time" / "small.json").read_text(encoding="utf-8"))
    ours = record["baseline_over_hugging_face"]["median"]
    assert f"{ours:.2f} of the time of Hugging Face GPT-2" in README
    assert region("step-time") == table(record)
