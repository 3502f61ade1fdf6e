"""text -> train.bin, valid.bin, tokenizer.json, manifest.json; stopped at any instant, it goes on where it was.

Three passes over the text, none of which holds more than a few megabytes of it: count, learn the tokenizer (from
training documents only), encode. The result of an interrupted and continued run is byte-equal to that of an
undisturbed one, because the tokens of a piece of text depend on nothing but that piece and the tokenizer.
"""

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

from oelm.base.errors import DataError
from oelm.base.files import make_folder, read_json, refusing_storage, sweep_leftovers, write_json
from oelm.base.locks import FileLock
from oelm.config.manifest import DataManifest, Split, TokenizerInfo, TokenizerKind
from oelm.config.settings import fingerprint
from oelm.data.ahead import encoded_ahead
from oelm.data.corpus import Corpus, Scanned, open_corpus, routed_pieces, scan
from oelm.data.holdout import Holdout, Routed, describe_holdout, hash_of
from oelm.data.journal import JOURNAL_FILE, Journal, TokenWriter, Written, holds_tokens, read_journal
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import ConsoleProgress, Progress
from oelm.data.sources import Files, Size, utf8_size
from oelm.data.tokenizer import (
    byte_tokenizer,
    encoder,
    end_of_text_id,
    gpt2_tokenizer,
    ignored_settings,
    load_tokenizer,
    save_tokenizer,
    train_bpe,
)
from oelm.data.tokens import (
    MANIFEST_FILE,
    TOKENIZER_FILE,
    TRAIN_FILE,
    VALID_FILE,
    TokenFolder,
    file_sha256,
    token_dtype,
)

REQUEST_FILE = "request.json"
CHUNK_CHARACTERS = 2 << 20
"""Text that is encoded, written and entered into the journal at once."""
TOKENIZER_TEXT_BYTES = 200_000_000
"""A BPE tokenizer is learnt from about this much text at most: pieces spread evenly over a larger corpus."""

_BUSY_SECONDS = 2.0
_MADE_FILES = (MANIFEST_FILE, JOURNAL_FILE, REQUEST_FILE, TOKENIZER_FILE, TRAIN_FILE, VALID_FILE)


class BusyFolderError(DataError):
    """Another process is preparing the same folder."""


class TakenFolderError(DataError):
    """The folder holds something else. What to do depends on who asked: callers with other words give their own."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "give another folder, or replace this one with overwrite=True")


def prepare(
    request: PrepareRequest, out: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> DataManifest:
    """Make the data folder `out`, continue an interrupted preparation of it, or verify a finished one."""
    with contextlib.ExitStack() as stack:
        report = progress or stack.enter_context(ConsoleProgress())
        stack.enter_context(_all_cores())
        if not overwrite and (finished := _finished(request, out)):
            return finished
        tokenizer = _ready_tokenizer(request)
        _tell_ignored(request, report)
        corpus = open_corpus(request)  # whatever is missing is noticed before anything is written
        stack.enter_context(_alone(make_folder(out)))
        if overwrite:
            _remove(out, _MADE_FILES)
        elif finished := _finished(request, out):  # since we looked; others may be reading it by now
            return finished
        sweep_leftovers(out)
        return _make(request, out, corpus, tokenizer, report)


def prepare_in_turn(request: PrepareRequest, out: Path, say: Callable[[str], None]) -> DataManifest:
    """`prepare`, but while another process makes the same folder, say so, wait, and take what it has made."""
    said = False
    while True:
        try:
            return prepare(request, out)
        except BusyFolderError:
            if not said:
                say(f"{out}: another process is preparing it; waiting")
            said = True
            time.sleep(_BUSY_SECONDS)


def folder_of_its_own(request: PrepareRequest, plain: Path) -> Path:
    """`plain` if this very request has made or begun it, else a folder beside it that no other request shares.

    Studies call different texts by one name, and the same text in different vocabularies.
    """
    if _is_of(request, plain):
        return plain
    return plain.with_name(f"{plain.name}-{fingerprint(request.model_dump(mode='json'))[:8]}")


def _finished(request: PrepareRequest, out: Path) -> DataManifest | None:
    """The folder if this request has made it, verified."""
    _refuse_other_work(request, out)
    return _verified(request, out) if (out / MANIFEST_FILE).exists() else None


def _make(
    request: PrepareRequest, out: Path, corpus: Corpus, ready: Tokenizer | None, progress: Progress
) -> DataManifest:
    scanned = scan(corpus, request, progress)
    write_json(out / REQUEST_FILE, request.identity())  # from here on the folder belongs to this request
    journal = _interrupted(out, scanned, ready, progress)
    if journal is None:
        _remove(out, (JOURNAL_FILE, TRAIN_FILE, VALID_FILE))
        tokenizer = _learnt_tokenizer(request, corpus, scanned, progress) if ready is None else ready
        save_tokenizer(tokenizer, out / TOKENIZER_FILE)
        journal = Journal(sources=scanned.sources, tokenizer_sha256=file_sha256(out / TOKENIZER_FILE))
    journal = _encode(request, out, corpus, scanned, journal, progress)
    manifest = _manifest(request, out, scanned, journal)
    write_json(out / MANIFEST_FILE, manifest.model_dump(mode="json"))
    _remove(out, (JOURNAL_FILE,))
    return manifest


def _interrupted(out: Path, scanned: Scanned, ready: Tokenizer | None, progress: Progress) -> Journal | None:
    """The journal of an interrupted preparation of the same text, if there is one to go on with."""
    journal = read_journal(out)
    if journal is None:
        return None
    if journal.sources != scanned.sources:
        progress.say("the input has changed since the interrupted preparation: starting over")
        return None
    if not (out / TOKENIZER_FILE).exists() or file_sha256(out / TOKENIZER_FILE) != journal.tokenizer_sha256:
        return None
    if ready is not None and _digest(ready) != journal.tokenizer_sha256:
        progress.say("the tokenizer has changed since the interrupted preparation: starting over")
        return None
    vocabulary = load_tokenizer(out / TOKENIZER_FILE).get_vocab_size()
    if not holds_tokens(out, journal, dtype=token_dtype(vocabulary)):
        progress.say("token files of the interrupted preparation are missing or cut short: starting over")
        return None
    progress.say(f"continuing an interrupted preparation after {journal.text_bytes / 1e6:.1f} MB of text")
    return journal


def _ready_tokenizer(request: PrepareRequest) -> Tokenizer | None:
    """The tokenizer, unless it has to be learnt from the text."""
    files = [Path(path) for path in request.tokenizer_files]
    match request.tokenizer:
        case TokenizerKind.BYTES:
            return byte_tokenizer()
        case TokenizerKind.GPT2:
            return gpt2_tokenizer(files)
        case TokenizerKind.BPE:
            return load_tokenizer(files[0]) if files else None


def _tell_ignored(request: PrepareRequest, progress: Progress) -> None:
    """Say which settings of a given tokenizer.json have no effect; vocabulary and merges (two files) have none."""
    if len(request.tokenizer_files) != 1:
        return
    [path] = request.tokenizer_files
    if ignored := ignored_settings(Path(path)):
        progress.say(f"{path}: {' and '.join(ignored)} ignored, every document is encoded whole")


def _learnt_tokenizer(request: PrepareRequest, corpus: Corpus, scanned: Scanned, progress: Progress) -> Tokenizer:
    progress.start("learning the tokenizer", min(scanned.text_bytes, TOKENIZER_TEXT_BYTES))
    return train_bpe(_tokenizer_texts(corpus, scanned, progress), request.vocabulary)


def _tokenizer_texts(corpus: Corpus, scanned: Scanned, progress: Progress) -> Iterator[str]:
    """Training text only, thinned out evenly if there is more than a tokenizer needs."""
    threshold = int(min(1.0, TOKENIZER_TEXT_BYTES / scanned.text_bytes) * (1 << 64))
    for index, (split, piece) in enumerate(routed_pieces(corpus, scanned.plan)):
        if split == "train" and hash_of(index, salt=0) < threshold:
            progress.advance(utf8_size(piece.text))
            yield piece.text


def _encode(
    request: PrepareRequest, out: Path, corpus: Corpus, scanned: Scanned, journal: Journal, progress: Progress
) -> Journal:
    tokenizer = load_tokenizer(out / TOKENIZER_FILE)
    encode = encoder(request.tokenizer, tokenizer)
    dtype = token_dtype(tokenizer.get_vocab_size())
    progress.start("encoding", scanned.text_bytes)
    progress.advance(journal.text_bytes)
    rest = itertools.islice(routed_pieces(corpus, scanned.plan), journal.pieces, None)
    with TokenWriter(out, journal, dtype=dtype, end_of_text=end_of_text_id(tokenizer)) as writer:
        for chunk, ids in encoded_ahead(_chunks(rest), encode):
            writer.append(chunk, ids)
            progress.advance(sum(utf8_size(routed.piece.text) for routed in chunk))
        return writer.journal


def _chunks(pieces: Iterator[Routed]) -> Iterator[list[Routed]]:
    chunk: list[Routed] = []
    characters = 0
    for routed in pieces:
        chunk.append(routed)
        characters += len(routed.piece.text)
        if characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _manifest(request: PrepareRequest, out: Path, scanned: Scanned, journal: Journal) -> DataManifest:
    tokenizer = load_tokenizer(out / TOKENIZER_FILE)
    vocabulary = tokenizer.get_vocab_size()
    return DataManifest(
        name=request.label,
        tokenizer=TokenizerInfo(
            kind=request.tokenizer,
            vocabulary=vocabulary,
            end_of_text=end_of_text_id(tokenizer),
            sha256=journal.tokenizer_sha256,
        ),
        dtype=token_dtype(vocabulary),
        train=_split(out, TRAIN_FILE, journal.train),
        valid=_split(out, VALID_FILE, journal.valid),
        sources=scanned.sources,
        holdout=_holdout_in_words(scanned.plan, journal.valid),
    )


def _split(out: Path, file: str, written: Written) -> Split:
    if not written.tokens:
        raise DataError(
            f"nothing is left for {file}: the text is too short to hold out a part of it",
            "give more text, or validation text of its own",
        )
    return Split(
        file=file,
        tokens=written.tokens,
        documents=written.documents,
        text_bytes=written.text_bytes,
        sha256=file_sha256(out / file),
    )


def _holdout_in_words(plan: Holdout, valid: Written) -> str:
    return describe_holdout(plan, Size(valid.documents, valid.text_bytes))


def _refuse_other_work(request: PrepareRequest, out: Path) -> None:
    """A folder belongs to the request that began it."""
    found = [name for name in _MADE_FILES if (out / name).exists()]
    if found and not _is_of(request, out):
        state = "a finished" if MANIFEST_FILE in found else "an unfinished"
        known = f"{state} preparation with other settings" if REQUEST_FILE in found else f"other data ({found[0]})"
        raise TakenFolderError(f"{out} holds {known}")


def _is_of(request: PrepareRequest, folder: Path) -> bool:
    """Has this request begun the folder?"""
    return (folder / REQUEST_FILE).exists() and request.has_made(read_json(folder / REQUEST_FILE))


def _verified(request: PrepareRequest, out: Path) -> DataManifest:
    """A finished folder, after its files have been compared with their digests and its inputs with theirs."""
    folder = TokenFolder.open(out)
    folder.verify()
    valid = request.validation
    paths = [path for part in (request.source, valid) if isinstance(part, Files) for path in part.paths]
    digests = [source.sha256 for source in folder.manifest.sources if source.sha256]
    changed = [
        path
        for path, digest in zip(paths, digests, strict=True)
        if Path(path).is_file() and file_sha256(Path(path)) != digest  # an input that is gone by now is not missed
    ]
    if _other_tokenizer(request, folder.manifest.tokenizer.sha256):
        changed += request.tokenizer_files
    if changed:
        raise TakenFolderError(f"{out} was prepared from another version of {' and '.join(changed)}")
    _remove(out, (JOURNAL_FILE,))  # a run may have died just before it could do so
    return folder.manifest


def _other_tokenizer(request: PrepareRequest, used_sha256: str) -> bool:
    """Do the tokenizer files hold another tokenizer now than the one that was used? Files that are gone do not."""
    files = request.tokenizer_files
    ready = _ready_tokenizer(request) if files and all(Path(path).is_file() for path in files) else None
    return ready is not None and _digest(ready) != used_sha256


def _digest(tokenizer: Tokenizer) -> str:
    """The digest of the `tokenizer.json` that this tokenizer would be saved as."""
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(tokenizer, Path(folder) / TOKENIZER_FILE)
        return file_sha256(Path(folder) / TOKENIZER_FILE)


def _remove(folder: Path, names: tuple[str, ...]) -> None:
    with refusing_storage(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _all_cores() -> Iterator[None]:
    """Let the tokenizers library use all cores, whatever the environment says, and put that back afterwards."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second process out of the folder."""
    lock = FileLock.take(folder)
    if lock is None:
        raise BusyFolderError(f"{folder} is being prepared by another process", "wait for it, or give another folder")
    with lock:
        yield
