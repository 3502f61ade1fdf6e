"""Items with exact answers, from JSON lines (plain or compressed). The keys of a line say which form it has:

    {"good": ..., "bad": ...}                        a minimal pair (BLiMP); also "sentence_good", "sentence_bad"
    {"query": ..., "choices": [...], "gold": 0}      one of several endings
    {"context_options": [...], "continuation": ..., "gold": 0}      one ending after several beginnings (Winograd)
    {"context": ..., "continuation": ...}, or {"text": ...}         the last word (of `text`: behind its last space)

A pair or choice is a list of readings, each a context and the ending that is scored after it. Between the two stands
one space, unless the context ends with white space or the ending begins with it. `uid`, `field`, `term`, `group` and
`category`, where a line has them, are what figures are given by.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from oelm.base.errors import DataError, UnreadableError
from oelm.base.files import parsed_json
from oelm.data.textfiles import file_lines

_GROUPS = ("field", "term", "uid", "group", "category")
_SEVERAL = 2


class Reading(NamedTuple):
    """A text of which only the ending is scored."""

    context: str
    ending: str


@dataclass(frozen=True)
class Item:
    """Readings, and which of them is right; an item with one reading asks for its last word."""

    readings: tuple[Reading, ...]
    gold: int
    groups: Mapping[str, str]


def read_items(path: Path) -> list[Item]:
    """All items of a file; those of one file are either choices or last words."""
    if not path.is_file():
        raise DataError(f"there is no file {path}", "give a file of JSON lines")
    lines = enumerate(file_lines(path), start=1)
    items = [_item(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    if not items:
        raise DataError(f"{path} has no items", "give a file of JSON lines, one item each")
    if len({len(item.readings) == 1 for item in items}) > 1:
        raise DataError(f"{path} holds both choices and last words", "put them into two files")
    return items


def _item(line: str, where: str) -> Item:
    try:
        values = parsed_json(line, where)
    except UnreadableError as error:
        raise DataError(error.problem, "correct the line or remove it") from error
    keys = values.keys() if isinstance(values, dict) else set()
    read = next((read for form, read in _FORMS.items() if set(form) <= keys), None)
    if read is None:
        forms = "; ".join(", ".join(form) for form in _FORMS)
        raise DataError(f"{where} has none of the known forms", f"give the keys of one of: {forms}")
    try:
        readings, gold = read(values), values.get("gold", 0)
    except (TypeError, AttributeError):  # a number or a list where text should be
        readings, gold = [Reading(None, None)], 0  # type: ignore[arg-type]
    if not all(isinstance(part, str) for reading in readings for part in reading):
        raise DataError(f"{where}: contexts and endings are text", "correct the line or remove it")
    if not all(reading.ending.strip() for reading in readings) or (len(readings) < _SEVERAL and "choices" in keys):
        raise DataError(f"{where} has an empty ending, or only one choice", "correct the line or remove it")
    if not isinstance(gold, int) or not 0 <= gold < len(readings):
        raise DataError(f"{where}: gold is {gold!r}, of {len(readings)} choices", "count the choices from 0")
    return Item(tuple(readings), gold, {name: str(values[name]) for name in _GROUPS if name in keys})


def _joined(context: str, ending: str) -> Reading:
    """With one space between; white space at the end of the context goes to the ending, as the tokens have it."""
    bare = context.rstrip()
    between = context[len(bare) :] or ("" if ending[:1].isspace() else " ")
    return Reading(bare, between + ending) if bare else Reading("", ending)


def _last_word(text: str) -> Reading:
    context, _, word = text.rstrip().rpartition(" ")
    return _joined(context, word)


_FORMS: dict[tuple[str, ...], Callable[[dict[str, Any]], list[Reading]]] = {
    ("good", "bad"): lambda line: [Reading("", line["good"]), Reading("", line["bad"])],
    ("sentence_good", "sentence_bad"): lambda line: [
        Reading("", line["sentence_good"]),
        Reading("", line["sentence_bad"]),
    ],
    ("query", "choices", "gold"): lambda line: [_joined(line["query"], choice) for choice in line["choices"]],
    ("context_options", "continuation", "gold"): lambda line: [
        _joined(context, line["continuation"]) for context in line["context_options"]
    ],
    ("context", "continuation"): lambda line: [_joined(line["context"], line["continuation"])],
    ("text",): lambda line: [_last_word(line["text"])],
}
