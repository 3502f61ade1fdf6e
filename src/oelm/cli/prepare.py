"""`oelm prepare`: from text to token files."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from oelm.base.console import Console
from oelm.base.errors import ConfigError, DataError
from oelm.cli.locations import TOKENS
from oelm.cli.options import panel
from oelm.config.manifest import DataManifest, TokenizerKind

if TYPE_CHECKING:
    from oelm.data.prepare_request import PrepareRequest

_tokenizer, _holdout, _reading = panel("Tokenizer"), panel("Validation"), panel("Reading")


def prepare(
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="Files (txt, jsonl, parquet; plain, gz, xz, zst), or one of: stories (built in), "
            "tinystories, openwebtext, wikitext-103 (from the Hub).",
        ),
    ],
    out: Annotated[Path | None, Option(help="Folder for the token files. \\[default: tokens/NAME]")] = None,
    name: Annotated[
        str | None, Option(help="What reports call the data. \\[default: the last part of --out, or from the input]")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a folder made from something else.")] = False,
    tokenizer: Annotated[TokenizerKind, _tokenizer("bpe is trained on the corpus.")] = TokenizerKind.BPE,
    vocab_size: Annotated[int, _tokenizer("Of a trained BPE.")] = 4096,
    tokenizer_file: Annotated[
        list[str] | None,
        _tokenizer("A tokenizer.json to use; for gpt2 also vocabulary and merges (give the option twice)."),
    ] = None,
    valid: Annotated[list[str] | None, _holdout("Validation file(s); otherwise a part is held out.")] = None,
    valid_share: Annotated[float, _holdout("Share to hold out.")] = 0.1,
    valid_bytes: Annotated[str, _holdout("But at most so much text.")] = "10MB",
    seed: Annotated[int, _holdout("Chooses what is held out, and the stories.")] = 0,
    separator: Annotated[str, _reading("The line between documents of a text file.")] = "<|endoftext|>",
    text_field: Annotated[str, _reading("Field of JSON lines, or column of parquet.")] = "text",
    max_bytes: Annotated[str | None, _reading("Only the beginning: so much text, such as 189MB or 2GB.")] = None,
    max_documents: Annotated[int | None, _reading("Only the first documents.")] = None,
    revision: Annotated[str | None, _reading("Commit of a Hub corpus.")] = None,
    story_bytes: Annotated[int, _reading("Size of the built-in corpus.")] = 4_000_000,
) -> None:
    """Turn text into token files. Interrupted, the same command goes on where it stopped."""
    from oelm.config.settings import parse
    from oelm.data.prepare_request import PrepareRequest

    def files(paths: list[str]) -> dict[str, object]:
        return {"kind": "files", "paths": paths, "separator": separator, "text_field": text_field}

    source = _named_source(inputs, seed, story_bytes, revision) or files(inputs)
    if revision and source["kind"] != "hub":
        raise ConfigError("--revision belongs to a Hub corpus", "leave it out for files and stories")
    request = parse(
        PrepareRequest,
        {
            "source": source,
            "max_bytes": _bytes(max_bytes, "--max-bytes") if max_bytes else None,
            "max_documents": max_documents,
            "valid": files(valid) if valid else None,
            "tokenizer": tokenizer,
            "vocabulary": vocab_size,
            "tokenizer_files": tuple(tokenizer_file or ()),
            "holdout_share": valid_share,
            "holdout_bytes": _bytes(valid_bytes, "--valid-bytes"),
            "seed": seed,
            "name": name or (out.absolute().name if out else None),
        },
        "oelm prepare",
    )
    folder = out or TOKENS / request.label
    manifest = _made(request, folder, overwrite=overwrite)
    Console().print(
        f"{manifest.name}: {manifest.train.tokens:,} training and {manifest.valid.tokens:,} validation "
        f"tokens, vocabulary {manifest.tokenizer.vocabulary:,}, "
        f"{manifest.valid.text_bytes / manifest.valid.tokens:.2f} bytes per token; "
        f"held out for validation: {manifest.holdout}\n"
        f"train on it: {shlex.join(['oelm', 'train', '--data', str(folder)])}",
        highlight=False,
    )


def _made(request: "PrepareRequest", folder: Path, *, overwrite: bool) -> DataManifest:
    from oelm.data.prepare import TakenFolderError
    from oelm.data.prepare import prepare as make

    try:
        return make(request, folder, overwrite=overwrite)
    except TakenFolderError as error:
        raise DataError(error.problem, "choose another --out, or replace it with --overwrite") from error


def _named_source(inputs: list[str], seed: int, story_bytes: int, revision: str | None) -> dict[str, object] | None:
    """The built-in stories or a corpus of the Hub by its name; None for files, which come first."""
    from oelm.data.hub import HubCorpus

    named = inputs[0] if len(inputs) == 1 and not Path(inputs[0]).is_file() else None
    if named == "stories":
        return {"kind": "stories", "seed": seed, "text_bytes": story_bytes}
    return {"kind": "hub", "corpus": named, "revision": revision} if named in list(HubCorpus) else None


def _bytes(text: str, option: str) -> int:
    """A size as people write it: 189MB, 2.5 GB, 4000000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|[kMG])B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ConfigError(f"{option} {text!r} is not a size", "write it like 189MB, 2.5GB or 4000000")
    return int(float(match[1]) * 1000 ** " kmg".index(match[2].lower() or " "))
