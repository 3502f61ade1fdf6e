"""Learning curves as compact data for the page: each list of steps or tokens once, long curves thinned."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from markupsafe import Markup

from oelm.report.arms import Arm

MOST_POINTS = 40_000
"""Of all curves together: what a browser draws without a pause, in well under a megabyte or two."""
Lists = dict[tuple[int, ...], int]
"""Lists that are kept once, each with its place; most runs share their steps."""
LONGEST_CURVE = 400
SHORTEST_CURVE = 50


class Point(Protocol):
    """Where a run stood at a step: a point of a record's curve, or of a run under way."""

    @property
    def step(self) -> int:
        """Updates so far."""

    @property
    def tokens(self) -> int:
        """Trained on so far."""

    @property
    def seconds(self) -> float | None:
        """Since the start."""

    @property
    def loss(self) -> float | None:
        """On the validation set."""

    @property
    def train_loss(self) -> float | None:
        """Over the last steps."""


P = TypeVar("P", bound=Point)


def curve_data(
    arms: Sequence[Arm], controls: Mapping[str, str], colours: Mapping[str, int], margin: float | None
) -> dict[str, Any]:
    """What `curves.js` draws of one experiment. `controls` and `colours` are by label."""
    places = {arm.label: place for place, arm in enumerate(arms)}
    steps: Lists = {}
    tokens: Lists = {}
    runs = [(places[arm.label], record) for arm in arms for record in arm.records if record.curve]
    longest = points_per_curve(len(runs))
    return {
        "arms": [
            {
                "label": arm.label,
                "colour": colours[arm.label],
                "control": places.get(controls.get(arm.label, "")),
                "bytes_per_token": _rounded(arm.records[0].bytes_per_token, 6),
            }
            for arm in arms
        ],
        "runs": [
            run_data(place, record.config.seed, thinned(record.curve, longest), steps, tokens) for place, record in runs
        ],
        "steps": list(steps),
        "tokens": list(tokens),
        "margin": margin,
    }


def points_per_curve(curves: int) -> int:
    """How long a curve may be if there are so many."""
    return max(SHORTEST_CURVE, min(LONGEST_CURVE, MOST_POINTS // max(curves, 1)))


def thinned(curve: Sequence[P], longest: int) -> Sequence[P]:
    """At most `longest` points at even distances, the first and the last among them.

    By place, not by shape: runs of one length keep the same steps, so that they can still be compared step by step.
    """
    if len(curve) <= longest:
        return curve
    return [curve[round(place * (len(curve) - 1) / (longest - 1))] for place in range(longest)]


def run_data(arm: int, seed: int, curve: Sequence[Point], steps: Lists, tokens: Lists) -> dict[str, Any]:
    """One line of the drawing; its steps and tokens are added to the lists if they are new."""
    return {
        "arm": arm,
        "seed": seed,
        "steps": steps.setdefault(tuple(point.step for point in curve), len(steps)),
        "tokens": tokens.setdefault(tuple(point.tokens for point in curve), len(tokens)),
        "seconds": [_rounded(point.seconds, 1) for point in curve],
        "loss": [_rounded(point.loss, 4) for point in curve],
        "train": [_rounded(point.train_loss, 4) for point in curve],
    }


def safe_json(data: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever names it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _rounded(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None
