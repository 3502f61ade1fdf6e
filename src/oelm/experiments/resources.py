"""What one run needs of a cluster: in a study under `resources`, or in a profile that several studies share.

resources: {cpus: 8, gpus: 1, memory: 32G, hours: 24, partition: gpu, sbatch: ["--qos=long"], setup: [module load cuda]}
"""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from oelm.config.settings import Settings
from oelm.config.yaml_file import YamlFile

_ONE_LINE = r"^[^\n]*$"
_Line = Annotated[str, Field(pattern=_ONE_LINE)]
_Option = Annotated[str, Field(pattern=r"^--[^\n]+$")]
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Resources(Settings):
    """Of one run. `cpus`, `gpus` and `memory` are for Ray and SLURM, the rest is for SLURM alone."""

    cpus: Annotated[int, Field(ge=1)] = 1
    """Cores, and threads, of each process."""
    gpus: Literal[0, 1] = 1
    """GPUs of each process; 0 trains on the CPU."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """Machines that a run's processes are spread over evenly; several find each other through torchrun."""
    memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[KMGT]$")] | None = None
    """Per node, such as 32G; without it, what the cluster gives."""
    hours: Annotated[float, Field(gt=0)] | None = None
    """The time limit of one job. A run that needs longer is saved in time, submitted again, and goes on."""
    save_seconds: Annotated[int, Field(ge=1)] = 120
    """How long before the limit a run is asked to save itself."""
    partition: _Line | None = None
    account: _Line | None = None
    constraint: _Line | None = None
    sbatch: tuple[_Option, ...] = ()
    """More options of sbatch, such as `--qos=long`."""
    setup: tuple[_Line, ...] = ()
    """Lines of shell before each run, such as `module load cuda`."""

    @property
    def minutes(self) -> int | None:
        """The time limit as SLURM counts it."""
        return None if self.hours is None else math.ceil(self.hours * 60)

    @property
    def memory_bytes(self) -> int | None:
        """Per node."""
        return None if self.memory is None else int(self.memory[:-1]) * _UNITS[self.memory[-1]]


class _AsInAStudy(Settings):
    """A profile that was copied out of a study file, with its first line."""

    resources: Resources


def resources_of(wanted: Resources, profile: Path | None) -> Resources:
    """What a study asks for; what it leaves open, a profile says."""
    if profile is None:
        return wanted
    given = {name: getattr(wanted, name) for name in wanted.model_fields_set}
    return _read_profile(YamlFile(profile)).model_copy(update=given)


def _read_profile(file: YamlFile) -> Resources:
    return file.parse(_AsInAStudy).resources if "resources" in file else file.parse(Resources)
