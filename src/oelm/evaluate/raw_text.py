"""The text of a likelihood: a folder of token files, or any file that `oelm prepare` reads, as the model's tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from oelm.base.errors import ConfigError, DataError
from oelm.data.batches import validated_tokens
from oelm.data.pieces import sized
from oelm.data.textfiles import COMPRESSED, file_pieces
from oelm.data.tokenizer import END_OF_TEXT, load_tokenizer
from oelm.data.tokens import MANIFEST_FILE, TokenFolder
from oelm.evaluate.language_model import LanguageModel

_SHORTEST = 2


@dataclass(frozen=True)
class EvaluatedText:
    """Tokens, and how many bytes of text all but the first of them stand for."""

    name: str
    tokens: npt.NDArray[np.int64]
    text_bytes: float
    half: Literal["first", "second"] | None = None
    """Of the validation documents."""

    @property
    def part(self) -> dict[str, str]:
        """Which half it is, if it is one."""
        return {} if self.half is None else {"half": self.half}


def set_name(file: Path) -> str:
    """What a set is called: its file's name without the endings of its form and its compression."""
    return Path(file.stem).stem if file.suffix.lower() in COMPRESSED else file.stem


def text_name(source: str) -> str:
    """The name of a text, or of the data in a folder of token files."""
    path = Path(source)
    return TokenFolder.open(path).manifest.name if path.is_dir() else set_name(path)


def require_different(sets: Sequence[str]) -> None:
    """Refuse two sets of one name: one would stand for the other."""
    for name in sets:
        if sets.count(name) > 1:
            raise ConfigError(f"two sets are called {name!r}", "give their files different names, or ask one at a time")


def read_text(
    model: LanguageModel, source: str, most_tokens: int | None, half: Literal["first", "second"] | None = None
) -> EvaluatedText:
    """Validation tokens of a folder, or the documents of a file with end-of-text before, between and behind them."""
    path = Path(source)
    text = _tokens_of(model, path, most_tokens, half) if path.is_dir() else _encoded(model, path, most_tokens)
    if len(text.tokens) < _SHORTEST:
        raise DataError(f"{source} has no text", "give a file or folder with at least two tokens")
    return text


def _tokens_of(
    model: LanguageModel, folder: Path, most: int | None, half: Literal["first", "second"] | None
) -> EvaluatedText:
    """Bytes per token are those of all validation documents, as in training."""
    data = TokenFolder.open(folder)
    own = load_tokenizer(data.tokenizer_path).get_vocab(with_added_tokens=True)
    if own != model.tokenizer.get_vocab(with_added_tokens=True):
        raise DataError(
            f"the tokens in {folder} were not made with the tokenizer of {model.name}",
            f"give the text itself instead of {folder / MANIFEST_FILE}'s folder",
        )
    valid = data.manifest.valid
    tokens = validated_tokens(data, half)[:most].astype(np.int64)
    return EvaluatedText(data.manifest.name, tokens, valid.text_bytes / valid.tokens * (len(tokens) - 1), half)


def _encoded(model: LanguageModel, file: Path, most: int | None) -> EvaluatedText:
    """Whole documents, up to the one with which there are enough tokens."""
    tokens, size = [model.first], 0
    for piece in sized(file_pieces(file, separator=END_OF_TEXT, text_field="text")):
        tokens += model.encode(piece.text)
        size += len(piece.text.encode())
        if piece.ends:
            tokens.append(model.end_of_text)
            if most is not None and len(tokens) >= most:
                break
    return EvaluatedText(set_name(file), np.array(tokens, np.int64), size)
