import dataclasses
import gzip
import json
import lzma
import shutil

import numpy as np
import pytest

from oelm.base.errors import DataError
from oelm.config.labelled_data import Columns, HubTask, LabelledFile
from oelm.data import labelled_hub
from oelm.data.labelled import label_indices, label_names, read_table, split_training
from oelm.data.labelled_hub import LABELLED_SETS, at_commit, fetch_labelled

SENTENCE = Columns(text="sentence")
PAIR = Columns(text="premise", pair="hypothesis")


def written(path, content):
    path.write_text(content, encoding="utf-8")
    return LabelledFile(path=str(path))


def test_tsv_takes_quotes_as_letters(tmp_path):
    file = written(tmp_path / "a.tsv", 'sentence\tlabel\nhe said "no\t0\nfine\t1\n')
    examples = read_table(file, SENTENCE)
    assert examples.texts == ('he said "no', "fine")
    assert examples.labels == ("0", "1")
    assert examples.pairs is None


def test_csv_reads_quoted_cells_and_line_breaks_in_them(tmp_path):
    file = written(tmp_path / "a.csv", 'label,sentence\n1,"a, ""quoted""\ncell"\n0,plain\n')
    assert read_table(file, SENTENCE).texts == ('a, "quoted"\ncell', "plain")


def test_jsonl_pairs(tmp_path):
    rows = [{"premise": "a", "hypothesis": "b", "label": "entailment"}, {"premise": "c", "hypothesis": "d", "label": 2}]
    file = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    examples = read_table(file, PAIR)
    assert examples.pairs == ("b", "d")
    assert examples.labels == ("entailment", "2")


@pytest.mark.parametrize(("ending", "opened"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_tables(tmp_path, ending, opened):
    path = tmp_path / f"a.tsv{ending}"
    with opened(path, "wt", encoding="utf-8") as file:
        file.write("sentence\tlabel\nwell\t1\n")
    assert read_table(LabelledFile(path=str(path)), SENTENCE).texts == ("well",)


def test_columns_of_a_file_without_a_header(tmp_path):
    (tmp_path / "dev.tsv").write_text("a\tb\tneutral\nc\td\tentailment\n", encoding="utf-8")
    file = LabelledFile(path=str(tmp_path / "dev.tsv"), header=("premise", "hypothesis", "label"))
    assert read_table(file, PAIR).texts == ("a", "c")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tlabel\na\t1\n", r"line 2 has no column 'sentence'; it has 'text', 'label'"),
        ("sentence\tlabel\na\t1\tmore\n", r"line 2 has 3 columns and the header 2"),
        ("sentence\tlabel\n\n\na\n", r"line 4 has 1 columns"),
        ("sentence\tlabel\n", r"holds no examples"),
    ],
)
def test_bad_tables_are_named(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path / "a.tsv", content), SENTENCE)


def test_lines_are_counted_through_blank_ones_and_line_breaks_in_cells(tmp_path):
    file = written(tmp_path / "a.csv", 'sentence,label\n\n"two\nlines",1\nalone\n')
    with pytest.raises(DataError, match="line 5 has 1 columns"):
        read_table(file, SENTENCE)


def test_what_is_not_csv_is_named(tmp_path):
    file = written(tmp_path / "a.csv", f"sentence,label\na,1\n{'x' * 200_000},1\n")
    with pytest.raises(DataError, match="line 3 is not CSV: field larger than"):
        read_table(file, SENTENCE)


def test_null_is_not_a_text(tmp_path):
    rows = ['{"sentence": "a", "label": 1, "note": null}', "", '{"sentence": null, "label": 1}']
    with pytest.raises(DataError, match="line 3: 'sentence' is null"):
        read_table(written(tmp_path / "a.jsonl", "\n".join(rows)), SENTENCE)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_table(LabelledFile(path=str(tmp_path / "none.tsv")), SENTENCE)


def test_classes_are_ordered_as_numbers_or_by_name(tmp_path):
    numbers = written(tmp_path / "n.tsv", "sentence\tlabel\na\t10\nb\t9\nc\t2\n")
    assert label_names([read_table(numbers, SENTENCE)]) == ("2", "9", "10")
    one = written(tmp_path / "o.tsv", "sentence\tlabel\na\t1\nb\t1\n")
    with pytest.raises(DataError, match="only one class"):
        label_names([read_table(one, SENTENCE)])


def test_a_label_that_training_lacks_is_refused(tmp_path):
    test = read_table(written(tmp_path / "t.tsv", "sentence\tlabel\na\t-1\n"), SENTENCE)
    with pytest.raises(DataError, match="'-1', which training does not"):
        label_indices(test, ("0", "1"), "test")


def test_the_hold_out_is_disjoint_and_a_function_of_the_seed():
    train, held = split_training(100, train_examples=60, holdout_examples=20, seed=0)
    again, _ = split_training(100, train_examples=60, holdout_examples=20, seed=0)
    other, _ = split_training(100, train_examples=60, holdout_examples=20, seed=1)
    assert len(set(train)) == 60
    assert len(set(held)) == 20
    assert not set(train) & set(held)
    assert np.array_equal(train, again)
    assert not np.array_equal(train, other)
    fewer, same_held = split_training(100, train_examples=30, holdout_examples=20, seed=0)
    assert np.array_equal(same_held, held), "fewer examples are a part of more, and the hold-out stays"
    assert set(fewer) < set(train)


def test_more_examples_than_there_are_is_refused():
    with pytest.raises(DataError, match="10 examples are too few"):
        split_training(10, train_examples=9, holdout_examples=2, seed=0)


COMMITS = ("a" * 40, "b" * 40)


def cache_xnli(folder, commit, splits=("train", "test", "validation")):
    """As `datasets` leaves it after a download."""
    import datasets
    import pyarrow as pa

    classes = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features(
        {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string"), "label": classes}
    )
    place = folder / "facebook___xnli" / "en" / "0.0.0" / commit
    place.mkdir(parents=True)
    for split in splits:
        rows = {"premise": [commit, split], "hypothesis": ["x", "y"], "label": [2, 0]}
        table = datasets.Dataset.from_dict(rows, features=features).data.table
        with pa.OSFile(str(place / f"xnli-{split}.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)


def unreachable(*_arguments, **_named):
    raise DataError("cannot fetch it", "go online")


def test_a_cached_hub_task_needs_no_network_and_stays_at_its_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(labelled_hub, "require_hub", unreachable)
    cache_xnli(tmp_path, COMMITS[0])
    task = at_commit(HubTask(name="xnli"))
    assert task.revision == COMMITS[0]
    cache_xnli(tmp_path, COMMITS[1])
    train, evaluate = fetch_labelled(task)
    assert train.texts == (COMMITS[0], "train")
    assert train.pairs == ("x", "y")
    assert evaluate["test"].labels == ("contradiction", "entailment")


def test_online_the_revision_is_resolved_once(monkeypatch):
    monkeypatch.setattr(labelled_hub, "require_hub", lambda *_, **__: COMMITS[1])
    assert at_commit(HubTask(name="xnli", revision="main")).revision == COMMITS[1]
    monkeypatch.setattr(labelled_hub, "require_hub", unreachable)
    assert at_commit(HubTask(name="xnli", revision=COMMITS[0])).revision == COMMITS[0]


def test_half_a_cache_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(labelled_hub, "require_hub", unreachable)
    cache_xnli(tmp_path, COMMITS[0], splits=("train",))
    with pytest.raises(DataError, match="cannot fetch"):
        at_commit(HubTask(name="xnli"))


def test_a_cache_that_lacks_a_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(labelled_hub, "require_hub", unreachable)
    cache_xnli(tmp_path, COMMITS[0])
    [train] = tmp_path.rglob("xnli-train.arrow")
    train.rename(train.with_name("xnli-train-00000-of-00002.arrow"))
    for task in (HubTask(name="xnli"), HubTask(name="xnli", revision=COMMITS[0])):
        with pytest.raises(DataError, match=r"is incomplete: there is no xnli-train-00001-of-00002\.arrow"):
            fetch_labelled(task)


def test_files_that_were_loaded_apart_are_not_part_of_a_set(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    nameless = dataclasses.replace(LABELLED_SETS["xnli"], config=None)
    monkeypatch.setitem(LABELLED_SETS, "xnli", nameless)
    cache_xnli(tmp_path, COMMITS[0])
    cached = tmp_path / "facebook___xnli"
    shutil.copytree(cached / "en", cached / "en-0123456789abcdef")
    train, _ = fetch_labelled(HubTask(name="xnli", revision=COMMITS[0]))
    assert train.texts == (COMMITS[0], "train")


def test_offline_with_nothing_cached_names_the_local_files(tmp_path, monkeypatch):
    import huggingface_hub

    def offline(*_arguments, **_named):
        raise huggingface_hub.errors.OfflineModeIsEnabled("offline mode is enabled")

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", offline)
    with pytest.raises(DataError, match=r"^cannot fetch xnli .*--train FILE --evaluate FILE"):
        at_commit(HubTask(name="xnli"))
