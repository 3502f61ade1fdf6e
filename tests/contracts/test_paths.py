"""No file that git keeps names a place on somebody's machine."""

import re
import subprocess

import pytest

from .source import REPOSITORY

ROOTS = ("home", "Users", "root", "work", "mnt", "scratch", "private", "data1")
# An absolute path below one of these, but not the tail of a longer path or an address.
MACHINE_PATH = re.compile(rf"(?<![\w.\-/}}>)~])/(?:{'|'.join(ROOTS)})/\w|[A-Z]:\\\\?Users")


def kept_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name]


def test_no_machine_paths() -> None:
    found = []
    for name in kept_files():
        path = REPOSITORY / name
        if not path.is_file():
            continue
        text = path.read_bytes().decode(errors="ignore")
        found += [f"{name}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize("root", ROOTS)
def test_a_machine_path_would_be_found(root: str) -> None:
    for before in ("", " ", '"', "=", "("):
        assert MACHINE_PATH.search(f"{before}/{root}/somebody/oelm")
    for before in ("https://example.org", "src", "..", "{folder}"):
        assert not MACHINE_PATH.search(f"{before}/{root}/somebody")
