"""Token files are those of their manifest, or they are refused; a large one is read once."""

import os
import shutil
from pathlib import Path

import pytest

from oelm.base.errors import DataError
from oelm.data import verified
from oelm.data.tokens import TokenFolder, file_sha256
from oelm.data.verified import VERIFIED_FILE, require_whole
from train.toys import tokens

LONG_AGO = 1_700_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(tokens(), tmp_path / "tokens")
    return tmp_path / "tokens"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, in their order; all of them settled long ago."""
    names: list[str] = []

    def noted(path: Path) -> str:
        names.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(verified, "file_sha256", noted)
    monkeypatch.setattr(verified, "_SETTLED_NANOSECONDS", 0)
    return names


def flip(path: Path) -> None:
    """Another content of the same size and time of modification."""
    found, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "tokenizer.json"])
def test_one_flipped_bit_is_refused_also_after_it_was_found_whole(folder: Path, name: str, read: list[str]) -> None:
    require_whole(TokenFolder.open(folder))
    flip(folder / name)
    for _ in range(2):
        with pytest.raises(DataError, match=f"{name} is damaged.*oelm prepare"):
            require_whole(TokenFolder.open(folder))


def test_a_file_that_was_found_whole_is_not_read_again(folder: Path, read: list[str]) -> None:
    require_whole(TokenFolder.open(folder))
    assert sorted(read) == ["tokenizer.json", "train.bin", "valid.bin"]
    read.clear()
    require_whole(TokenFolder.open(folder))
    assert read == ["tokenizer.json"]
    (folder / "valid.bin").touch()
    read.clear()
    require_whole(TokenFolder.open(folder))
    assert read == ["tokenizer.json", "valid.bin"]


def test_what_was_changed_a_moment_ago_is_not_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.bin").touch()
    require_whole(TokenFolder.open(folder))
    assert "train.bin" not in (folder / VERIFIED_FILE).read_text() if (folder / VERIFIED_FILE).is_file() else True


@pytest.mark.parametrize("content", ["{", "[]", '{"train.bin": 3}'])
def test_a_damaged_memory_is_no_memory(folder: Path, read: list[str], content: str) -> None:
    (folder / VERIFIED_FILE).write_text(content)
    require_whole(TokenFolder.open(folder))
    assert sorted(read) == ["tokenizer.json", "train.bin", "valid.bin"]


def test_other_digests_in_the_manifest_are_another_file(folder: Path, read: list[str]) -> None:
    """The memory is of a content: a manifest that promises another one is not served by it."""
    data = TokenFolder.open(folder)
    require_whole(data)
    split = data.manifest.train.model_copy(update={"sha256": "0" * 64})
    other = TokenFolder(folder, data.manifest.model_copy(update={"train": split}), data.train, data.valid)
    with pytest.raises(DataError, match=r"train\.bin is damaged"):
        require_whole(other)
