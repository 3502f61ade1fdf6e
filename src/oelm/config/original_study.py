"""The original study as records: every figure that it reported, marked as such, none of it measured here.

Plan, page and tests read them from here. `benchmarks/original_study.py` writes the file and adds what follows from the
figures (weights, FLOPs).
"""

from functools import cache
from importlib import resources
from typing import Any

from pydantic import TypeAdapter

from oelm.config.model import GPTConfig
from oelm.config.record import Record


def original_record(run: str | None) -> Record | None:
    """What the original reported for one of its runs, by its name (`GPT-02`); None for a run that it does not have."""
    return next((record for record in original_records() if record.reported and record.reported.id == run), None)


def script_settings(steps: int) -> dict[str, Any]:
    """What the original's training script does where its commands say nothing, as settings of a `TrainRequest`.

    Its warm-up is left to ours in a run that is too short for it.
    """
    record = original_record("GPT-02")
    assert record is not None
    assert isinstance(record.config.model, GPTConfig)
    model, optim, train = record.config.model, record.config.optim, record.config.train
    return {
        "size": "medium-512",
        "seq_len": model.context,
        "dropout": model.dropout,
        "min_lr": optim.min_lr_ratio * optim.lr,
        "warmup_steps": optim.warmup_steps if optim.warmup_steps < steps else None,
        **{name: getattr(optim, name) for name in ("schedule", "weight_decay", "decay", "clip", "beta1", "beta2")},
        "batch_size": train.batch_size,
        "validation_sequences": train.validation_sequences,
        "save_every": record.config.machine.save_every,
        "seed": record.config.seed,
    }


@cache
def original_records() -> tuple[Record, ...]:
    """The runs of the original study, in the order of its reports."""
    text = resources.files("oelm.config").joinpath("original_study.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Record, ...]).validate_json(text)
