"""Study files for tests: one as text, whose lines the tests count, and one that tunes on prepared tokens."""

from pathlib import Path
from typing import Any

import yaml

from oelm.experiments.matrix import StudyRuns
from oelm.experiments.resolving import resolve_for_plan
from oelm.experiments.study import StudyFile
from train.toys import TINY

TEXT = """\
title: A toy
data:
  toy:
    source: {kind: stories, count: 40}
    tokenizer: bytes
train:
  layers: 2
  width: 16
  heads: 2
  steps: 100
  lr: 1e-3
arms:
  - baseline
  - {method: oelm, id: GPT-02, settings: {lr: 3e-3}}
seeds: [0, 1]
primary: oelm
"""


def study(folder: Path, text: str, *overrides: str) -> StudyFile:
    """The text as a file, read."""
    path = folder / "toy.yaml"
    path.write_text(text)
    return StudyFile.read(path, overrides)


def tuned(folder: Path, tokens: Path, **changes: Any) -> StudyFile:
    """A study of two arms that chooses between two learning rates."""
    look = {"steps": 20, "log_every": 5, "validation_sequences": 8, "tensorboard": False, "device": "cpu"}
    values = {
        "title": "A toy that is tuned",
        "data": {"toy": {"tokens": str(tokens)}},
        "train": {**TINY, **look},
        "arms": ["baseline", "oelm"],
        "tuning": {"grid": [1e-3, 1e-2], "seed": 9, "share": 0.5},
        "seeds": [0, 1],
        "primary": "oelm",
        **changes,
    }
    return study(folder, yaml.safe_dump(values, sort_keys=False))


def planned(file: StudyFile, folder: Path, only: tuple[str, ...] = ()) -> StudyRuns:
    """Its runs as a plan resolves them."""
    resolve = resolve_for_plan(file.study, folder)
    return StudyRuns(file.study, file.name, folder / "out", resolve, file.study.chosen(only))
