import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data.hub_cache import cache_split
from oelm.base.errors import ConfigError, DataError, StorageError
from oelm.base.files import make_folder
from oelm.base.locks import FileLock
from oelm.cli.prepare import _bytes
from oelm.config.manifest import TokenizerKind
from oelm.data.hub import HubCorpus
from oelm.data.prepare import folder_of_its_own, prepare, prepare_in_turn
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Files, Hub, Stories
from oelm.data.stories import stories
from oelm.data.tokenizer import load_tokenizer, save_tokenizer, train_bpe
from oelm.data.tokens import TokenFolder
from train.processes import until

FILES = ("train.bin", "valid.bin", "tokenizer.json", "manifest.json")


def run(request, out, overwrite=False):
    return prepare(request, out, overwrite=overwrite, progress=Silent())


def small(**changes):
    return PrepareRequest(**{"source": Stories(count=60), "tokenizer": TokenizerKind.BPE, "vocabulary": 400} | changes)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def decoded(folder: Path, split: str) -> list[str]:
    data = TokenFolder.open(folder)
    tokenizer = load_tokenizer(data.tokenizer_path)
    tokens = getattr(data, split)
    ends = np.flatnonzero(tokens == data.manifest.tokenizer.end_of_text)
    parts = np.split(tokens, ends + 1)
    assert len(parts[-1]) == 0, "the last document ends"
    return [tokenizer.decode(part[:-1].tolist()) for part in parts[:-1]]


@pytest.mark.parametrize("tokenizer", [TokenizerKind.BYTES, TokenizerKind.BPE])
def test_every_document_is_in_one_split(tmp_path, tokenizer):
    manifest = run(small(tokenizer=tokenizer), tmp_path / "data")
    train, valid = decoded(tmp_path / "data", "train"), decoded(tmp_path / "data", "valid")
    assert sorted(train + valid) == sorted(islice(stories(0), 60))
    assert (len(train), len(valid)) == (manifest.train.documents, manifest.valid.documents) == (54, 6)
    assert manifest.train.text_bytes == sum(map(len, train))
    assert manifest.sources[0].bytes == manifest.train.text_bytes + manifest.valid.text_bytes
    assert "6 whole documents" in manifest.holdout
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted([*FILES, "request.json"])


def test_the_tokenizer_is_learnt_from_training_documents_only(tmp_path):
    run(small(), tmp_path / "data")
    expected = train_bpe(iter(decoded(tmp_path / "data", "train")), 400)
    save_tokenizer(expected, tmp_path / "expected.json")
    assert (tmp_path / "expected.json").read_bytes() == (tmp_path / "data" / "tokenizer.json").read_bytes()


def test_equal_requests_give_equal_bytes(tmp_path):
    run(small(), tmp_path / "one")
    run(small(), tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_files_with_validation_of_their_own(tmp_path):
    (tmp_path / "a.txt").write_text("one\n<|endoftext|>\ntwo")
    (tmp_path / "b.jsonl").write_text('{"body": "three"}\n')
    request = small(
        source=Files(paths=(str(tmp_path / "a.txt"),)),
        valid=Files(paths=(str(tmp_path / "b.jsonl"),), text_field="body"),
        tokenizer="bytes",
    )
    manifest = run(request, tmp_path / "data")
    assert (decoded(tmp_path / "data", "train"), decoded(tmp_path / "data", "valid")) == (["one", "two"], ["three"])
    assert [(source.name, source.split) for source in manifest.sources] == [("a.txt", "train"), ("b.jsonl", "valid")]
    assert manifest.name == "a"
    assert "source of its own" in manifest.holdout


def test_a_text_of_few_documents_holds_out_its_end(tmp_path):
    text = "".join(f"This is line {number}.\n" for number in range(400))
    (tmp_path / "a.txt").write_text(text)
    manifest = run(small(source=Files(paths=(str(tmp_path / "a.txt"),))), tmp_path / "data")
    [train], [valid] = decoded(tmp_path / "data", "train"), decoded(tmp_path / "data", "valid")
    assert train + valid == text
    assert valid.startswith("This is")
    assert "the last" in manifest.holdout


def test_a_long_document_gets_one_end(tmp_path):
    text = "word " * 100_000  # several pieces
    (tmp_path / "a.txt").write_text(text)
    run(small(source=Files(paths=(str(tmp_path / "a.txt"),)), tokenizer="bytes"), tmp_path / "data")
    [train], [valid] = decoded(tmp_path / "data", "train"), decoded(tmp_path / "data", "valid")
    assert train + valid == text


def test_end_of_text_inside_a_document_stays_text(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{n} <|endoftext|> {n}"}}\n' for n in range(30)))
    manifest = run(small(source=Files(paths=(str(tmp_path / "a.jsonl"),))), tmp_path / "data")
    assert manifest.train.documents + manifest.valid.documents == 30
    assert all("<|endoftext|>" in text for text in decoded(tmp_path / "data", "train"))


def test_a_tokenizer_can_be_used_again(tmp_path):
    run(small(), tmp_path / "one")
    again = small(source=Stories(seed=1, count=30), tokenizer_files=(str(tmp_path / "one" / "tokenizer.json"),))
    manifest = run(again, tmp_path / "two")
    assert manifest.tokenizer == TokenFolder.open(tmp_path / "one").manifest.tokenizer
    assert len(decoded(tmp_path / "two", "train")) == 27


def test_a_tokenizer_that_truncates_and_pads_gives_the_same_tokens_and_is_told_of(tmp_path):
    run(small(), tmp_path / "one")
    foreign = load_tokenizer(tmp_path / "one" / "tokenizer.json")
    foreign.enable_truncation(8)
    foreign.enable_padding(length=12)
    foreign.save(str(tmp_path / "foreign.json"))
    progress = StopAfterChunks(1_000_000)
    prepare(small(tokenizer_files=(str(tmp_path / "foreign.json"),)), tmp_path / "two", progress=progress)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert len(progress.said) == 1
    assert "foreign.json: truncation and padding ignored" in progress.said[0]


def test_who_comes_second_waits_and_takes_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("oelm.data.prepare._BUSY_SECONDS", 0.05)
    request, said = small(tokenizer="bytes"), []
    first = FileLock.take(make_folder(tmp_path / "data"))
    with ThreadPoolExecutor() as threads:
        second = threads.submit(prepare_in_turn, request, tmp_path / "data", said.append)
        until(lambda: said, alive=lambda: not second.done())
        first.release()
        assert second.result() == run(request, tmp_path / "data")
    assert said == [f"{tmp_path / 'data'}: another process is preparing it; waiting"]


def test_what_another_process_has_finished_since_we_looked_is_not_made_again(tmp_path):
    """It may be training on it. The first line is said after the look and before the lock is taken."""
    run(small(), tmp_path / "one")
    foreign = load_tokenizer(tmp_path / "one" / "tokenizer.json")
    foreign.enable_truncation(8)
    foreign.save(str(tmp_path / "foreign.json"))
    request, made = small(tokenizer_files=(str(tmp_path / "foreign.json"),)), []

    class Overtaken(Silent):
        def say(self, message):
            run(request, tmp_path / "two")
            made.append((tmp_path / "two" / "train.bin").stat())

    prepare(request, tmp_path / "two", progress=Overtaken())
    (theirs,) = made
    assert (tmp_path / "two" / "train.bin").stat() == theirs


@pytest.mark.slow
def test_a_wide_vocabulary_needs_32_bits(tmp_path):
    letters = str.maketrans("0123456789", "abcdefghij")
    names = "".join(f"{number * 7919 % 10**6:06} " for number in range(80_000)).translate(letters)
    (tmp_path / "a.txt").write_text(names)
    source = Files(paths=(str(tmp_path / "a.txt"),))
    manifest = run(small(source=source, vocabulary=66_000, holdout_share=0.01), tmp_path / "data")
    assert manifest.tokenizer.vocabulary == 66_000
    assert manifest.dtype == "uint32"
    [train], [valid] = decoded(tmp_path / "data", "train"), decoded(tmp_path / "data", "valid")
    assert train + valid == names


def test_a_finished_folder_is_verified_and_left_alone(tmp_path):
    first = run(small(), tmp_path / "data")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    assert run(small(), tmp_path / "data") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == before
    with (tmp_path / "data" / "train.bin").open("r+b") as file:
        file.write(b"\x01\x02\x03")
    with pytest.raises(DataError, match=r"train\.bin is damaged.*--overwrite"):
        run(small(), tmp_path / "data")


def test_another_request_is_refused_unless_it_may_overwrite(tmp_path):
    run(small(), tmp_path / "data")
    with pytest.raises(DataError, match=r"finished preparation with other settings.*another folder.*overwrite=True"):
        run(small(vocabulary=300), tmp_path / "data")
    assert run(small(vocabulary=300), tmp_path / "data", overwrite=True).tokenizer.vocabulary == 300


def test_a_folder_without_a_name_is_called_after_its_source(tmp_path):
    """So that what a command has made is what a study asks for, which names its corpora, and the other way round."""
    first = run(small(), tmp_path / "data")
    assert first.name == "stories"
    assert run(small(name="stories"), tmp_path / "data") == first
    with pytest.raises(DataError, match="other settings"):
        run(small(name="tales"), tmp_path / "data")
    named = run(small(name="stories"), tmp_path / "named")
    assert run(small(), tmp_path / "named") == named == first


def test_a_folder_of_its_own_is_the_plain_one_only_of_the_request_that_made_it(tmp_path):
    plain, others = tmp_path / "stories", [small(), small(vocabulary=300), small(source=Stories(count=61))]
    apart = [folder_of_its_own(request, plain) for request in others]
    assert len({plain, *apart}) == 4
    assert {folder.parent for folder in apart} == {tmp_path}
    run(small(), plain)
    assert [folder_of_its_own(request, plain) for request in others] == [plain, *apart[1:]]


def test_files_of_one_name_in_two_folders_do_not_share_one(tmp_path):
    one, two = (small(source=Files(paths=(f"{place}/train.txt",))) for place in ("a", "b"))
    assert one.identity() == two.identity()
    assert folder_of_its_own(one, tmp_path / "mine") != folder_of_its_own(two, tmp_path / "mine")


def test_a_changed_input_is_noticed_and_a_moved_one_is_not_minded(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n" * 50)
    request = small(source=Files(paths=(str(tmp_path / "a.txt"),)), tokenizer="bytes")
    first = run(request, tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a.txt").rename(tmp_path / "elsewhere" / "a.txt")
    assert run(request, tmp_path / "data") == first
    moved = small(source=Files(paths=(str(tmp_path / "elsewhere" / "a.txt"),)), tokenizer="bytes")
    assert run(moved, tmp_path / "data") == first
    (tmp_path / "a.txt").write_text("other text\n" * 50)
    with pytest.raises(DataError, match=r"another version of .*a\.txt"):
        run(request, tmp_path / "data")


def test_a_changed_tokenizer_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("oelm.data.prepare.CHUNK_CHARACTERS", 1000)
    path = tmp_path / "tokenizer.json"
    save_tokenizer(train_bpe(islice(stories(0), 20), 300), path)
    request = small(tokenizer_files=(str(path),))
    first = run(request, tmp_path / "data")
    assert run(request, tmp_path / "data") == first
    with pytest.raises(KeyboardInterrupt):
        prepare(request, tmp_path / "interrupted", progress=StopAfterChunks(5))
    save_tokenizer(train_bpe(islice(stories(0), 20), 310), path)
    with pytest.raises(DataError, match=r"another version of .*tokenizer\.json.*overwrite=True"):
        run(request, tmp_path / "data")
    progress = StopAfterChunks(1_000_000)
    manifest = prepare(request, tmp_path / "interrupted", progress=progress)
    assert "the tokenizer has changed" in progress.said[0]
    assert manifest.tokenizer.vocabulary == 310
    path.unlink()
    assert run(request, tmp_path / "data") == first


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / "train.bin").write_bytes(b"precious")
    with pytest.raises(DataError, match=r"holds other data \(train\.bin\)"):
        run(small(), tmp_path)
    assert (tmp_path / "train.bin").read_bytes() == b"precious"


@pytest.mark.parametrize("text", ["", " \n\n ", "<|endoftext|>\n<|endoftext|>\n"])
def test_an_empty_corpus(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=r"no text in a\.txt"):
        run(small(source=Files(paths=(str(tmp_path / "a.txt"),))), tmp_path / "data")
    assert run(small(), tmp_path / "data").train.documents == 54  # the failure did not occupy the folder


def test_empty_validation(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match=r"no validation text in a\.txt"):
        run(small(valid=Files(paths=(str(tmp_path / "a.txt"),))), tmp_path / "data")
    (tmp_path / "b.txt").write_text("x")
    with pytest.raises(DataError, match="too short to hold out"):
        run(small(source=Files(paths=(str(tmp_path / "b.txt"),)), tokenizer="bytes"), tmp_path / "data2")


def test_a_missing_input_leaves_no_folder_behind(tmp_path):
    with pytest.raises(DataError, match="no file"):
        run(small(source=Files(paths=(str(tmp_path / "absent.txt"),))), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        run(small(), tmp_path / "file" / "data")


LIMITED = """
import resource, signal, sys
from pathlib import Path
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Stories
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
prepare(PrepareRequest(source=Stories(count=60), tokenizer="bytes"), Path(sys.argv[1]))
"""


def test_a_file_that_may_not_grow_any_more_and_can_be_continued_later(tmp_path):
    """The system refuses in the middle of a write, as a full disk would."""
    refused = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert re.search(r"StorageError: cannot write .*train\.bin: .*Fix: free space there", refused.stderr)
    assert not (tmp_path / "data" / "manifest.json").exists()
    assert run(small(tokenizer="bytes", vocabulary=4096), tmp_path / "data").train.documents == 54


def test_tokenizer_files_must_fit_the_kind():
    with pytest.raises(ValidationError, match="no files at most"):
        small(tokenizer="bytes", tokenizer_files=("a.json",))
    with pytest.raises(ValidationError, match="1 files at most"):
        small(tokenizer_files=("a.json", "b.json"))


def test_hub_corpora_bring_their_validation_if_they_have_one():
    tinystories = small(source=Hub(corpus=HubCorpus.TINYSTORIES, revision="abc"))
    assert tinystories.validation == Hub(corpus=HubCorpus.TINYSTORIES, revision="abc", split="validation")
    assert small(source=Hub(corpus=HubCorpus.OPENWEBTEXT)).validation is None
    assert tinystories.label == "tinystories"


DRIVER = """
import sys
from pathlib import Path
from oelm.data import prepare as module
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Stories
module.CHUNK_CHARACTERS = 20_000
module.prepare(PrepareRequest(source=Stories(text_bytes=800_000), vocabulary=500), Path(sys.argv[1]))
"""


def drive(out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(out)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def kill_once(out: Path, chunks: int) -> None:
    """Start, wait until about `chunks` more chunks are in the journal, kill -9."""
    process = drive(out)
    train = out / "train.bin"
    wanted = (train.stat().st_size if train.exists() else 0) + chunks * 8_000
    while process.poll() is None and not (train.exists() and train.stat().st_size > wanted):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_killed_at_any_instant_it_continues_to_the_same_bytes(tmp_path):
    undisturbed, killed = drive(tmp_path / "undisturbed"), tmp_path / "killed"
    assert undisturbed.wait() == 0
    undisturbed.stderr.close()
    kill_once(killed, chunks=3)
    assert not (killed / "manifest.json").exists()
    with (killed / "train.bin").open("ab") as file:
        file.write(b"half a chunk that never got into the journal")
    kill_once(killed, chunks=10)
    last = drive(killed)
    _, messages = last.communicate()
    assert last.returncode == 0
    assert "continuing an interrupted preparation after" in messages
    assert contents(killed) == contents(tmp_path / "undisturbed")
    assert not (killed / "journal.json").exists()


class StopAfterChunks(Silent):
    """Interrupts the encoding from inside, as Ctrl-C would, and keeps what was said."""

    def __init__(self, chunks: int) -> None:
        self.left, self.said = chunks, []

    def start(self, stage, total_bytes):
        self.encoding = stage == "encoding"

    def advance(self, text_bytes):
        if self.encoding and text_bytes:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def say(self, message):
        self.said.append(message)


def test_a_changed_input_starts_over(tmp_path, monkeypatch):
    monkeypatch.setattr("oelm.data.prepare.CHUNK_CHARACTERS", 1000)
    path = tmp_path / "a.txt"
    request = small(source=Files(paths=(str(path),)), tokenizer="bytes")
    path.write_text("\n<|endoftext|>\n".join(islice(stories(0), 40)))
    for chunks in (5, 7):
        progress = StopAfterChunks(chunks)
        with pytest.raises(KeyboardInterrupt):
            prepare(request, tmp_path / "data", progress=progress)
    assert "continuing" in progress.said[0]
    path.write_text("\n<|endoftext|>\n".join(islice(stories(1), 40)))
    progress = StopAfterChunks(1_000_000)
    prepare(request, tmp_path / "data", progress=progress)
    assert "has changed since" in progress.said[0]
    everything = decoded(tmp_path / "data", "train") + decoded(tmp_path / "data", "valid")
    assert sorted(everything) == sorted(islice(stories(1), 40))


@pytest.mark.parametrize("file", ["train.bin", "valid.bin"])
@pytest.mark.parametrize("left", [None, 0.5])
def test_a_token_file_that_is_gone_or_cut_short_starts_over(tmp_path, monkeypatch, file, left):
    """To continue would fill the gap with zeros, which are tokens too."""
    request = small(tokenizer="bytes", vocabulary=4096)
    with monkeypatch.context() as patch:
        patch.setattr("oelm.data.prepare.CHUNK_CHARACTERS", 1000)
        with pytest.raises(KeyboardInterrupt):
            prepare(request, tmp_path / "data", progress=StopAfterChunks(30))
    path = tmp_path / "data" / file
    assert path.stat().st_size > 100
    if left is None:
        path.unlink()
    else:
        os.truncate(path, int(path.stat().st_size * left))
    progress = StopAfterChunks(1_000_000)
    prepare(request, tmp_path / "data", progress=progress)
    run(request, tmp_path / "undisturbed")
    assert contents(tmp_path / "data") == contents(tmp_path / "undisturbed")
    assert "missing or cut short: starting over" in progress.said[0]


def test_a_corpus_of_the_hub_with_its_validation(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    cache_split(tmp_path / "cache", HubCorpus.TINYSTORIES, ["one", "two", "three"], "train")
    cache_split(tmp_path / "cache", HubCorpus.TINYSTORIES, ["four"], "validation")
    manifest = run(small(source=Hub(corpus=HubCorpus.TINYSTORIES), tokenizer="bytes"), tmp_path / "data")
    assert decoded(tmp_path / "data", "train") == ["one", "two", "three"]
    assert decoded(tmp_path / "data", "valid") == ["four"]
    assert [source.split for source in manifest.sources] == ["train", "valid"]
    assert len(manifest.sources[0].revision) == 40


def test_an_unfinished_folder_refuses_another_request(tmp_path):
    kill_once(tmp_path / "data", chunks=1)
    assert not (tmp_path / "data" / "manifest.json").exists()
    with pytest.raises(DataError, match="an unfinished preparation with other settings"):
        run(small(), tmp_path / "data")
    assert run(small(), tmp_path / "data", overwrite=True).train.documents == 54


def test_two_processes_do_not_share_a_folder(tmp_path):
    import fcntl

    run(small(), tmp_path / "data")
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(DataError, match="by another process"):
            run(small(), tmp_path / "data", overwrite=True)
    finally:
        os.close(descriptor)
    assert run(small(), tmp_path / "data").train.documents == 54


MEASURE = """
import resource, sys
from pathlib import Path
from oelm.data.prepare import prepare
from oelm.data.progress import Silent
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Files
source = Files(paths=(sys.argv[1],))
prepare(PrepareRequest(source=source, vocabulary=1000), Path(sys.argv[2]), progress=Silent())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("separator", ["\n<|endoftext|>\n", " "])
def test_memory_does_not_grow_with_the_corpus(tmp_path, separator):
    """Documents, or one endless line: four times the text takes about as much memory."""
    text = separator.join(" ".join(text.split()) for text in islice(stories(0), 6000))
    peaks = []
    for times in (1, 4):
        path = tmp_path / f"{times}.txt"
        with path.open("w") as file:
            for _ in range(times):
                file.write(text + separator)
        measured = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path), str(tmp_path / str(times))],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(int(measured.stdout) / 1024)
    assert peaks[1] < 1.15 * peaks[0] + 20, peaks


# --- a part of a corpus ------------------------------------------------------------------------------------------


def test_the_first_documents(tmp_path):
    manifest = run(small(max_documents=30), tmp_path / "data")
    kept = decoded(tmp_path / "data", "train") + decoded(tmp_path / "data", "valid")
    assert sorted(kept) == sorted(islice(stories(0), 30))
    assert manifest.sources[0].documents == 30


@pytest.mark.parametrize("most", [20_000, 20_001, 20_013])
def test_so_much_text_and_no_more(tmp_path, most):
    manifest = run(small(max_bytes=most), tmp_path / "data")
    kept = decoded(tmp_path / "data", "train") + decoded(tmp_path / "data", "valid")
    read = manifest.train.text_bytes + manifest.valid.text_bytes
    assert read == manifest.sources[0].bytes
    assert most - 20 < read <= most, "less than a word is lost"
    whole = list(islice(stories(0), len(kept)))
    [cut] = set(kept) - set(whole)
    assert sorted([*kept, whole[-1]]) == sorted([*whole, cut])
    assert whole[-1].startswith(cut)
    assert whole[-1][len(cut)].isspace()


def test_a_cap_counts_over_all_files_and_over_pieces_of_a_document(tmp_path):
    (tmp_path / "a.txt").write_text("äöü one\n<|endoftext|>\ntwo two")
    (tmp_path / "b.txt").write_text(" ".join(["word"] * 40_000))  # several pieces
    (tmp_path / "c.txt").write_text("never read")
    paths = tuple(str(tmp_path / f"{name}.txt") for name in "abc")
    valid = Files(paths=(str(tmp_path / "c.txt"),))
    request = small(source=Files(paths=paths), valid=valid, tokenizer=TokenizerKind.BYTES, max_bytes=100_020)
    sources = run(request, tmp_path / "data").sources
    assert [source.bytes for source in sources] == [17, 99_999, 0, len("never read")]
    assert decoded(tmp_path / "data", "train") == ["äöü one", "two two", " ".join(["word"] * 20_000)]
    fewer = small(source=Files(paths=paths), valid=valid, tokenizer=TokenizerKind.BYTES, max_documents=2)
    run(fewer, tmp_path / "two")
    assert decoded(tmp_path / "two", "train") == ["äöü one", "two two"]


def test_a_cap_that_nothing_reaches_changes_nothing_and_equal_caps_give_equal_bytes(tmp_path):
    run(small(), tmp_path / "all")
    run(small(max_bytes=10**9, max_documents=10**6), tmp_path / "beyond")
    assert contents(tmp_path / "all") == contents(tmp_path / "beyond")
    for name in ("one", "two"):
        run(small(max_bytes=9_000), tmp_path / name)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != contents(tmp_path / "all")
    with pytest.raises(DataError, match="other settings"):
        run(small(max_bytes=9_001), tmp_path / "one")
    assert "max_bytes" not in small().identity()


@pytest.mark.parametrize(
    ("text", "size"), [("189MB", 189_000_000), ("2.5 gb", 2_500_000_000), ("70k", 70_000), ("7", 7)]
)
def test_sizes_as_people_write_them(text, size):
    assert _bytes(text, "--max-bytes") == size


def test_a_size_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"--valid-bytes 'much' is not a size.*189MB"):
        _bytes("much", "--valid-bytes")
