"""What the doctor tries things on: a tiny GPT on the built-in stories, in a folder that goes afterwards."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oelm.base.console import Console
from oelm.config.record import Record
from oelm.config.request import TrainRequest, resolve
from oelm.config.run import RunConfig
from oelm.data.tokens import read_manifest
from oelm.experiments.assemble import run
from oelm.train.folder import RunFolder

BATCH = 4
SAVE_EVERY = 10
CPU = "cpu"

_TINY = {"layers": 2, "width": 64, "heads": 2, "seq_len": 64, "batch_size": BATCH, "steps": 30, "lr": 3e-3}


class NotHere(Exception):
    """The machine does not have what a check is about."""


@dataclass(frozen=True)
class Bench:
    """A tiny corpus, a folder for runs, and the device to look at."""

    folder: Path
    device: str

    @property
    def tokens(self) -> Path:
        """The folder of the corpus."""
        return self.folder / "tokens"

    def config(self, **changes: Any) -> RunConfig:
        """A tiny run, or another one."""
        looks = {"save_every": SAVE_EVERY, "validate_every": SAVE_EVERY, "validation_sequences": 16}
        settings = {"method": "oelm", **_TINY, **looks, "tensorboard": False, "device": self.device, **changes}
        return resolve(TrainRequest.model_validate(settings), read_manifest(self.tokens), str(self.tokens))

    def run_folder(self, name: str) -> RunFolder:
        """Where the run of that name is."""
        return RunFolder(self.folder / name)

    def trained(self, name: str, **changes: Any) -> Record:
        """The record of a tiny run; a second time it is only read."""
        folder = self.run_folder(name)
        if folder.finished:
            return folder.record()
        record = run(self.config(**changes), folder.path, resume=True, console=Console(quiet=True))
        assert record is not None, "one process leads"
        return record

    def plain(self, device: str) -> Record:
        """The run in float32 on a device. The CPU's is what all others are compared with."""
        return self.trained(plain_name(device), device=device)


def plain_name(device: str) -> str:
    """The name of the run in float32 on a device."""
    return f"float32 {device}"
