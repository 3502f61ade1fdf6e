"""Hand check: minimal pairs scored by `oelm eval` and by lm-evaluation-harness agree to the item.

    python benchmarks/harness_agreement.py RUN blimp.jsonl.xz --record results/harness-agreement.json

Needs `pip install 'oelm[eval]'`. The harness reads the same lines through a local task file, from the run's export.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
import yaml

from oelm.config.evaluated import EvaluationRequest, Suite
from oelm.data.textfiles import file_lines
from oelm.evaluate.ask_harness import run_harness
from oelm.evaluate.choices import score_readings
from oelm.evaluate.items import read_items
from oelm.experiments.evaluated_model import open_model
from oelm.experiments.trained_run import export_run

TASK = {
    "task": "pairs",
    "dataset_path": "json",
    "test_split": "train",
    "output_type": "multiple_choice",
    "doc_to_text": "",
    "doc_to_choice": "{{[good, bad]}}",
    "doc_to_target": 0,
    "target_delimiter": "",
    "metric_list": [{"metric": "acc"}],
}


def main(
    run: Path,
    items: Path,
    record: Annotated[Path | None, typer.Option()] = None,
    every: Annotated[int, typer.Option()] = 1,
) -> None:
    """Score every `every`-th pair both ways, print and keep what differs."""
    lines = [line for line in file_lines(items) if line.strip()][::every]
    with TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.jsonl"
        pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
        task = {**TASK, "dataset_kwargs": {"data_files": str(pairs)}}
        (folder / "pairs.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
        export_run(run, folder / "exported")
        exported = open_model(str(folder / "exported")).model
        asked = EvaluationRequest(suites=(Suite.HARNESS,), tasks=("pairs",), task_folder=name, batch_size=32)
        theirs = run_harness(exported, asked)["samples"]["pairs"]
        readings = [reading for item in read_items(pairs) for reading in item.readings]
        ours = score_readings(open_model(str(run)).model, readings, 32).sums.reshape(-1, 2)
    theirs.sort(key=lambda sample: sample["doc_id"])
    sums = np.array([[float(answer[0][0]) for answer in sample["resps"]] for sample in theirs])
    right = np.array([sample["acc"] for sample in theirs])
    found = {
        "items": len(lines),
        "largest_difference_of_log_likelihoods": float(np.abs(ours - sums).max()),
        "items_that_differ": int(((ours[:, 0] > ours[:, 1]) != (right > 0)).sum()),
        "accuracy": float((ours[:, 0] > ours[:, 1]).mean()),
        "accuracy_of_the_harness": float(right.mean()),
    }
    print(json.dumps(found, indent=2))
    if record is not None:
        record.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
