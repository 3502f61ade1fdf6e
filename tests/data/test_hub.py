"""What is fetched of a corpus of the Hub: with a cap its first files, without one all of it, and the same rows."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.hub_server import HubServer, parquet_bytes, serving
from oelm.data.hub import HUB_DATASETS, HubCorpus

pytestmark = pytest.mark.slow  # each preparation is a process of its own: the libraries read HF_HOME when imported

FILES, ROWS = 4, 10
ROW_BYTES = 60
MADE = ("train.bin", "valid.bin", "tokenizer.json", "manifest.json")
TRAIN = [f"data/train-{number:05}-of-{FILES:05}.parquet" for number in range(FILES)]
VALID = [f"data/validation-{number:05}-of-00002.parquet" for number in range(2)]


def rows(name: str) -> list[str]:
    return [f"{name}, row {row}, ".ljust(ROW_BYTES, "." if row % 2 else "!") for row in range(ROWS)]


def card(config: str, splits: dict[str, int], dataset_size: int) -> bytes:
    """The part of a README that `datasets` reads."""
    lines = ["---", "configs:", f"- config_name: {config}", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: data/{split}-*"]
    lines += ["dataset_info:", f"  config_name: {config}", "  features:", "  - name: text", "    dtype: string"]
    lines += ["  splits:"]
    for split, count in splits.items():
        lines += [f"  - name: {split}", f"    num_bytes: {count * ROW_BYTES}", f"    num_examples: {count}"]
    return "\n".join([*lines, "  download_size: 2500000000", f"  dataset_size: {dataset_size}", "---", ""]).encode()


def hub(corpus: HubCorpus, dataset_size: int = 4000) -> HubServer:
    """The corpus as it lies on the Hub: the files in no order of their contents, and others that are not its text."""
    dataset = HUB_DATASETS[corpus]
    names = {"train": TRAIN, "validation": VALID} if dataset.has_validation else {"train": TRAIN}
    splits = {split: len(files) * ROWS for split, files in names.items()}
    files = {name: parquet_bytes(rows(name)) for listed in names.values() for name in reversed(listed)}
    return HubServer(
        dataset,
        {**files, "README.md": card(dataset.config or "default", splits, dataset_size), "notes.txt": b"not its text"},
    )


@pytest.fixture
def openwebtext() -> Iterator[HubServer]:
    with serving(hub(HubCorpus.OPENWEBTEXT)) as server:
        yield server


def prepare(server: HubServer, home: Path, *options: str, out: str = "data") -> subprocess.CompletedProcess[str]:
    corpus = next(name for name, dataset in HUB_DATASETS.items() if dataset == server.dataset)
    words = ["prepare", corpus.value, "--tokenizer=bytes", "--name=text", f"--out={home / out}", *options]
    return subprocess.run(
        [sys.executable, "-m", "oelm", *words],
        env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": server.address, "HF_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def made(server: HubServer, home: Path, *options: str, out: str = "data") -> dict[str, bytes]:
    """The token files of a preparation that succeeds."""
    done = prepare(server, home, *options, out=out)
    assert done.returncode == 0, done.stderr
    return {name: (home / out / name).read_bytes() for name in MADE}


def shards(server: HubServer) -> list[str]:
    return [name for name in server.fetched if name.endswith(".parquet")]


def test_a_cap_fetches_the_first_files_only_and_gives_the_bytes_of_the_full_cache(
    openwebtext: HubServer, tmp_path: Path
) -> None:
    cap = f"--max-bytes={ROWS * ROW_BYTES + 100}"  # ends inside the second file
    part = made(openwebtext, tmp_path / "part", cap)
    assert shards(openwebtext) == TRAIN[:2]

    openwebtext.fetched.clear()
    everything = made(openwebtext, tmp_path / "whole")
    assert shards(openwebtext) == TRAIN
    assert len(everything["train.bin"]) + len(everything["valid.bin"]) == 2 * FILES * ROWS * (ROW_BYTES + 1)

    openwebtext.fetched.clear()
    assert made(openwebtext, tmp_path / "whole", cap, out="capped") == part
    assert openwebtext.fetched == []


def test_a_cap_of_documents_opens_no_file_behind_the_last_one(openwebtext: HubServer, tmp_path: Path) -> None:
    part = made(openwebtext, tmp_path, f"--max-documents={ROWS}")
    assert shards(openwebtext) == TRAIN[:1]
    assert len(part["train.bin"]) + len(part["valid.bin"]) == 2 * ROWS * (ROW_BYTES + 1)


def test_what_is_broken_off_goes_on_behind_the_files_that_are_complete(openwebtext: HubServer, tmp_path: Path) -> None:
    cap = f"--max-bytes={2 * ROWS * ROW_BYTES}"
    openwebtext.broken.add(TRAIN[1])
    stopped = prepare(openwebtext, tmp_path / "stopped", cap)
    assert stopped.returncode == 2
    assert f"the download of {TRAIN[1]} of {openwebtext.dataset.repository}" in stopped.stderr
    assert "Fix: run the same command again: it continues" in stopped.stderr

    openwebtext.broken.clear()
    openwebtext.fetched.clear()
    continued = made(openwebtext, tmp_path / "stopped", cap)
    assert shards(openwebtext) == TRAIN[1:2]
    assert continued == made(openwebtext, tmp_path / "straight", cap)


def test_a_validation_split_is_fetched_whole_beside_the_capped_text(tmp_path: Path) -> None:
    with serving(hub(HubCorpus.TINYSTORIES)) as server:
        part = made(server, tmp_path / "part", "--max-documents=3")
        assert shards(server) == [TRAIN[0], *VALID]
        assert len(part["valid.bin"]) == 2 * len(VALID) * ROWS * (ROW_BYTES + 1)
        made(server, tmp_path / "whole")
        assert made(server, tmp_path / "whole", "--max-documents=3", out="capped") == part


def test_the_size_is_said_and_what_cannot_fit_is_refused_before_it_comes(tmp_path: Path) -> None:
    far_too_much = shutil.disk_usage(tmp_path).total + 1
    with serving(hub(HubCorpus.OPENWEBTEXT, far_too_much)) as server:
        refused = prepare(server, tmp_path)
        assert refused.returncode == 2
        assert f"is a download of 2.5 GB, and {far_too_much / 1e9:.1f} GB more" in refused.stderr
        assert "GB free. Fix: take its beginning with --max-bytes" in refused.stderr
        assert shards(server) == []
        assert "cannot" not in prepare(server, tmp_path, "--max-documents=3").stderr
        assert shards(server) == TRAIN[:1]
    with serving(hub(HubCorpus.OPENWEBTEXT)) as server:
        assert "fetching all of Skylion007/openwebtext: 2.5 GB" in prepare(server, tmp_path / "small").stderr


def test_a_revision_that_is_gone_and_a_gated_corpus_say_what_to_do(openwebtext: HubServer, tmp_path: Path) -> None:
    gone = prepare(openwebtext, tmp_path, "--max-documents=3", f"--revision={'0' * 40}")
    assert "has no revision" in gone.stderr
    assert "Fix: give an existing one with --revision" in gone.stderr
    openwebtext.gated = True
    gated = prepare(openwebtext, tmp_path, "--max-documents=3")
    assert "gated" in gated.stderr
    assert "log in first: hf auth login" in gated.stderr
    assert (gone.returncode, gated.returncode, shards(openwebtext)) == (2, 2, [])


def test_a_revision_of_other_files_than_parquet_is_fetched_whole(openwebtext: HubServer, tmp_path: Path) -> None:
    openwebtext.files = {f"data/train-{number}.txt": b"one line\nnumber %d\n" % number for number in range(3)}
    part = made(openwebtext, tmp_path, "--max-documents=4")
    assert len(part["train.bin"]) + len(part["valid.bin"]) > 0
    assert sorted(openwebtext.fetched) == sorted(openwebtext.files)
