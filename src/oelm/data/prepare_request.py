"""What is asked of a preparation: which text, which tokenizer, what is held out."""

from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from oelm.config.manifest import TokenizerKind
from oelm.config.settings import GrownSettings
from oelm.data.hub import HUB_DATASETS
from oelm.data.sources import Files, Hub, Stories, TextSource
from oelm.data.tokenizer import SMALLEST_BPE

_MOST_FILES = {TokenizerKind.BYTES: 0, TokenizerKind.BPE: 1, TokenizerKind.GPT2: 2}


class PrepareRequest(GrownSettings):
    """Everything that decides the token files, byte for byte."""

    later: ClassVar[frozenset[str]] = frozenset({"max_bytes", "max_documents"})

    source: TextSource
    max_bytes: Annotated[int, Field(ge=1)] | None = None
    """Only the beginning of `source`, so much text at most; the document that goes beyond is cut at white space."""
    max_documents: Annotated[int, Field(ge=1)] | None = None
    """Only so many documents of `source`, the first ones."""
    valid: TextSource | None = None
    """Validation text of its own; otherwise the Hub's validation split, otherwise a part of `source` is held out."""
    tokenizer: TokenizerKind = TokenizerKind.BPE
    vocabulary: Annotated[int, Field(ge=SMALLEST_BPE, le=1 << 20)] = 4096
    """Size of a BPE vocabulary; the other kinds have their own."""
    tokenizer_files: tuple[str, ...] = ()
    """For `bpe`, a tokenizer.json to use instead of training; for `gpt2`, a tokenizer.json or vocabulary and merges."""
    holdout_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    holdout_bytes: Annotated[int, Field(ge=1)] = 10_000_000
    """Held out is the share, but at most so much text."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Chooses the documents that are held out."""
    name: str | None = None
    """What reports call the data; by default the corpus, or the first file without its endings."""

    @model_validator(mode="after")
    def _files_fit_the_tokenizer(self) -> Self:
        most = _MOST_FILES[self.tokenizer]
        if len(self.tokenizer_files) > most:
            raise ValueError(f"the {self.tokenizer} tokenizer takes {most or 'no'} files at most")
        return self

    @property
    def label(self) -> str:
        """The name of the data."""
        return self.name or self._own_label

    @property
    def _own_label(self) -> str:
        match self.source:
            case Stories():
                return "stories"
            case Files(paths=paths):
                return PurePath(paths[0]).name.split(".")[0] or PurePath(paths[0]).name
            case Hub(corpus=corpus):
                return corpus.value

    @property
    def validation(self) -> Stories | Files | Hub | None:
        """The source of the validation text, or None if a part of the training source is held out."""
        if self.valid is None and isinstance(self.source, Hub) and HUB_DATASETS[self.source.corpus].has_validation:
            return self.source.model_copy(update={"split": "validation"})
        return self.valid

    def identity(self) -> dict[str, Any]:
        """The request without folders, which do not matter: files are told apart by name and digest."""
        values = self.model_dump(mode="json")
        values["tokenizer_files"] = [PurePath(path).name for path in self.tokenizer_files]
        for part in ("source", "valid"):
            if values[part] and "paths" in values[part]:
                values[part]["paths"] = [PurePath(path).name for path in values[part]["paths"]]
        return values

    def has_made(self, identity: object) -> bool:
        """Whether a folder with this identity is of this request; without a name it is called after its source."""
        if not isinstance(identity, dict):
            return False
        return {**identity, "name": identity.get("name") or self._own_label} == {**self.identity(), "name": self.label}
