"""Checkpoints: whole or absent, safetensors and JSON only, the last two and the best.

Under `--bad-steps roll-back` also the last one that was due, if a run that was stopped twice has left later ones.

checkpoint/step-00000200/   model.safetensors  training.safetensors (moments, step times)  training.json  digests.json
checkpoint/best-00000150/   model.safetensors  training.json  digests.json
checkpoint/damaged-step-00000200/   one that was passed over on resume; it goes with the next save
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from oelm.base.errors import CheckpointError, UnreadableError
from oelm.base.files import make_folder, read_json, sweep_leftovers, write_json, writing_folder
from oelm.data.tokens import file_sha256
from oelm.train.folder import has_events
from oelm.train.optimiser import Moments

_KEEP = 2
_FORMAT = 2
_DIGESTS = "digests.json"
_DAMAGED = "damaged-"
_MOMENT = "moment:"
_STEP_SECONDS = "step_seconds"


@dataclass(kw_only=True)
class Progress:
    """Where the loop stands after `step` updates: all that an exact resume needs besides tensors."""

    step: int = 0
    tokens: int = 0
    window_loss: float = 0.0
    """Sum of losses since the last step event; `window_steps` and `window_seconds` likewise."""
    window_steps: int = 0
    window_seconds: float = 0.0
    window_without_loss: int = 0
    """Steps of the window whose loss is no use: not a number, or that of a bad step."""
    training_seconds: float = 0.0
    validation_seconds: float = 0.0
    wall_seconds: float = 0.0
    best: float | None = None
    """Of the best validation: its loss, or what `RunConfig.best_by` says; less is better."""
    best_step: int = 0
    gradient_norm: float = 0.0
    """Of the last step that changed the weights."""
    skipped_steps: int = 0
    """Steps that changed nothing, by an overflow in float16 or as bad ones; they count as steps."""
    usual_loss: float | None = None
    """The mean loss of the last hundred steps or so that changed the weights."""
    bad_in_a_row: int = 0
    rolls_back_to: int = 0
    """Step of the last checkpoint that was due, so that a run that was stopped in between goes back as far as one that
    was not; 0 before there is one, and under other policies."""
    loss_scale: dict[str, Any] | None = None
    """The state of `LossScale`; None in other precisions."""
    events_bytes: int = 0
    """Length of events.jsonl at this point; what a crash left behind it is cut off."""
    events_digest: str = ""
    """SHA-256 of these bytes; empty in checkpoints from before it was kept, as `audit_digest` is."""
    audit_digest: str = ""
    """Of what the freeze audit says of the model before the first step."""
    step_seconds: list[float] = field(default_factory=list)
    """Seconds of each timed step: saved as a tensor, not in the JSON."""

    def advance(self, *, loss: float | None, tokens: int, seconds: float, timed: bool) -> None:
        """Count one update; a loss that is no use is None."""
        self.step += 1
        self.tokens += tokens
        if loss is None:
            self.window_without_loss += 1
        else:
            self.window_loss += loss
        self.window_steps += 1
        self.window_seconds += seconds
        self.training_seconds += seconds
        if timed:
            self.step_seconds.append(seconds)

    def note_update(self, *, loss: float | None, gradient_norm: float, applied: bool, bad: bool) -> None:
        """An update that was made; one that was not is counted."""
        self.bad_in_a_row = self.bad_in_a_row if bad else 0
        if not applied:
            self.skipped_steps += 1
            return
        self.gradient_norm = gradient_norm
        if loss is not None:
            self.usual_loss = loss if self.usual_loss is None else self.usual_loss + (loss - self.usual_loss) / 100

    @property
    def window_losses(self) -> int:
        """How many losses `window_loss` is the sum of."""
        return self.window_steps - self.window_without_loss

    def clear_window(self) -> None:
        """Begin the next step event."""
        self.window_loss, self.window_steps, self.window_seconds, self.window_without_loss = 0.0, 0, 0.0, 0


class Checkpoints:
    """The checkpoint folder of one run."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._resumable_best = 0
        """The best step that the latest checkpoint to resume from speaks of."""

    def open(self) -> None:
        """Make the folder and remove what a crash left half-written."""
        make_folder(self.folder)
        sweep_leftovers(self.folder)

    def save(self, model: nn.Module, moments: Moments, progress: Progress) -> None:
        """Write a checkpoint to resume from, then drop all but the last two and what a bad step would go back to."""
        tensors = {f"{_MOMENT}{name}:{part}": _plain(t) for name, state in moments.items() for part, t in state.items()}
        tensors[_STEP_SECONDS] = torch.tensor(progress.step_seconds, dtype=torch.float64)
        with writing_folder(self._of(progress.step)) as folder:
            save_file(_weights(model), folder / "model.safetensors")
            save_file(tensors, folder / "training.safetensors")
            self._write_progress(folder, progress)
            _write_digests(folder)
        self._resumable_best = progress.best_step
        _remove([*self._outlived(progress), *self.folder.glob(f"{_DAMAGED}*")])
        self._keep_best(progress.best_step)

    def save_best(self, model: nn.Module, progress: Progress) -> None:
        """Write the weights of the best validation so far.

        The former best goes when a checkpoint knows of the new one: a run killed before that resumes with the former.
        """
        with writing_folder(self.folder / f"best-{progress.step:08d}") as folder:
            save_file(_weights(model), folder / "model.safetensors")
            self._write_progress(folder, progress)
            _write_digests(folder)
        self._keep_best(progress.step, self._resumable_best)

    def steps(self) -> list[Path]:
        """Checkpoints to resume from, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def best(self) -> Path:
        """The folder of the best validation."""
        return self.chosen("best")

    def chosen(self, which: str) -> Path:
        """The folder of the `last` step or of the `best` validation."""
        found = sorted(self.folder.glob("best-*")) if which == "best" else self.steps()
        if not found:
            raise CheckpointError(f"{self.folder} has no {which} checkpoint yet", "train it until its first checkpoint")
        return found[-1]

    def settle(self, events: Path) -> list[str]:
        """Make the newest checkpoint that is whole, and whose events are there, the latest; says what is passed over.

        What is passed over is set aside until the next save. Where nothing is good nothing is touched.
        """
        passed: list[tuple[Path, str]] = []
        for folder in reversed(self.steps()):
            wrong = damage_of(folder) or self._lost(folder, events)
            if wrong is None:
                break
            passed.append((folder, wrong))
        if passed and len(passed) == len(self.steps()):
            raise CheckpointError(
                f"no checkpoint in {self.folder} can be resumed from: "
                + "; ".join(f"{folder.name}: {wrong}" for folder, wrong in passed),
                "put the damaged file back from a copy, or start over in another --out-dir",
            )
        for folder, _ in passed:
            folder.rename(folder.with_name(f"{_DAMAGED}{folder.name}"))
        progress = self.latest_progress()
        _remove(self._outlived(progress))  # killed just behind its last save, a run has no time for that
        self._keep_best(progress.best_step)
        good = self.steps()[-1].name if passed else ""
        return [f"{folder.name} is passed over ({wrong}); going on from {good}" for folder, wrong in passed]

    def latest_progress(self) -> Progress:
        """Where the latest checkpoint stands, its step times left out."""
        folder = self.steps()[-1]
        with _readable(folder):
            return self._read_progress(folder)

    def require_best(self) -> None:
        """Refuse a damaged best checkpoint before any work: without it a run that is evaluated could not be ended.

        One of a later step was there before the run went back, and will be made again.
        """
        progress = self.latest_progress()
        folder = self.folder / f"best-{progress.best_step:08d}"
        is_made_again = any(best.name > f"best-{progress.step:08d}" for best in self.folder.glob("best-*"))
        if progress.best_step and not is_made_again and (wrong := damage_of(folder)):
            raise CheckpointError(
                f"{folder} is missing or damaged ({wrong}), and the run will be evaluated with it",
                "put it back from a copy, or start over in another --out-dir",
            )

    def _lost(self, folder: Path, events: Path) -> str | None:
        with _readable(folder):
            progress = self._read_progress(folder)
        if has_events(events, progress.events_bytes, progress.events_digest):
            return None
        return f"{events.name} does not begin with its {progress.events_bytes:,} bytes"

    def load_latest(self, model: nn.Module) -> tuple[Moments, Progress]:
        """Restore the weights of a checkpoint that `settle` has found good; returns the moments and the progress."""
        folder = self.steps()[-1]
        with _readable(folder):
            progress = self._read_progress(folder)
            tensors = load_file(folder / "training.safetensors")
        _load_weights(model, folder)
        self._resumable_best = progress.best_step
        progress.step_seconds = tensors[_STEP_SECONDS].tolist()
        return _moments(tensors), progress

    def roll_back(self, model: nn.Module, step: int) -> Moments:
        """Restore the weights of the checkpoint of `step`; returns its moments. The run itself does not go back.

        It need not be the latest one, which `settle` has looked at.
        """
        folder = self._of(step)
        if wrong := damage_of(folder):
            raise CheckpointError(
                f"a bad step goes back to {folder}, which is missing or damaged ({wrong})",
                "put it back from a copy, or start over in another --out-dir",
            )
        _load_weights(model, folder)
        with _readable(folder):
            return _moments(load_file(folder / "training.safetensors"))

    def _of(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _outlived(self, latest: Progress) -> list[Path]:
        return [folder for folder in self.steps()[:-_KEEP] if folder != self._of(latest.rolls_back_to)]

    def _keep_best(self, *steps: int) -> None:
        kept = {f"best-{step:08d}" for step in steps}
        found = list(self.folder.glob("best-*"))
        if any(folder.name in kept for folder in found):  # else the run went back behind it, and will make it again
            _remove([folder for folder in found if folder.name not in kept])

    def _write_progress(self, folder: Path, progress: Progress) -> None:
        values = asdict(progress)
        del values["step_seconds"]
        whole = {"format": _FORMAT, "fingerprint": self._fingerprint, "progress": values}
        write_json(folder / "training.json", whole)

    def _read_progress(self, folder: Path) -> Progress:
        saved = read_json(folder / "training.json")
        if saved["fingerprint"] != self._fingerprint:
            raise CheckpointError(
                f"{folder} is a checkpoint of another configuration ({saved['fingerprint']}, not {self._fingerprint})",
                "resume with the settings in the run's config.yaml, or choose another --out-dir",
            )
        values = saved["progress"]
        if "best_loss" in values:  # its name when the loss alone chose
            values["best"] = values.pop("best_loss")
        return Progress(**values)


def damage_of(folder: Path) -> str | None:
    """What is wrong with the files of a checkpoint by the digests beside them; None if nothing is.

    A checkpoint from before there were digests is taken as it is.
    """
    try:
        if not (folder / _DIGESTS).is_file():
            return f"{_DIGESTS} is missing" if "format" in read_json(folder / "training.json") else None
        digests = read_json(folder / _DIGESTS)
        names = sorted(path.name for path in folder.iterdir() if path.name != _DIGESTS)
        if not isinstance(digests, dict) or sorted(digests) != names:
            return f"its files are not those of {_DIGESTS}"
        wrong = next((name for name in names if file_sha256(folder / name) != digests[name]), None)
    except (OSError, ValueError, TypeError) as error:
        return " ".join(str(error).split())[:200]
    return f"{wrong} does not have its digest" if wrong else None


def _write_digests(folder: Path) -> None:
    """The digest of each file, read back from the cache of the system: about a second per GB."""
    write_json(folder / _DIGESTS, {path.name: file_sha256(path) for path in sorted(folder.iterdir())})


def load_weights(model: nn.Module, folder: Path) -> None:
    """Load `model.safetensors` of a checkpoint that is whole into a model of the same config."""
    if wrong := damage_of(folder):
        raise CheckpointError(
            f"{folder} is damaged: {wrong}", "put it back from a copy, or choose the other checkpoint (last or best)"
        )
    _load_weights(model, folder)


def _load_weights(model: nn.Module, folder: Path) -> None:
    with _readable(folder):
        tensors, parameters = load_file(folder / "model.safetensors"), dict(model.named_parameters())
        if tensors.keys() != parameters.keys():
            raise KeyError(f"its tensors are not the model's: {sorted(tensors.keys() ^ parameters.keys())[0]}")
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[name])


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError, SafetensorError, UnreadableError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{folder} cannot be loaded: {reason}", "remove that folder to go on from the checkpoint before it"
        ) from error


def _moments(tensors: dict[str, Tensor]) -> Moments:
    """Those among the tensors of training.safetensors."""
    moments: Moments = {}
    for key, tensor in tensors.items():
        if key.startswith(_MOMENT):
            name, part = key.removeprefix(_MOMENT).rsplit(":", 1)
            moments.setdefault(name, {})[part] = tensor
    return moments


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """All parameters, each once: a state dict would repeat tied ones and fuse what surgery has split."""
    return {name: _plain(parameter) for name, parameter in model.named_parameters()}


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()
