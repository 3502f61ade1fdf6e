"""The text of a likelihood: a folder of token files, or any file that `oelm prepare` reads, as the model's tokens."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oelm.base.errors import DataError
from oelm.data.pieces import sized
from oelm.data.textfiles import file_pieces
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


def read_text(model: LanguageModel, source: str, most_tokens: int | None) -> EvaluatedText:
    """Validation tokens of a folder, or the documents of a file with end-of-text before, between and behind them."""
    path = Path(source)
    text = _tokens_of(model, path, most_tokens) if path.is_dir() else _encoded(model, path, most_tokens)
    if len(text.tokens) < _SHORTEST:
        raise DataError(f"{source} has no text", "give a file or folder with at least two tokens")
    return text


def _tokens_of(model: LanguageModel, folder: Path, most: int | None) -> EvaluatedText:
    data = TokenFolder.open(folder)
    own = load_tokenizer(data.tokenizer_path).get_vocab(with_added_tokens=True)
    if own != model.tokenizer.get_vocab(with_added_tokens=True):
        raise DataError(
            f"the tokens in {folder} were not made with the tokenizer of {model.name}",
            f"give the text itself instead of {folder / MANIFEST_FILE}'s folder",
        )
    tokens, valid = data.valid[:most].astype(np.int64), data.manifest.valid
    return EvaluatedText(data.manifest.name, tokens, valid.text_bytes / valid.tokens * (len(tokens) - 1))


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
    return EvaluatedText(file.name.split(".")[0], np.array(tokens, np.int64), size)
