"""What `oelm prepare` writes beside the token files: how they were made, and how to check them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from oelm.config.settings import Settings, fingerprint

Size = Annotated[int, Field(ge=0)]


class TokenizerKind(StrEnum):
    """How text becomes tokens. All three are stored as one `tokenizer.json`."""

    BYTES = "bytes"
    BPE = "bpe"
    GPT2 = "gpt2"


class Source(Settings):
    """One input: a file by its name and digest, a Hub data set by its revision, or the built-in corpus by its seed."""

    name: str
    split: Literal["train", "valid", "both"]
    bytes: Size
    documents: Size
    sha256: str | None = None
    revision: str | None = None


class Split(Settings):
    """One token file. `text_bytes` is the UTF-8 size of its text: loss x tokens / text_bytes is nats per byte."""

    file: str
    tokens: Size
    documents: Size
    text_bytes: Size
    sha256: str


class TokenizerInfo(Settings):
    """The tokenizer used."""

    kind: TokenizerKind
    vocabulary: Annotated[int, Field(ge=2)]
    end_of_text: Size
    sha256: str


class DataManifest(Settings):
    """`manifest.json` of a token folder. That it exists means that the folder is complete."""

    format: Literal[1] = 1
    name: str
    tokenizer: TokenizerInfo
    dtype: Literal["uint16", "uint32"]
    train: Split
    valid: Split
    sources: tuple[Source, ...]
    holdout: str

    @property
    def digest(self) -> str:
        """A fingerprint of the tokens themselves: equal digests mean the same training data."""
        return fingerprint([self.train.sha256, self.valid.sha256, self.dtype, self.tokenizer.sha256])
