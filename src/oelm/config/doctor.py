"""What `oelm doctor` writes: what works on a machine, how fast it is, and how long each study would take there."""

from enum import StrEnum
from typing import Literal

from oelm.config.record import Environment
from oelm.config.run import Precision
from oelm.config.settings import Settings


class Outcome(StrEnum):
    """How a check ended."""

    WORKS = "works"
    ABSENT = "not here"
    """The machine does not have it; nothing is wrong."""
    FAILED = "failed"


class Check(Settings):
    """One thing that was tried."""

    name: str
    outcome: Outcome
    note: str
    seconds: float


class Speed(Settings):
    """Training steps of a size in one precision, on one device."""

    size: str
    width: int
    precision: Precision
    sequences: int
    """Per step."""
    step_seconds: float
    tokens_per_second: float
    flops_per_second: float
    peak_bytes: int


class StudyHours(Settings):
    """How long the runs of a study that are still to be made would take, one after the other, on one device."""

    study: str
    runs: int
    hours: float | None
    """None where the size of a model is not known here."""
    devices: int
    """How many a run of it takes: its hours are those of all together."""
    by: str
    """Whose speed it was predicted from."""


class DoctorRecord(Settings):
    """`doctor.json`: nothing in it names a person or a machine."""

    format: Literal[1] = 1
    environment: Environment
    system: str
    cores: int
    devices: tuple[str, ...]
    checks: tuple[Check, ...]
    speeds: tuple[Speed, ...]
    studies: tuple[StudyHours, ...]
    seconds: float

    @property
    def failed(self) -> tuple[Check, ...]:
        """What should work and does not."""
        return tuple(check for check in self.checks if check.outcome is Outcome.FAILED)
