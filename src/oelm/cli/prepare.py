"""`oelm prepare`: from text to token files."""

from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from oelm.base.errors import ConfigError
from oelm.cli.locations import TOKENS
from oelm.config.manifest import TokenizerKind

_TOKENIZER, _HOLDOUT, _READING = "Tokenizer", "Validation", "Reading"


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
    name: Annotated[str | None, Option(help="What reports call the data. \\[default: from the input]")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a folder made from something else.")] = False,
    tokenizer: Annotated[
        TokenizerKind, Option(help="bpe is trained on the corpus.", rich_help_panel=_TOKENIZER)
    ] = TokenizerKind.BPE,
    vocab_size: Annotated[int, Option(help="Of a trained BPE.", rich_help_panel=_TOKENIZER)] = 4096,
    tokenizer_file: Annotated[
        list[str] | None,
        Option(
            help="A tokenizer.json to use; for gpt2 also vocabulary and merges (give the option twice).",
            rich_help_panel=_TOKENIZER,
        ),
    ] = None,
    valid: Annotated[
        list[str] | None, Option(help="Validation file(s); otherwise a part is held out.", rich_help_panel=_HOLDOUT)
    ] = None,
    valid_share: Annotated[
        float, Option(help="Share to hold out, at most 10 MB of text.", rich_help_panel=_HOLDOUT)
    ] = 0.1,
    seed: Annotated[int, Option(help="Chooses what is held out, and the stories.", rich_help_panel=_HOLDOUT)] = 0,
    separator: Annotated[
        str, Option(help="The line between documents of a text file.", rich_help_panel=_READING)
    ] = "<|endoftext|>",
    text_field: Annotated[
        str, Option(help="Field of JSON lines, or column of parquet.", rich_help_panel=_READING)
    ] = "text",
    revision: Annotated[str | None, Option(help="Commit of a Hub corpus.", rich_help_panel=_READING)] = None,
    story_bytes: Annotated[int, Option(help="Size of the built-in corpus.", rich_help_panel=_READING)] = 4_000_000,
) -> None:
    """Turn text into token files. Interrupted, the same command goes on where it stopped."""
    from oelm.config.settings import parse
    from oelm.data.hub import HubCorpus
    from oelm.data.prepare import prepare as make
    from oelm.data.request import PrepareRequest

    def files(paths: list[str]) -> dict[str, object]:
        return {"kind": "files", "paths": paths, "separator": separator, "text_field": text_field}

    named = inputs[0] if len(inputs) == 1 and not Path(inputs[0]).exists() else None
    source: dict[str, object]
    if named == "stories":
        source = {"kind": "stories", "seed": seed, "text_bytes": story_bytes}
    elif named in list(HubCorpus):
        source = {"kind": "hub", "corpus": named, "revision": revision}
    else:
        source = files(inputs)
    if revision and source["kind"] != "hub":
        raise ConfigError("--revision belongs to a Hub corpus", "leave it out for files and stories")
    request = parse(
        PrepareRequest,
        {
            "source": source,
            "valid": files(valid) if valid else None,
            "tokenizer": tokenizer,
            "vocabulary": vocab_size,
            "tokenizer_files": tuple(tokenizer_file or ()),
            "holdout_share": valid_share,
            "seed": seed,
            "name": name,
        },
        "oelm prepare",
    )
    folder = out or TOKENS / request.label
    manifest = make(request, folder, overwrite=overwrite)
    Console().print(
        f"[bold]{manifest.name}[/]: {manifest.train.tokens:,} training and {manifest.valid.tokens:,} validation "
        f"tokens, vocabulary {manifest.tokenizer.vocabulary:,}, "
        f"{manifest.valid.text_bytes / manifest.valid.tokens:.2f} bytes per token ({manifest.holdout})\n"
        f"train on it: oelm train --data {folder}",
        highlight=False,
    )
