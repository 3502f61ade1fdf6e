"""What all settings have in common: frozen, complete, refused at birth when wrong, with a fingerprint."""

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from oelm.base.errors import ConfigError
from oelm.base.files import write_text


class Settings(BaseModel):
    """A frozen value: unknown keys and wrong types are refused, and no field changes after birth."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null", defer_build=True
    )


class GrownSettings(Settings):
    """Settings that got fields after the first records: `later` ones are written only where they say something.

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
        raise ConfigError(f"{where}: {describe(error)}", "correct it and run again") from error


def describe(error: ValidationError) -> str:
    """The first complaint of pydantic in one line: the field, what was given, what is wanted."""
    first, *others = error.errors()
    field = "".join(f"{part}." for part in first["loc"])[:-1]
    whole = not first["loc"] or first["type"] in ("missing", "extra_forbidden")
    given = "" if whole else f" (given: {first['input']!r:.60})"
    message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    more = f", and {len(others)} more" if others else ""
    return f"{field}{': ' if field else ''}{message}{given}{more}"


def fingerprint(values: Any) -> str:
    """A short digest of plain data, independent of the order of keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def read_yaml(kind: type[S], path: Path) -> S:
    """Read settings from a YAML file."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}", "give the path of an existing YAML file")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}", "correct the file") from error
    return parse(kind, values, where=str(path))


def write_yaml(settings: Settings, path: Path) -> None:
    """Write settings as YAML, keys in the order of their definition."""
    write_text(path, yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True))
