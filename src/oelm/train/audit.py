"""The freeze audit: digests of every tensor before the first and after the last step."""

import hashlib
from pathlib import Path

from torch import nn

from oelm.base.errors import FreezeError
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
    digests: dict[str, str] = read_json(path)["before"]
    return digests


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
        unchanged=not broken,
        moved=trained <= moved,
    )


def _combined(digests: dict[str, str], names: frozenset[str]) -> str:
    return hashlib.sha256("".join(digests[name] for name in sorted(names)).encode()).hexdigest()
