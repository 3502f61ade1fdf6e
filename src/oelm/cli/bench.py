"""`oelm bench`: how fast, how much memory, and how sure that is."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument

from oelm.base.console import Console
from oelm.base.errors import ConfigError
from oelm.bench.bench_record import BenchRecord
from oelm.bench.spec import BenchRequest, Peer, What, chosen
from oelm.cli.options import panel
from oelm.config.settings import parse

_DEFAULT = BenchRequest()
_who, _size, _how, _output = panel("Who takes part"), panel("Size"), panel("How"), panel("Output")


class BenchFormat(StrEnum):
    """How records are printed."""

    TABLE = "table"
    MARKDOWN = "md"


def bench(
    records: Annotated[list[Path] | None, Argument(help="Records to print, with --show.")] = None,
    what: Annotated[str, _how(f"Comma-separated, of {', '.join(What)}.")] = "train",
    methods: Annotated[str, _who("Comma-separated; see `oelm methods`.")] = "",
    peers: Annotated[
        str | None, _who(f"Comma-separated, of {', '.join(Peer)}; or none. \\[default: all of the style]")
    ] = None,
    compiled_peers: Annotated[bool, _who("Each peer under torch.compile, too.", "--compiled-peers")] = False,
    reference: Annotated[
        str | None,
        _who("The method or peer to compare with; also with --show. \\[default: baseline, or the first method]"),
    ] = None,
    style: Annotated[str, _size("gpt or llama; see `oelm train --help`.")] = _DEFAULT.style.value,
    size: Annotated[
        str, _size("Comma-separated: tiny, small, medium-512, large. Fine-tuning is of a BERT-base.")
    ] = "small",
    layers: Annotated[int | None, _size("")] = None,
    width: Annotated[int | None, _size("")] = None,
    heads: Annotated[int | None, _size("")] = None,
    batch_size: Annotated[int | None, _size("Sequences per step. \\[default: 4; fine-tuning 8]")] = None,
    seq_len: Annotated[int | None, _size("Context. \\[default: 256; fine-tuning 64]")] = None,
    vocab_size: Annotated[int | None, _size("\\[default: 4096; fine-tuning 30522]")] = None,
    tokens: Annotated[int, _size("How many to generate.")] = _DEFAULT.tokens,
    rounds: Annotated[int | None, _how("Timed rounds; 6 or more. \\[default: 12; scaling 6]")] = None,
    repeats: Annotated[int, _how("Steps of each contestant per round.")] = _DEFAULT.repeats,
    threads: Annotated[int | None, _how("\\[default: torch's]")] = None,
    precision: Annotated[str, _how("float32, bf16 or float64.")] = _DEFAULT.precision.value,
    compile: Annotated[bool, _how("torch.compile our models.", "--compile")] = False,  # noqa: A002 (the flag's name)
    device: Annotated[str, _how("auto, cpu, cuda or cuda:N.")] = _DEFAULT.device,
    memory: Annotated[bool, _how("Peak memory of each contestant in a process of its own.")] = True,
    out: Annotated[Path | None, _output("Write the record as JSON.")] = None,
    show: Annotated[bool, _output("Print RECORDS instead of measuring.", "--show")] = False,
    output: Annotated[BenchFormat, _output("How to print.", "--format")] = BenchFormat.TABLE,
    plots: Annotated[Path | None, _output("Write plots as SVG into this folder.")] = None,
) -> None:
    """Measure speed: contestants in turns, ratios with intervals, tokens/s, share of the machine, peak memory."""
    given = {name: value for name, value in locals().items() if name in BenchRequest.model_fields}
    if show != bool(records):
        raise ConfigError("records are printed by --show, and --show needs records", "oelm bench --show FILE...")
    if records:
        _show(records, reference, output, plots)
        return
    request = {
        **given,
        "what": chosen(What, what, "--what"),
        "peers": None if peers is None else chosen(Peer, peers, "--peers"),
        "methods": [name.strip() for name in methods.split(",") if name.strip()],
        "sizes": [name.strip() for name in size.split(",")],
    }
    _measure(parse(BenchRequest, request, "oelm bench"), out, output, plots)


def _measure(request: BenchRequest, out: Path | None, output: BenchFormat, plots: Path | None) -> None:
    from oelm.base.files import ready_to_write, write_text
    from oelm.bench.run_bench import run_bench

    if out is not None:
        ready_to_write(out)  # what cannot be written is refused before it is measured
    console = Console(stderr=True)
    with console.status("building") as status:
        record = run_bench(request, status.update)
    if out is not None:
        write_text(out, record.model_dump_json(indent=2) + "\n")
    _print(record, output, plots, out.stem if out else "bench")


def _show(records: list[Path], reference: str | None, output: BenchFormat, plots: Path | None) -> None:
    from oelm.bench.show import read_record, relative_to, require_contestant

    found = [(path, read_record(path)) for path in records]
    if reference:
        for path, record in found:
            require_contestant(record, reference, path)
    for path, record in found:
        _print(relative_to(record, reference) if reference else record, output, plots, path.stem)


def _print(record: BenchRecord, output: BenchFormat, plots: Path | None, name: str) -> None:
    from oelm.bench.show import print_record, record_markdown

    if output is BenchFormat.MARKDOWN:
        print(record_markdown(record), end="\n\n")
    else:
        print_record(record, Console())
    if plots is not None:
        from oelm.bench.plots import write_plots

        for path in write_plots(record, plots, name):
            Console().print(f"wrote {path}", highlight=False, soft_wrap=True)
