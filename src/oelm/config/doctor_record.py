"""What `oelm doctor` writes: what works on a machine, how fast it is, and how long each study would take there."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from oelm.config.record import Environment
from oelm.config.run import Precision
from oelm.config.settings import GrownSettings, Settings


class Outcome(StrEnum):
    """How a check ended."""

    WORKS = "works"
    ABSENT = "not here"
    """The machine does not have it; nothing is wrong."""
    FAILED = "failed"
    LEFT_OUT = "left out"
    """The time was over before it."""


class Check(GrownSettings):
    """One thing that was tried."""

    later: ClassVar[frozenset[str]] = frozenset({"traceback"})

    name: str
    outcome: Outcome
    note: str
    seconds: float
    traceback: tuple[str, ...] = ()
    """The last lines, of what failed."""


class Speed(GrownSettings):
    """Training steps of a size in one precision, on one device."""

    later: ClassVar[frozenset[str]] = frozenset({"device"})

    size: str
    width: int
    precision: Precision
    device: str = ""
    """cpu, cuda or mps; empty in records from before it was kept."""
    sequences: int
    """Per step."""
    step_seconds: float
    tokens_per_second: float
    flops_per_second: float
    peak_bytes: int


class StudyHours(GrownSettings):
    """How long all runs of a study would take, one after the other, on one device."""

    later: ClassVar[frozenset[str]] = frozenset({"at_most"})

    study: str
    runs: int
    hours: float | None
    """None where the size of a model is not known here."""
    at_most: bool = False
    """They may be fewer: texts may be shorter than the longest, or the data too few for a whole validation set."""
    devices: int
    """How many a run of it takes: its hours are those of all together."""
    by: str
    """Whose speed it was predicted from."""


class DoctorRecord(Settings):
    """`doctor.json`: nothing in it names a person or a machine."""

    format: Literal[1] = 1
    environment: Environment
    versions: dict[str, str] = Field(default_factory=dict)
    """Of packages, the driver, CUDA, NCCL and macOS, as far as they are there; empty in older records."""
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
