"""The base of all settings: frozen, validated when they are built, with a fingerprint."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import PydanticCustomError

from oelm.base.errors import ConfigError


class Settings(BaseModel):
    """A frozen value: unknown keys and wrong types are refused, and no field can be changed."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null", defer_build=True
    )


class GrownSettings(Settings):
    """Settings that got fields after the first records: `later` fields are written only if they are not the default.

    What was written before there were such fields therefore has the same content, and the same fingerprint, as now.
    """

    later: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_defaults_of_later_fields(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unused = {name for name in self.later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in write(self).items() if name not in unused}


S = TypeVar("S", bound=Settings)


def parse(kind: type[S], values: Any, where: str) -> S:
    """Build settings from plain data; `where` (a file, a flag) stands in the one-line error."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{where}: {complaint(error)}", "correct it and run again") from error


def complaint(error: ValidationError, field: str | None = None) -> str:
    """The validator's first complaint in one line: the field, what is wrong, what was given."""
    first, *others = error.errors()
    if field is None:
        field = ".".join(str(part) for part in first["loc"])
    whole = not first["loc"] or first["type"] in ("missing", "extra_forbidden", "part")
    given = "" if whole else f" (given: {first['input']!r:.60})"
    message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    more = f", and {len(others)} more" if others else ""
    return f"{field}{': ' if field else ''}{message}{given}{more}"


def located_error(place: Sequence[str | int], problem: str) -> ValidationError:
    """An error that a validator of the whole model raises about one part, with the location of that part."""
    wrong = PydanticCustomError("part", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("settings", [{"type": wrong, "loc": tuple(place), "input": None}])


_LONGEST = 2000
_ANSWERS = frozenset({"predictions", "labels"})
"""One class for each example of an evaluation set: as long as the set."""
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def refuse_unshowable(values: Any, where: str, *, texts: frozenset[str] = frozenset()) -> None:
    """Refuse names that would fill a page or break out of a line; under the keys `texts` there may be any text."""
    if isinstance(values, dict):
        for key, value in values.items():
            if not key.isidentifier() or len(key) > _LONGEST:  # the keys of long curves are many, and harmless
                refuse_unshowable(key, where)
            if isinstance(value, int | float):
                continue
            if key not in texts and not (key in _ANSWERS and isinstance(value, str)):
                refuse_unshowable(value, f"{where}: {key}" if isinstance(value, str) else where, texts=texts)
    elif isinstance(values, list):
        for value in values:
            if not isinstance(value, int | float):
                refuse_unshowable(value, where, texts=texts)
    elif isinstance(values, str):
        if len(values) > _LONGEST:
            raise ConfigError(f"{where}: {len(values):,} characters where at most {_LONGEST:,} make sense", _AS_WRITTEN)
        if _UNSHOWABLE.search(values):
            raise ConfigError(f"{where}: a line break or another control character in {values[:60]!r}", _AS_WRITTEN)


_AS_WRITTEN = "put the file back as oelm wrote it"


def fingerprint(values: Any) -> str:
    """A short digest of plain data, independent of the order of keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def unplaced(value: Any) -> Any:
    """Plain data in which only the last part is left of an absolute path, which names a machine or a person.

    With dots before it: a folder `gpt2` somewhere is not the `gpt2` of the Hub.
    """
    if isinstance(value, dict):
        return {key: unplaced(part) for key, part in value.items()}
    if isinstance(value, str) and PurePath(value).is_absolute():
        return f".../{PurePath(value).name}"
    return [unplaced(part) for part in value] if isinstance(value, list | tuple) else value


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested plain data with dotted keys: `{"train": {"steps": 5}}` becomes `{"train.steps": 5}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
