"""Our results beside those that another study reported for the same method on data of the same name."""

from collections.abc import Sequence
from dataclasses import dataclass

from oelm.report.accuracy import AccuracyFinding
from oelm.report.comparison import Finding
from oelm.report.differences import differing_settings, setting_name, setting_value
from oelm.report.groups import Group
from oelm.report.sides import is_same_method

_NOT_COMPARABLE = ("data.", "model.", "method.")
"""Digests that another study did not publish; the size, which has a name; and the method, which is equal."""


@dataclass(frozen=True)
class BesideRow:
    """One arm of ours and one of theirs."""

    ours: Finding | AccuracyFinding
    theirs: Finding | AccuracyFinding
    id: str
    """Their name for the run."""
    differs: tuple[tuple[str, str, str], ...]
    """Settings that differ: name, ours, theirs."""


def beside_rows(groups: Sequence[Group]) -> tuple[BesideRow, ...]:
    """Every pair of a measured and a reported arm with one method on data of one name."""
    ours = [(group, found) for group in groups if group.source == "measured" for found in group.findings]
    theirs = [(group, found) for group in groups if group.source == "reported" for found in group.findings]
    return tuple(
        _row(my_group, mine, their_group, other)
        for my_group, mine in ours
        for their_group, other in theirs
        if my_group.task == their_group.task
        and _plain(my_group.data) == _plain(their_group.data)
        and is_same_method(mine.arm.method, other.arm.method)
    )


def _row(
    my_group: Group, ours: Finding | AccuracyFinding, their_group: Group, theirs: Finding | AccuracyFinding
) -> BesideRow:
    one, other = ours.arm.config, theirs.arm.config
    reported = theirs.arm.records[0].reported
    ignored = (*_NOT_COMPARABLE, *(reported.unstated if reported else ()))
    paths = [path for path in differing_settings(one, other) if not path.startswith(ignored)]
    model = [("model", my_group.size, their_group.size)] if my_group.size != their_group.size else []
    settings = [(setting_name(path), setting_value(one, path), setting_value(other, path)) for path in paths]
    return BesideRow(ours, theirs, reported.id if reported else theirs.arm.label, (*model, *settings))


def _plain(name: str) -> str:
    """`TinyStories` and `tinystories` are one, as are `SST-2` and `sst2`."""
    return "".join(character for character in name.lower() if character.isalnum())
