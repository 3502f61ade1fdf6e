import json

import numpy as np
import pytest

from oelm.base.errors import ConfigError, DataError
from oelm.config.manifest import TokenizerKind
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Stories
from oelm.data.tokens import TokenFolder, token_dtype


@pytest.fixture
def folder(tmp_path):
    request = PrepareRequest(source=Stories(count=40), tokenizer=TokenizerKind.BYTES)
    prepare(request, tmp_path / "data", progress=Silent())
    return tmp_path / "data"


def test_opening_maps_both_files(folder):
    data = TokenFolder.open(folder)
    assert isinstance(data.train, np.memmap)
    assert data.train.dtype == np.dtype("<u2")
    assert (len(data.train), len(data.valid)) == (data.manifest.train.tokens, data.manifest.valid.tokens)
    assert data.train.max() == data.manifest.tokenizer.end_of_text == 256
    assert (data.train == 256).sum() == data.manifest.train.documents == 36
    data.verify()


def test_missing_folder_and_manifest_name_the_command(tmp_path):
    with pytest.raises(DataError, match=r"no data folder .*oelm prepare \.\.\. --out .*absent"):
        TokenFolder.open(tmp_path / "absent")
    with pytest.raises(DataError, match=r"no manifest\.json.*oelm prepare"):
        TokenFolder.open(tmp_path)


@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "tokenizer.json"])
def test_missing_file(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"{name} is missing"):
        TokenFolder.open(folder)


def test_wrong_size(folder):
    with (folder / "valid.bin").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match=r"valid\.bin has \d+ bytes where manifest\.json promises \d+"):
        TokenFolder.open(folder)


@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "tokenizer.json"])
def test_verify_finds_a_changed_byte_that_open_does_not(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[10] ^= 1
    (folder / name).write_bytes(content)
    data = TokenFolder.open(folder)
    with pytest.raises(DataError, match=f"{name} is damaged"):
        data.verify()


def test_damaged_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"surprise": 1}))
    with pytest.raises(ConfigError, match="surprise"):
        TokenFolder.open(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        TokenFolder.open(folder)


def test_the_narrowest_type():
    assert [token_dtype(size) for size in (257, 65536, 65537)] == ["uint16", "uint16", "uint32"]
