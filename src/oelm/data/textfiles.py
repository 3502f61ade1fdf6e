"""Local files as text: plain or compressed, read in chunks, with errors that name the place."""

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

from oelm.base.errors import DataError, UnreadableError
from oelm.base.files import parsed_json
from oelm.data.pieces import Piece, split_documents

CHUNK_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 10  # compressed bytes at a time: four of them can become 128 KiB
_MOST_EXPANSION, _FREE_BYTES = 1000, 100_000_000
"""Text is compressed to a fifth, logs to a hundredth. What grows more than a thousandfold is meant to fill memory or
disk, or nearly empty: up to 100 MB nobody minds."""

_TABLE = "write the texts as JSON lines (.jsonl) or parquet, and name their field: --text-field NAME"
_UNPACK = "unpack it, or compress the texts as .gz, .xz or .zst"
_NO_TEXT = {".csv": _TABLE, ".tsv": _TABLE, ".zip": _UNPACK, ".tar": _UNPACK, ".tgz": _UNPACK, ".bz2": _UNPACK}
"""Usual endings of what would be read as one long text, and what to do instead."""

ByteChunks = Callable[[Path], Iterator[bytes]]


def file_pieces(path: Path, *, separator: str, text_field: str) -> Iterator[Piece]:
    """The documents of one file, by the ending of its name.

    A JSON line is parsed as a whole, so one document of a .jsonl file must fit into memory; the file need not.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file", f"give its files: {path}/*")
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    match suffixes[-1:]:
        case [".parquet"]:
            return (Piece(text, ends=True) for text in parquet_texts(path, text_field))
        case [".jsonl" | ".ndjson" | ".json"]:
            return _json_documents(path, text_field)
        case [ending] if ending in _NO_TEXT:
            raise DataError(f"{path} is no plain text: {ending} is not read", _NO_TEXT[ending])
        case _:
            return split_documents(text_chunks(path), separator)


def text_chunks(path: Path) -> Iterator[str]:
    """The text of a file in chunks, decompressed and decoded; a byte order mark is dropped."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read, begun = 0, False
    for chunk in _byte_chunks(path):
        text = _decode(path, decoder, chunk, read, final=False)
        yield text if begun else text.removeprefix("\ufeff")
        read += len(chunk)
        begun = begun or bool(text)
    _decode(path, decoder, b"", read, final=True)


def _decode(path: Path, decoder: codecs.IncrementalDecoder, chunk: bytes, read: int, *, final: bool) -> str:
    pending = decoder.getstate()[0]
    try:
        return decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        offset = read - len(pending) + error.start
        raise DataError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at offset {offset}",
            "convert it, for instance with iconv -t UTF-8",
        ) from error


def _byte_chunks(path: Path) -> Iterator[bytes]:
    """Decompressed bytes in chunks."""
    chunks = COMPRESSED.get(path.suffix.lower(), _plain)
    most, read = _MOST_EXPANSION * path.stat().st_size + _FREE_BYTES, 0
    try:
        for chunk in chunks(path):
            read += len(chunk)
            if read > most:
                raise DataError(
                    f"{path} grows more than {_MOST_EXPANSION:,}-fold when it is decompressed",
                    "decompress it yourself if it is meant to",
                )
            yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise DataError(
            f"{path} is damaged or not what its ending says: {error}", "copy or download it again, or rename it"
        ) from error
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}", "check the file and its permissions"
        ) from error


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK_BYTES), b"")


def _gzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as file:
        yield from iter(lambda: file.read(CHUNK_BYTES), b"")


def _xz(path: Path) -> Iterator[bytes]:
    with lzma.open(path, "rb") as file:
        yield from iter(lambda: file.read(CHUNK_BYTES), b"")


def _zstd(path: Path) -> Iterator[bytes]:
    """By frames and by hand: the library's own reader takes a cut-off file for a short one."""
    frame, waiting = zstandard.ZstdDecompressor().decompressobj(), False
    with path.open("rb") as file:
        while data := file.read(_ZSTD_BYTES):
            while data:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(data)
                waiting, data = not frame.eof, frame.unused_data if frame.eof else b""
    if waiting:
        raise EOFError("the file is cut off")


COMPRESSED: dict[str, ByteChunks] = {".gz": _gzip, ".xz": _xz, ".zst": _zstd}


def file_lines(path: Path, *, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a file, decompressed and decoded, without their line breaks unless asked for."""
    for line in _lines(text_chunks(path)):
        yield f"{line}\n" if keep_ends else line.removesuffix("\r")


def _json_documents(path: Path, field: str) -> Iterator[Piece]:
    for number, line in enumerate(_lines(text_chunks(path)), start=1):
        if line and not line.isspace():
            yield Piece(_json_text(line, field, f"{path}, line {number}"), ends=True)


def _lines(chunks: Iterator[str]) -> Iterator[str]:
    """Lines without their line breaks; a line may be longer than a chunk."""
    parts: list[str] = []
    for chunk in chunks:
        first, *others = chunk.split("\n")
        parts.append(first)
        for line in others:
            yield "".join(parts)
            parts = [line]
    yield "".join(parts)


def _json_text(line: str, field: str, where: str) -> str:
    try:
        record = parsed_json(line, where)
    except UnreadableError as error:
        raise DataError(error.problem, "correct the line or remove it") from error
    if not isinstance(record, dict):
        raise DataError(f"{where} is not a JSON object but {type(record).__name__}", 'write {"text": ...} on each line')
    if field not in record:
        raise DataError(
            f"{where} has no field {field!r}; it has {', '.join(map(repr, record)) or 'none'}",
            "name the field with the text: --text-field NAME",
        )
    text = record[field]
    if not isinstance(text, str | None):
        raise DataError(
            f"{where}: the field {field!r} is not text but {type(text).__name__}", "name another --text-field"
        )
    return text or ""


def parquet_texts(path: Path, column: str) -> Iterator[str]:
    """The texts of a column; a missing text counts as empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            if column not in schema.names:
                raise DataError(
                    f"{path} has no column {column!r}; it has {', '.join(map(repr, schema.names))}",
                    "name the column with the text: --text-field NAME",
                )
            if not (
                pa.types.is_string(schema.field(column).type) or pa.types.is_large_string(schema.field(column).type)
            ):
                raise DataError(f"{path}: the column {column!r} holds no text", "name another --text-field")
            for batch in file.iter_batches(batch_size=256, columns=[column]):
                yield from (text or "" for text in batch.column(0).to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", "copy or download it again") from error
