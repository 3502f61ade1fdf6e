"""Tokenizers. All kinds are byte-level, know one special token, and are stored as one `tokenizer.json`.

Text never becomes a special token: a document that contains the literal `<|endoftext|>` gets ordinary tokens
that spell it, and only the code that joins documents writes the special id. `tokenizer.json` does not carry
that setting, so tokenizers are read through `load_tokenizer`. It also switches off what a `tokenizer.json` of other
origin may carry and what would change the text: truncation, padding and random merges (BPE dropout).
"""

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from oelm.base.errors import DataError
from oelm.base.files import write_text
from oelm.config.manifest import TokenizerKind
from oelm.data.hub import gpt2_tokenizer_file

END_OF_TEXT = "<|endoftext|>"
GPT2_VOCABULARY = 50257
SMALLEST_BPE = 258
"""256 bytes, one merge, end-of-text."""

Ids = npt.NDArray[np.uint32]
Encoder = Callable[[Sequence[str]], list[Ids]]


def byte_tokenizer() -> Tokenizer:
    """No merges: the ids of a text are its UTF-8 bytes, and end-of-text is 256."""
    alphabet = {character: byte for byte, character in enumerate(_byte_characters())}
    return _finished(Tokenizer(models.BPE(vocab=alphabet, merges=[])))


def train_bpe(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE learnt from `texts`; fewer than `vocabulary` tokens if the texts hold no more pairs.

    End-of-text is the last id. Equal texts give an equal tokenizer.
    """
    tokenizer = _byte_level(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,  # end-of-text is added afterwards
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _finished(tokenizer)


def gpt2_tokenizer(files: Sequence[Path]) -> Tokenizer:
    """GPT-2's tokenizer from the Hub, or from local files: `tokenizer.json`, or vocabulary and merges."""
    if len(files) == 2:
        tokenizer = _from_vocabulary_and_merges(*files)
    else:
        tokenizer = load_tokenizer(files[0] if files else gpt2_tokenizer_file())
    found = (tokenizer.get_vocab_size(), tokenizer.token_to_id(END_OF_TEXT))
    if found != (GPT2_VOCABULARY, GPT2_VOCABULARY - 1):
        raise DataError(
            f"not GPT-2's tokenizer: {found[0]} tokens with end-of-text {found[1]}, "
            f"where GPT-2 has {GPT2_VOCABULARY} and {GPT2_VOCABULARY - 1}",
            "give GPT-2's own tokenizer.json, or its vocabulary and merges files in this order",
        )
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json` that has an end-of-text token; its ids are those of the whole text and of nothing else.

    Special tokens in text are not parsed; truncation, padding and dropout are ignored (see `ignored_settings`).
    """
    if not path.is_file():
        raise DataError(f"there is no tokenizer {path}", "give the path of an existing tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise DataError(f"{path} is not a tokenizer.json: {error}", "give a file made by tokenizers") from error
    if tokenizer.token_to_id(END_OF_TEXT) is None:
        raise DataError(f"the tokenizer {path} has no {END_OF_TEXT}", "use one that has it, or train one")
    return _ignoring_special_text(_whole_text(tokenizer))


def ignored_settings(path: Path) -> list[str]:
    """What `load_tokenizer` switches off in a readable `tokenizer.json`: truncation, padding, dropout, or nothing."""
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = [name for name in ("truncation", "padding") if stored.get(name)]
    return [*found, "dropout"] if stored["model"].get("dropout") else found


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write `tokenizer.json` in one instant."""
    write_text(path, tokenizer.to_str(pretty=True) + "\n")


def end_of_text_id(tokenizer: Tokenizer) -> int:
    """The id that ends a document."""
    return int(tokenizer.get_vocab(with_added_tokens=True)[END_OF_TEXT])


def encoder(kind: TokenizerKind, tokenizer: Tokenizer) -> Encoder:
    """A function from texts to their ids, on all cores; without end-of-text."""
    if kind is TokenizerKind.BYTES:
        return _encode_bytes  # the same ids as the tokenizer's, several hundred times faster

    def encode(texts: Sequence[str]) -> list[Ids]:
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(array("I", encoding.ids)) for encoding in encodings]  # four times faster than np.array

    return encode


def _encode_bytes(texts: Sequence[str]) -> list[Ids]:
    return [np.frombuffer(text.encode(), np.uint8).astype(np.uint32) for text in texts]


def _byte_characters() -> list[str]:
    """The printable character that byte-level BPE uses for each byte: itself, or one from 256 on."""
    printable = {
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    }
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _from_vocabulary_and_merges(vocabulary: Path, merges: Path) -> Tokenizer:
    for path in (vocabulary, merges):
        if not path.is_file():
            raise DataError(f"there is no tokenizer file {path}", "give existing vocabulary and merges files")
    try:
        model: Any = models.BPE.from_file(str(vocabulary), str(merges))
    except Exception as error:
        raise DataError(
            f"{vocabulary} and {merges} are not a BPE vocabulary and its merges: {error}",
            "give the vocabulary (JSON) first, then the merges",
        ) from error
    return _finished(Tokenizer(model))


def _finished(tokenizer: Tokenizer) -> Tokenizer:
    _byte_level(tokenizer)
    tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    return _ignoring_special_text(tokenizer)


def _byte_level(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _whole_text(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, models.BPE):
        tokenizer.model.dropout = None
    return tokenizer


def _ignoring_special_text(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.encode_special_tokens = True  # "encode them as text", despite the name
    return tokenizer
