"""The freeze audit: digests of every tensor before the first and after the last step."""

import contextlib
import hashlib
import json
from pathlib import Path

from torch import nn

from oelm.base.errors import CheckpointError, FreezeError
from oelm.base.files import read_json, write_json
from oelm.config.record import FreezeAudit


def tensor_digests(model: nn.Module) -> dict[str, str]:
    """SHA-256 of every parameter's bytes."""
    return {
        name: hashlib.sha256(p.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
        for name, p in model.named_parameters()
    }


def write_start(path: Path, model: nn.Module) -> dict[str, str]:
    """Write the digests of the freshly initialised model; a resumed run finds them there."""
    digests = tensor_digests(model)
    write_json(path, {"before": digests})
    return digests


def read_start(path: Path) -> dict[str, str]:
    """The digests from before the first step."""
    try:
        digests = read_json(path)["before"]
        if isinstance(digests, dict) and all(isinstance(digest, str) for digest in digests.values()):
            return digests
        reason = "it does not say what the model was before the first step"
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
    raise CheckpointError(
        f"{path} is missing or damaged ({reason})",
        "resume the run, which makes it again if it can; or put it back from a copy",
    )


def start_digest(path: Path) -> str:
    """The digest of what it says of the model before the first step, whatever was added since."""
    return _digest(read_start(path))


def restore_start(path: Path, fresh: nn.Module, expected: str) -> list[str]:
    """See that the audit of a run that is resumed is whole, or make it again; says so if it did.

    `fresh` is the model before the first step. What is made again is what was lost only if it has the digest that the
    checkpoint kept (`expected`; empty in older ones); otherwise the run is refused before any work.
    """
    with contextlib.suppress(CheckpointError):
        before = read_start(path)
        if expected in ("", _digest(before)) and before.keys() == dict(fresh.named_parameters()).keys():
            return []
    if expected != _digest(tensor_digests(fresh)):
        raise CheckpointError(
            f"{path} is missing or damaged, and what it said cannot be made again here",
            "put it back from a copy, or start over in another --out-dir",
        )
    write_start(path, fresh)
    return [f"{path.name} was missing or damaged; made again, with the digest that the checkpoint kept"]


def _digest(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def audit(
    before: dict[str, str], model: nn.Module, frozen_at_start: frozenset[str], always_frozen: frozenset[str]
) -> FreezeAudit:
    """Compare the model with its digests; a frozen tensor that moved is an error, not a footnote."""
    after = tensor_digests(model)
    moved = {name for name in after if after[name] != before[name]}
    if broken := sorted(always_frozen & moved):
        raise FreezeError(f"the frozen tensor {broken[0]} changed during training", "report this: it is a bug of oelm")
    trained = after.keys() - always_frozen
    return FreezeAudit(
        always_frozen=tuple(sorted(always_frozen)),
        later_trained=tuple(sorted(frozen_at_start - always_frozen)),
        trained=tuple(sorted(trained - frozen_at_start)),
        digest_before=_combined(before, always_frozen),
        digest_after=_combined(after, always_frozen),
        unchanged=True if always_frozen else None,
        moved=trained <= moved,
    )


def _combined(digests: dict[str, str], names: frozenset[str]) -> str:
    return hashlib.sha256("".join(digests[name] for name in sorted(names)).encode()).hexdigest()
