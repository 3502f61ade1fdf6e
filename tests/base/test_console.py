"""The terminal belongs to us: no name can steer it, and nobody who stops reading ends the work."""

import io
import os
import subprocess
import sys

import pytest
from rich.table import Table

from oelm.base.console import Console, shown


def printed(*parts: object, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "\x1b[2J", "a\rb", "\x9b31m", "a\ud800b", "\x7f"])
def test_control_characters_are_spelt_out(text: str) -> None:
    table = Table("name")
    table.add_row(text)
    for said in (printed(text), printed(table)):
        assert text not in said
        assert shown(said) == said
        said.encode()
    assert text not in printed(text, terminal=True)


def test_an_escape_is_spelt_out() -> None:
    assert printed("a\x1b[2Jb") == "a\\x1b[2Jb\n"


def test_our_own_colours_still_work() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    console.print("red", style="red")
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[31mred" in console.file.getvalue()


def test_brackets_are_text() -> None:
    assert printed("runs/[/x]/[bold]a") == "runs/[/x]/[bold]a\n"
    assert shown("ordinary text,\twith 中文\n") == "ordinary text,\twith 中文\n"


WORK = """
import sys
from oelm.base.console import Console
console = Console(stderr={stderr})
for step in range(2000):
    console.print(f"step {{step}} " + "x" * 100)
(sys.stdout if {stderr} else sys.stderr).write("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("stderr", [False, True])
def test_work_goes_on_when_nobody_reads(stderr: bool) -> None:
    read, write = os.pipe()
    os.close(read)
    code = [sys.executable, "-c", WORK.format(stderr=stderr)]
    streams = {"stderr" if stderr else "stdout": write, "stdout" if stderr else "stderr": subprocess.PIPE}
    ended = subprocess.run(code, check=False, text=True, **streams)
    os.close(write)
    assert (ended.returncode, ended.stdout or ended.stderr) == (0, "done")
