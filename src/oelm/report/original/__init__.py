"""The original study as records: every figure that it reported, marked as such, none of it measured here.

`records.json` is written by `benchmarks/original_study.py`, where the figures stand in tables; a test compares the two
and the figures themselves.
"""

from importlib import resources

from pydantic import TypeAdapter

from oelm.config.record import Record


def original_records() -> tuple[Record, ...]:
    """The runs of the original study, in the order of its reports."""
    text = resources.files(__name__).joinpath("records.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Record, ...]).validate_json(text)
