"""How a run's verb ends: with its result, or with word that it was stopped and can go on."""

from pathlib import Path

import typer
from rich.console import Console

from oelm.config.model import GPTConfig, Style
from oelm.config.record import Record
from oelm.config.run import RunConfig

_CHECKPOINTS = {"last": "last", "best": "best by hold-out loss"}


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
        for line in result_lines(record):
            console.print(line, highlight=False)
        console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)


def result_lines(record: Record) -> list[str]:
    """The result in a few lines."""
    measures, weights = record.result.measures, _weights(record)
    name = f"[bold]{record.method}[/]{_style(record)}"
    if "perplexity" in measures:
        return [
            f"{name}: validation loss {record.result.loss:.4f}, PPL {measures['perplexity']:.2f}, "
            f"{measures['bits_per_byte']:.3f} bits per byte; {weights}"
        ]
    if "probe_accuracy" in measures:
        return [f"{name}: {measures['probe_accuracy']:.2%} exact answers, loss {record.result.loss:.4f}; {weights}"]
    return [
        f"{name}: hold-out accuracy {measures['accuracy']:.2%} at the last step; {weights}",
        *(
            f"  {row.name}, {_CHECKPOINTS[row.checkpoint]} (step {row.step}): accuracy {row.measures['accuracy']:.2%}, "
            f"macro F1 {row.measures['f1']:.4f}, loss {row.measures['loss']:.4f}, n = {len(row.labels.split()):,}"
            for row in record.evaluations
        ),
    ]


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
