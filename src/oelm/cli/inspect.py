"""`oelm inspect`: what a method trains, freezes and leaves out, what that saves, and the geometry it starts from."""

from typing import Annotated

from rich.table import Table
from rich.text import Text
from typer import Option

from oelm.base.console import Console
from oelm.config.methods import SUMMARIES, parse_method
from oelm.config.model import GPT2_VOCABULARY, GPTConfig, Style
from oelm.config.record import FlopCounts, LayerGeometry, WeightCounts
from oelm.config.request import TrainRequest, model_config
from oelm.config.settings import parse

_MOST_WEIGHTS = 10**9
"""Of a model that is built to measure its geometry."""


def inspect(
    method: Annotated[str, Option(help="See `oelm methods`.")] = "oelm",
    style: Annotated[str, Option(help="gpt or llama; see `oelm train --help`.")] = "gpt",
    size: Annotated[str, Option(help="tiny, small, medium-512 or large.")] = "medium-512",
    layers: Annotated[int | None, Option("--layers", "--num-layers")] = None,
    width: Annotated[int | None, Option("--width", "--d-model")] = None,
    heads: Annotated[int | None, Option("--heads", "--num-heads")] = None,
    ffn_width: Annotated[int | None, Option("--ffn-width", "--d-ff")] = None,
    vocabulary: Annotated[int, Option("--vocab-size")] = GPT2_VOCABULARY,
    seq_len: Annotated[int, Option(help="Context length.")] = 512,
    steps: Annotated[
        int, Option("--steps", "--max-steps", min=1, help="Length of the run, for plans that change.")
    ] = 1000,
    seed: Annotated[int, Option()] = 0,
) -> None:
    """Show what is trained, frozen and absent: counts, FLOPs, and the geometry of Q and K at init."""
    given = {name: value for name, value in locals().items() if name in TrainRequest.model_fields}
    chosen = parse_method(method)
    config = model_config(parse(TrainRequest, given, "oelm inspect"), vocabulary)

    import torch

    from oelm.method.freezing import describe
    from oelm.model.gpt import GPT
    from oelm.model.initialise import initialise, measure_geometry
    from oelm.model.ledger import count_flops, count_weights, frozen_ratio

    counts = count_weights(config, chosen, steps)
    with torch.device("meta"):
        GPT(config, chosen)  # what cannot be built is refused before anything is printed
    console = Console()
    console.print(Text.assemble((chosen.name, "bold"), f": {SUMMARIES[chosen.name.split('+')[0]]}"))
    thin = "" if chosen.thin is None else f"; Q and K heads of {chosen.thin}"
    console.print(_describe_size(config) + thin, highlight=False)
    console.print(f"plan: {describe(chosen.plan)}\n", highlight=False)
    _print_counts(console, counts, frozen_ratio(config, chosen, steps), config.ffn_matrices)
    _print_flops(console, count_flops(config, chosen, total_steps=steps, tokens=1))
    if counts.stored > _MOST_WEIGHTS:
        console.print(f"geometry: left out, with {counts.stored:,} weights it would take minutes", highlight=False)
        return
    model = GPT(config, chosen)
    initialise(model, seed)
    if rows := measure_geometry(model):
        _print_geometry(console, rows)


def _describe_size(config: GPTConfig) -> str:
    style = "" if config.style is Style.GPT else f"{config.style.value} style, "
    return (
        f"{style}{config.layers} layers, width {config.width}, {config.heads} heads of {config.head_width}, "
        f"FFN {config.ffn_width}, context {config.context}, vocabulary {config.vocabulary:,}"
    )


def _print_counts(console: Console, counts: WeightCounts, ratio: float, ffn_matrices: int) -> None:
    table = Table("weights", box=None, header_style="bold")
    for kind in ("trained", "frozen", "absent"):
        table.add_column(kind, justify="right")
    for row in counts.roles:
        table.add_row(row.role, *(f"{n:,}" if n else "-" for n in (row.trained, row.frozen, row.absent)))
    table.add_section()
    totals = (f"{n:,}" for n in (counts.trained, counts.frozen, counts.absent))
    table.add_row("all", *totals, style="bold")
    console.print(table)
    if (share := counts.trained_query_key_share) is not None:
        console.print(f"trained on the Q/K side: {share:.3%} of the baseline's Q and K (2 L D²)", highlight=False)
    console.print(
        f"frozen: {counts.frozen / counts.stored:.1%} of the {counts.stored:,} stored weights"
        + (f", {ratio:.1%} of the block matrices (4 D² + {ffn_matrices} D F per layer)" if counts.frozen else "")
        + (f"; {counts.later:,} of them are trained at some step" if counts.later else ""),
        highlight=False,
    )


def _print_flops(console: Console, flops: FlopCounts) -> None:
    mega = 1e6
    console.print(
        f"matmul FLOPs per token: {flops.forward_per_token / mega:,.2f} M forward, "
        f"{flops.backward_per_token / mega:,.2f} M backward; {flops.saved_share:.1%} less than the baseline's "
        f"{flops.baseline_per_token / mega:,.2f} M. Time can fall little further: AdamW skips frozen weights too\n",
        highlight=False,
    )


def _print_geometry(console: Console, rows: tuple[LayerGeometry, ...]) -> None:
    table = Table("layer", box=None, header_style="bold")
    for name in ("Gram error Q", "Gram error K", "cross-head overlap", "row norm", "logit std"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row.layer),
            f"{row.query_gram_error:.1e}",
            f"{row.key_gram_error:.1e}",
            f"{row.cross_head_overlap:.4f}",
            f"{row.row_norm:.3f}",
            f"{row.logit_std:.3f}",
        )
    console.print(table)
    console.print(
        "Gram error: max |W_h W_hᵀ - I|, 0 for orthogonal heads. Overlap: RMS of W_h W_gᵀ between heads, 0 if global.\n"
        "Logit std: of q·k/√K for independent standard normal inputs.",
        highlight=False,
        style="dim",
    )
