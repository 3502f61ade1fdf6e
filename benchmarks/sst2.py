"""Which way of freezing Q and K of a pre-trained BERT costs accuracy on SST-2?

Every arm is tuned on one grid of learning rates with a seed that is not used again, chosen by accuracy on a hold-out of
train; then trained with paired seeds at its best. The dev set is read once per run, after the last step. Records go to
results/sst2; the same command again goes on where it stopped.

    python benchmarks/sst2.py --model MODEL_FOLDER --train sst2/train.tsv.xz --evaluate sst2/dev.tsv.xz
"""

import argparse
import shutil
from pathlib import Path

from rich.console import Console

from oelm.config.finetune import FinetuneRequest
from oelm.config.labelled import Columns, LabelledFile, LocalTables
from oelm.config.record import Record
from oelm.experiments.finetune import resolve_finetune
from oelm.experiments.local import Planned, run_all
from oelm.train.folder import RunFolder

ARMS = (
    "baseline",
    "keep",
    "oelm-qr",
    "oelm-polar",
    "oelm-polar+matched",
    "oelm",
    "oelm-random-matched",
)
GRID = (3e-5, 1e-4, 3e-4)
TUNING_SEED = 100
SEEDS = (0, 1, 2)


def planned(arguments: argparse.Namespace, arm: str, lr: float, seed: int, stage: str) -> Planned:
    """One run of one arm."""
    source = LocalTables(
        name="sst2",
        train=LabelledFile(path=arguments.train),
        evaluate={"dev": LabelledFile(path=arguments.evaluate)},
        columns=Columns(text="sentence"),
    )
    request = FinetuneRequest(
        model=arguments.model,
        source=source,
        method=arm,
        lr=lr,
        seed=seed,
        train_examples=3200,
        holdout_examples=600,
        max_length=64,
        epochs=1,
        batch_size=32,
        validate_every=50,
        save_every=100,
        tensorboard=False,
    )
    name = f"{arm}-lr{lr:g}-seed{seed}"
    return Planned(label=name, config=resolve_finetune(request), folder=arguments.out / stage / name)


def records(runs: list[Planned], arguments: argparse.Namespace, console: Console) -> list[Record]:
    """Bring all runs to their records; checkpoints of finished ones are dropped (they are large)."""
    for start in range(0, len(runs), arguments.at_once * 2):
        part = runs[start : start + arguments.at_once * 2]
        run_all(part, at_once=arguments.at_once, console=console)
        for run in part:
            shutil.rmtree(RunFolder(run.folder).checkpoint_folder, ignore_errors=True)
    return [RunFolder(run.folder).record() for run in runs]


def best_rates(tuned: list[Record]) -> dict[str, float]:
    """The learning rate of each arm with the best hold-out accuracy at the last step (ties: the lower loss)."""
    best: dict[str, Record] = {}
    for record in tuned:
        so_far = best.get(record.method)
        if so_far is None or _merit(record) > _merit(so_far):
            best[record.method] = record
    return {arm: record.config.optim.lr for arm, record in best.items()}


def _merit(record: Record) -> tuple[float, float]:
    return record.result.measures["accuracy"], -record.result.loss


def main() -> None:
    """Tune, confirm, keep the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--evaluate", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/sst2"))
    parser.add_argument("--results", type=Path, default=Path("results/sst2"))
    parser.add_argument("--at-once", type=int, default=2)
    arguments = parser.parse_args()
    console = Console()
    grid = [planned(arguments, arm, lr, TUNING_SEED, "tuning") for arm in ARMS for lr in GRID]
    rates = best_rates(records(grid, arguments, console))
    console.print(rates)
    final = [planned(arguments, arm, rates[arm], seed, "final") for seed in SEEDS for arm in ARMS]
    records(final, arguments, console)
    for run in (*grid, *final):
        kept = arguments.results / run.folder.parent.name / run.folder.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(RunFolder(run.folder).record_file, kept / "record.json")


if __name__ == "__main__":
    main()
