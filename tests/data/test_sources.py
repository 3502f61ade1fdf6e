import os
import subprocess
import sys
import time

import pytest
from pydantic import ValidationError

from data.hub_cache import cache_split
from oelm.base.errors import DataError
from oelm.data.hub import HUB_DATASETS, HubCorpus
from oelm.data.sources import Files, Hub, Stories, measure, open_source
from oelm.data.stories import story


def read(source):
    return [piece.text for each in open_source(source) for piece in each.pieces()]


def nothing(_: int) -> None:
    pass


def test_stories_by_count_and_by_bytes():
    assert read(Stories(seed=3, count=4)) == [story(3, index) for index in range(4)]
    size = measure(open_source(Stories(text_bytes=5000))[0].pieces(), nothing)
    assert 5000 <= size.text_bytes < 5000 + 2000


@pytest.mark.parametrize("values", [{}, {"count": 1, "text_bytes": 1}])
def test_stories_have_one_size(values):
    with pytest.raises(ValidationError, match="either as a number of stories or in bytes"):
        Stories(**values)


def test_files_in_their_order_with_name_and_digest(tmp_path):
    (tmp_path / "b.txt").write_text("one\n<|endoftext|>\ntwo")
    (tmp_path / "a.jsonl").write_text('{"text": "☃"}')
    source = Files(paths=(str(tmp_path / "b.txt"), str(tmp_path / "a.jsonl")))
    inputs = open_source(source)
    assert [each.name for each in inputs] == ["b.txt", "a.jsonl"]
    assert all(len(each.sha256) == 64 for each in inputs)
    assert read(source) == ["one", "two", "☃"]
    assert measure(inputs[1].pieces(), nothing) == (1, 3)


def test_pieces_can_be_read_again(tmp_path):
    (tmp_path / "a.txt").write_text("x " * 100)
    [each] = open_source(Files(paths=(str(tmp_path / "a.txt"),)))
    assert list(each.pieces()) == list(each.pieces())


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"no file .*absent\.txt"):
        open_source(Files(paths=(str(tmp_path / "absent.txt"),)))


@pytest.mark.parametrize("separator", ["", "a\nb", "a\r"])
def test_a_separator_is_one_line(separator):
    with pytest.raises(ValidationError):
        Files(paths=("a.txt",), separator=separator)


def test_a_cached_corpus_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    cache_split(tmp_path, HubCorpus.TINYSTORIES, ["one", "", "two", "three"], "train", parts=2)
    cache_split(tmp_path, HubCorpus.TINYSTORIES, ["four"], "validation")
    [train] = open_source(Hub(corpus=HubCorpus.TINYSTORIES))
    assert [piece.text for piece in train.pieces()] == ["one", "two", "three"]
    assert train.revision == HUB_DATASETS[HubCorpus.TINYSTORIES].revision
    assert read(Hub(corpus=HubCorpus.TINYSTORIES, split="validation")) == ["four"]


def own_name(**given: object) -> str:
    """What `datasets` calls a configuration that was loaded with more than its name."""
    import datasets

    return datasets.BuilderConfig().create_config_id(given)


@pytest.mark.parametrize("given", [{"data_files": {"train": ["a.parquet"]}}, {"data_dir": "a"}, {"data_dir": "a" * 40}])
def test_files_that_were_loaded_apart_are_not_part_of_a_corpus(tmp_path, monkeypatch, given):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    cache_split(tmp_path, HubCorpus.TINYSTORIES, ["one", "two"], "train")
    assert own_name(**given) != "default"
    cache_split(tmp_path, HubCorpus.TINYSTORIES, ["another"], "train", config=own_name(**given))
    assert read(Hub(corpus=HubCorpus.TINYSTORIES)) == ["one", "two"]


def test_of_two_configurations_none_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    for config in ("default", "in-french"):
        cache_split(tmp_path, HubCorpus.TINYSTORIES, [config], "train", config=config)
    with pytest.raises(DataError, match=r"default.* and .*in-french.*nothing says which is meant. Fix: move away"):
        open_source(Hub(corpus=HubCorpus.TINYSTORIES))


def test_a_copied_cache_that_lacks_a_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    cache_split(tmp_path, HubCorpus.TINYSTORIES, ["one", "two", "three"], "train", parts=3)
    next(tmp_path.rglob("x-train-00001-of-00003.arrow")).unlink()
    with pytest.raises(DataError, match=r"is incomplete: there is no x-train-00001-of-00003\.arrow. Fix: copy"):
        open_source(Hub(corpus=HubCorpus.TINYSTORIES))


def test_a_split_that_is_there_twice_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    for parts in (1, 2):
        cache_split(tmp_path, HubCorpus.TINYSTORIES, ["one", "two"], "train", parts=parts)
    with pytest.raises(DataError, match=r"train split more than once: .*x-train\.arrow"):
        open_source(Hub(corpus=HubCorpus.TINYSTORIES))


def test_lines_of_wikitext_become_articles(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    rows = ["", " = One = \n", "", " text \n", " = not a heading = \n", "", " = = Section = = \n", "", " more \n",
            "", " = Two ( = ) = \n", "", " end \n"]  # fmt: skip
    cache_split(tmp_path, HubCorpus.WIKITEXT103, rows, "train")
    [article_one, article_two] = read(Hub(corpus=HubCorpus.WIKITEXT103))
    assert article_one == " = One = \n text \n = not a heading = \n = = Section = = \n more \n"
    assert article_two == " = Two ( = ) = \n end \n"


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
@pytest.mark.parametrize("revision", [None, "main"])
def test_without_the_hub_it_fails_at_once_with_the_fix(tmp_path, variables, revision):
    code = (
        "from oelm.data.sources import Hub, open_source; from oelm.data.hub import HubCorpus; "
        f"open_source(Hub(corpus=HubCorpus.OPENWEBTEXT, revision={revision!r}))"
    )
    began = time.monotonic()
    outcome = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "HF_HOME": str(tmp_path), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert time.monotonic() - began < 15, "nothing is tried again and again"
    assert "DataError: cannot fetch openwebtext" in outcome.stderr
    assert "on a machine with internet and copy the folder, or give local files: oelm prepare FILE" in outcome.stderr


def test_every_corpus_is_pinned_to_a_commit():
    assert set(HUB_DATASETS) == set(HubCorpus)
    assert all(len(dataset.revision) == 40 for dataset in HUB_DATASETS.values())
