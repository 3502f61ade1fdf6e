"""The end of `train` and `finetune`: print the result, or that the run was stopped and can be resumed."""

from collections.abc import Mapping
from pathlib import Path

import typer

from oelm.base.console import Console
from oelm.config.model import GPTConfig, Style
from oelm.config.record import Record
from oelm.config.run import RunConfig

_CHECKPOINTS = {"last": "last", "best": "best by validation loss"}


def run_and_report(config: RunConfig, folder: Path, *, resume: bool) -> None:
    """Bring a run to its record and print it."""
    from oelm.experiments.assemble import run
    from oelm.train.stopping import Interrupted

    console = Console()
    try:
        record = run(config, folder, resume=resume, console=console)
    except Interrupted as interrupted:
        console.print(str(interrupted))
        raise typer.Exit(interrupted.exit_code) from interrupted
    if record is not None:
        first, *others = result_lines(record)
        console.print(first, highlight=False, style="bold")
        for line in others:
            console.print(line, highlight=False)
        console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)


def result_lines(record: Record) -> list[str]:
    """The result in a few lines: the last validation, then each evaluation set."""
    return [
        f"{record.method}{_style(record)}: validation {_values(record, record.result.measures)}; {_weights(record)}",
        *(
            f"  {row.name}, {_CHECKPOINTS[row.checkpoint]} (step {row.step}): {_values(record, row.measures)}, "
            f"n = {len(row.labels.split()):,}"
            for row in record.evaluations
        ),
    ]


def _values(record: Record, values: Mapping[str, float]) -> str:
    """`perplexity 8.36, loss 2.1234, bits per byte 1.234`."""
    return ", ".join(
        f"{measure.title.english} {measure.written(values[measure.name])}"
        for measure in record.declared
        if measure.name in values
    )


def _style(record: Record) -> str:
    """Where it is not the usual one."""
    model = record.config.model
    return f" ({model.style.value} style)" if isinstance(model, GPTConfig) and model.style is not Style.GPT else ""


def _weights(record: Record) -> str:
    """The weights by kind; of our GPT also the share of the block matrices that was frozen."""
    counts, config = record.counts, record.config
    weights = f"{counts.trained:,} weights trained, {counts.frozen:,} frozen, {counts.absent:,} absent"
    if not (counts.frozen and isinstance(config.model, GPTConfig)):
        return weights
    from oelm.model.ledger import frozen_ratio

    ratio = frozen_ratio(config.model, config.method, config.train.steps)
    return f"{weights} ({ratio:.1%} of the block matrices frozen)"
