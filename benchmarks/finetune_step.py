"""What does freezing Q and K save when a pre-trained model is fine-tuned? Step time and peak memory, beside the FLOPs.

Step times: all arms in one process, interleaved (see step_time.py). Peak memory: each arm in a process of its own,
above what the process needed before its first step. Run it on an idle machine:

    python benchmarks/finetune_step.py --model MODEL_FOLDER --train sst2/train.tsv.xz --evaluate sst2/dev.tsv.xz
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from step_time import interleaved, ratio

from oelm.base.runtime import Runtime
from oelm.config.finetune import FinetuneRequest
from oelm.config.labelled import Columns, LabelledFile, LocalTables
from oelm.experiments.finetune import resolve_finetune
from oelm.experiments.subjects import Subject, subject_of
from oelm.method.freezing import frozen_names
from oelm.train.engine import Engine

ARMS = ("baseline", "oelm", "oelm-ffn")


def subject(arguments: argparse.Namespace, arm: str) -> tuple[Subject, Engine]:
    """One arm, ready to step."""
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
        train_examples=3200,
        holdout_examples=100,
        max_length=64,
        batch_size=arguments.batch_size,
    )
    config = resolve_finetune(request)
    built = subject_of(config)
    engine = Engine(
        built.model,
        built.table,
        config.optim,
        Runtime(torch.device("cpu")),
        precision=config.train.precision,
        accumulate=1,
        seed=0,
    )
    engine.ensure_frozen(frozen_names(config.method.plan, built.table, 0, 1))
    return built, engine


def stepper(built: Subject, engine: Engine) -> Callable[[int], object]:
    """A function that takes one step, always on the same batch: batches of other lengths take other times."""

    def step(_index: int) -> object:
        return engine.accumulate(built.task, 7), engine.update(1e-5)

    return step


def peak_of(arm: str) -> int:
    """Peak bytes of a process that trains this arm for a few steps."""
    command = [sys.executable, __file__, *sys.argv[1:], "--peak-of", arm]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def print_peak(arguments: argparse.Namespace) -> None:
    """Train the arm and print what it needs above the size of this process before the first step.

    Seen where it is largest, with all gradients and moments alive; reading the data has needed more before, so the
    system's own high-water mark would show that instead.
    """
    built, engine = subject(arguments, arguments.peak_of)
    before, seen = resident_bytes(), []
    for index in range(5):
        engine.accumulate(built.task, index)
        seen.append(resident_bytes())
        engine.update(1e-5)
    print(max(seen) - before)


def resident_bytes() -> int:
    """Memory of this process now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure, write the record, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--evaluate", required=True)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak-of", choices=ARMS)
    parser.add_argument("--out", type=Path, default=Path("results/finetune-step"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak_of:
        print_peak(arguments)
        return
    built = {arm: subject(arguments, arm) for arm in ARMS}
    timed = list(interleaved({arm: stepper(*built[arm]) for arm in ARMS}, arguments.rounds, arguments.repeats))
    peaks = {arm: peak_of(arm) for arm in ARMS}
    record = {
        "model": Path(arguments.model).name,
        "batch": arguments.batch_size,
        "rounds": arguments.rounds,
        "steps_per_round": arguments.repeats,
        "threads": 1,
        "torch": torch.__version__,
        "arms": {
            arm: {
                "over_baseline": ratio(timed, arm, "baseline"),
                "flop_bound": 1 - built[arm][0].flops(1).saved_share,
                "median_step_seconds": statistics.median(seconds[arm] for seconds in timed),
                "peak_bytes_above_start": peaks[arm],
                "peak_over_baseline": peaks[arm] / peaks["baseline"],
            }
            for arm in ARMS
        },
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "minilm.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(table(record))


def table(record: dict) -> str:
    """The record as a Markdown table."""
    rows = [
        "| method | step time / baseline | quartiles | FLOP bound | peak memory / baseline |",
        "|---|---|---|---|---|",
    ]
    for arm, row in record["arms"].items():
        over = row["over_baseline"]
        rows.append(
            f"| `{arm}` | {over['median']:.3f} | {over['lower_quartile']:.3f} to {over['upper_quartile']:.3f} "
            f"| {row['flop_bound']:.3f} | {row['peak_over_baseline']:.3f} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
