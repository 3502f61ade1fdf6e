import gzip
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from oelm.base.errors import DataError
from oelm.data.textfiles import CHUNK_BYTES, file_pieces, text_chunks

TEXT = "Ünïcode ☃ first\n<|endoftext|>\nsecond 🎈\n"
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def texts(path, text_field="text", separator="<|endoftext|>"):
    documents, parts = [], []
    for piece in file_pieces(path, separator=separator, text_field=text_field):
        parts.append(piece.text)
        if piece.ends:
            documents.append("".join(parts))
            parts = []
    return documents


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.tokens", "a"])
def test_plain_and_compressed_text(tmp_path, name, ending):
    path = tmp_path / (name + ending)
    path.write_bytes(COMPRESSORS[ending](TEXT.encode()))
    assert texts(path) == ["Ünïcode ☃ first", "second 🎈\n"]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("a.csv", "JSON lines"),
        ("a.TSV.gz", "JSON lines"),
        ("a.zip", "unpack it"),
        ("a.tar.gz", "unpack it"),
        ("a.txt.bz2", "unpack it"),
    ],
)
def test_what_would_be_read_as_one_long_text_is_refused(tmp_path, name, fix):
    path = tmp_path / name
    path.write_bytes(b"text,label")
    with pytest.raises(DataError, match=f"is not read.*Fix: .*{fix}"):
        texts(path)


def test_an_array_of_objects_is_no_json_lines_and_a_folder_no_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "one"}]))
    with pytest.raises(DataError, match=r"line 1 is not a JSON object but list.*on each line"):
        texts(path)
    with pytest.raises(DataError, match=r"is a folder, not a file.*/\*"):
        texts(tmp_path)


@pytest.mark.parametrize("kind", [".jsonl", ".ndjson", ".json"])
@pytest.mark.parametrize("ending", COMPRESSORS)
def test_json_lines(tmp_path, ending, kind):
    lines = [json.dumps({"id": 1, "text": "one\ntwo"}), "", json.dumps({"text": "☃\u2028x"}, ensure_ascii=False)]
    path = tmp_path / f"a{kind}{ending}"
    path.write_bytes(COMPRESSORS[ending]("\n".join(lines).encode()))
    assert texts(path) == ["one\ntwo", "☃\u2028x"]


def test_several_frames_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress("\ufeffone ".encode()) + zstandard.compress(b"two"))
    assert texts(path) == ["one two"]


def test_another_separator(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\n-+-\ntwo")
    assert texts(path, separator="-+-") == ["one", "two"]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "wrong"])
def test_damaged_compression_is_named(tmp_path, ending, damage):
    path = tmp_path / ("a.txt" + ending)
    whole = COMPRESSORS[ending](bytes(i * i % 251 for i in range(100_000)).hex().encode())
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"no compression at all")
    with pytest.raises(DataError, match=rf"a\.txt\{ending} is damaged"):
        texts(path)


@pytest.mark.parametrize("offset", [0, 5, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 7])
def test_invalid_utf8_names_file_and_offset(tmp_path, offset):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * offset + b"\xff" + b"y" * 10)
    with pytest.raises(DataError, match=rf"a\.txt is not UTF-8: byte 0xff at offset {offset}\."):
        texts(path)


def test_utf8_cut_off_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc" + "☃".encode()[:2])
    with pytest.raises(DataError, match="offset 3"):
        texts(path)


def test_characters_across_chunks(tmp_path):
    path = tmp_path / "a.txt"
    text = "x" + "☃" * (CHUNK_BYTES // 2)
    path.write_text(text, encoding="utf-8")
    assert "".join(text_chunks(path)) == text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{nope", r"line 2 is not JSON"),
        ('{"body": 1, "id": 2}', r"line 2 has no field 'text'; it has 'body', 'id'.*--text-field"),
        ('["text"]', r"line 2 is not a JSON object but list"),
        ('{"text": 3}', r"line 2: the field 'text' is not text but int"),
        ('{"text": "\\ud800"}', r"line 2 holds half a surrogate pair"),
    ],
)
def test_bad_json_lines_are_named(tmp_path, line, complaint):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, {complaint}"):
        texts(path)


def test_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["one", None, "☃"], "n": [1, 2, 3]}), path)
    assert texts(path, text_field="body") == ["one", "", "☃"]
    with pytest.raises(DataError, match=r"no column 'text'; it has 'body', 'n'.*--text-field"):
        texts(path)
    with pytest.raises(DataError, match="'n' holds no text"):
        texts(path, text_field="n")
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="as parquet"):
        texts(path)


def test_a_missing_file_is_noticed_before_reading(tmp_path):
    with pytest.raises(DataError, match="no file"):
        file_pieces(tmp_path / "absent.txt", separator="-", text_field="text")
