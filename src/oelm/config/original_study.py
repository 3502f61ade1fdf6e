"""The original study as records: every figure that it reported, marked as such, none of it measured here.

Plan, page and tests read them from here. `benchmarks/original_study.py` writes the file and adds what follows from the
figures (weights, FLOPs).
"""

from functools import cache
from importlib import resources

from pydantic import TypeAdapter

from oelm.config.record import Record


def original_record(run: str | None) -> Record | None:
    """What the original reported for one of its runs, by its name (`GPT-02`); None for a run that it does not have."""
    return next((record for record in original_records() if record.reported and record.reported.id == run), None)


@cache
def original_records() -> tuple[Record, ...]:
    """The runs of the original study, in the order of its reports."""
    text = resources.files("oelm.config").joinpath("original_study.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Record, ...]).validate_json(text)
