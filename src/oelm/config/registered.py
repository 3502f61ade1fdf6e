"""A study's registered plan: what will be judged, written once before the first run, and its amendments."""

import hashlib
from typing import Any, Literal

from oelm.config.run import RunConfig
from oelm.config.settings import Settings, flattened

PLAN_FILE = "plan.json"
AMENDMENTS = "amendment-*.json"
"""Beside the plan, numbered from 1."""

_NOT_JUDGED = frozenset({"format", "title", "question", "git_commit", "git_dirty", "registered_at", "runs_before"})


class RegisteredArm(Settings):
    """One cell of the study: a method on one of the data sets at one point of the axes."""

    method: str
    control: str
    """The method that it is to be compared with."""
    settings: dict[str, Any]
    """All that decides its numbers (size, steps, data digest, ...) but the seed and a learning rate that is tuned."""


class RegisteredPlan(Settings):
    """`plan.json`, and each `amendment-N.json`, which holds the whole plan as it is from then on."""

    format: Literal[1] = 1
    study: str
    title: str
    question: str | None
    kind: str
    primary: str
    """The name of the arm whose comparison with its control is the question."""
    margin: float
    seeds: tuple[int, ...]
    tuning: dict[str, Any] | None
    """The grid and the rule by which learning rates are chosen; None where they are set by hand."""
    evaluate: dict[str, Any] | None = None
    """What every finished model is asked; None where nothing is, and in plans from before it could be."""
    arms: dict[str, RegisteredArm]
    data: dict[str, str]
    """The digest of each data set by its name."""
    git_commit: str | None
    git_dirty: bool | None
    registered_at: str
    """UTC."""
    runs_before: int
    """Runs that had ended or been validated already: 0 in a plan that was registered before the runs."""
    looks: int = 1
    """How many analyses there may be, each with more seeds than the last: every one is tested at 5 % / looks."""
    amends: str | None = None
    """The digest of the file that this one amends; None for the plan itself."""

    def judged(self) -> dict[str, Any]:
        """What a later start of the study must agree with, as plain data."""
        return self.model_dump(mode="json", exclude={*_NOT_JUDGED, "amends"})

    @property
    def primary_arms(self) -> tuple[str, ...]:
        """The primary arm on each data set at each point of the axes: cells are called `[data-]arm[-setting=value]`."""
        rests = {cell: rest for cell in self.arms if (rest := self._beside_primary(cell)) is not None}
        # Where there are no axes, `-setting=value` is a part of another arm's name.
        return tuple(cell for cell, rest in rests.items() if not rest) or tuple(rests)

    def _beside_primary(self, cell: str) -> str | None:
        """What a cell is called beyond its data set and the primary arm; None where it is that of another arm."""
        wanted = self.primary.replace("/", "_").replace(" ", "")
        names = {cell, *(cell.removeprefix(f"{data}-") for data in self.data)}
        rests = [each.removeprefix(wanted) for each in names if each.startswith(wanted)]
        return next((rest for rest in rests if not rest or (rest[0] == "-" and "=" in rest.split("-")[1])), None)

    @property
    def primary_method(self) -> str | None:
        """The method of the primary arm."""
        return next((self.arms[cell].method for cell in self.primary_arms), None)

    @property
    def runs(self) -> tuple[tuple[str, int], ...]:
        """The final runs: every arm with every seed."""
        return tuple((arm, seed) for seed in self.seeds for arm in self.arms)


def settings_to_plan(config: RunConfig, *, is_tuned: bool) -> dict[str, Any]:
    """All that decides a run's numbers but the seed; a tuned rate, and what follows from it, are not known yet."""
    settings = config.numbers()
    del settings["seed"]
    if is_tuned:  # the share of the rate at which the cosine ends follows from the rate
        settings["optim"] = {
            name: value for name, value in settings["optim"].items() if name not in ("lr", "min_lr_ratio")
        }
    return settings


def file_digest(content: bytes) -> str:
    """How records refer to a plan: the SHA-256 of its file, as `sha256sum` prints it."""
    return hashlib.sha256(content).hexdigest()


def plan_differences(registered: RegisteredPlan, now: RegisteredPlan) -> tuple[str, ...]:
    """What differs between two plans, in words, the plainest first; empty where the same is judged."""
    old, new = registered.judged(), now.judged()
    ours, theirs = new.pop("arms"), old.pop("arms")
    found = [
        f"{name} is {_written(old[name])} there and {_written(new[name])} here"
        for name in old
        if old[name] != new[name]
    ]
    found += [f"there is no arm {name} there" for name in ours if name not in theirs]
    found += [f"there is no arm {name} here" for name in theirs if name not in ours]
    return (*found, *_setting_differences(theirs, ours))


def _setting_differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Between the arms that both plans have; a difference common to all of them is listed once."""
    common, found = [name for name in theirs if name in ours], dict[str, list[str]]()
    for name in common:
        one, other = flattened(theirs[name]), flattened(ours[name])
        for path in sorted(one.keys() | other.keys()):
            if one.get(path) != other.get(path):
                said = f"{path.removeprefix('settings.')} is {one.get(path)} there and {other.get(path)} here"
                found.setdefault(said, []).append(name)
    return [said if arms == common else f"{said} (arm {', '.join(arms)})" for said, arms in found.items()]


def _written(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
