"""The demonstration: five methods with paired seeds on the built-in corpus, small enough for a laptop."""

from pathlib import Path

from rich.console import Console

from oelm.config.request import TrainRequest, resolve
from oelm.config.settings import parse
from oelm.data.prepare import prepare
from oelm.data.request import PrepareRequest
from oelm.data.sources import Stories
from oelm.experiments.local import Planned, run_all

METHODS = ("baseline", "oelm", "oelm-random", "oelm-core", "baseline+shift+gain")
"""The original's three arms, the best frozen variant of the pilots, and that one's fair control."""


def run_quickstart(out: Path, *, seeds: int, steps: int, at_once: int, console: Console) -> list[Path]:
    """Prepare the corpus, bring all runs to their records and return their folders."""
    data_folder = out / "data"
    source = Stories(text_bytes=4_000_000)
    manifest = prepare(PrepareRequest(source=source, vocabulary=1024), data_folder)
    console.print(
        f"built-in stories: {manifest.train.tokens:,} training tokens, vocabulary {manifest.tokenizer.vocabulary:,}; "
        f"{len(METHODS)} methods x {seeds} seeds, {steps} steps each, {at_once} at a time",
        highlight=False,
    )
    # Seeds outermost: an interrupted quickstart has complete pairs first.
    planned = [
        Planned(
            label=f"{method} seed {seed}",
            config=resolve(_request(method, seed, steps), manifest, str(data_folder)),
            folder=out / f"{method}-seed{seed}",
        )
        for seed in range(seeds)
        for method in METHODS
    ]
    run_all(planned, at_once=at_once, console=console)
    return [run.folder for run in planned]


def _request(method: str, seed: int, steps: int) -> TrainRequest:
    # One learning rate for all arms: equal treatment, not each arm's best; the comparison says so.
    values = {
        "method": method,
        "seed": seed,
        "steps": steps,
        "layers": 3,
        "width": 96,
        "heads": 4,
        "seq_len": 128,
        "batch_size": 8,
        "lr": 3e-3,
        "validate_every": max(10, steps // 5),  # a short trial should train more than it validates
        "validation_sequences": 128,
    }
    return parse(TrainRequest, values, "quickstart")
