"""Which colour an arm has on the page: the control's is grey, the others take turns."""

from collections.abc import Sequence

from oelm.report.arms import Arm
from oelm.report.sides import is_reference

COLOURS = 12
"""In `style.css`; the first is the control's."""


def colours_of(arms: Sequence[Arm]) -> dict[str, int]:
    """By label, in the order of the arms."""
    others = [arm.label for arm in arms if not is_reference(arm)]
    coloured = {label: 1 + place % (COLOURS - 1) for place, label in enumerate(others)}
    return {arm.label: coloured.get(arm.label, 0) for arm in arms}
