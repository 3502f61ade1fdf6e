"""Reading a study file: `--set a.b=c` overrides, and errors that name the file, the line and the fix."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from oelm.base.errors import ConfigError
from oelm.config.settings import describe
from oelm.experiments.study import Study


class StudyFile:
    """The text of a study with the line of every key, so that a complaint can point at it."""

    def __init__(self, path: Path, overrides: Sequence[str] = ()) -> None:
        self.path = path
        self._tree = _compose(path)
        self._overridden: set[tuple[str, ...]] = set()
        self.study = self._parse(overrides)

    def complaint(self, place: Sequence[str | int], problem: str) -> ConfigError:
        """An error about the value at `place`, such as ("train", "steps")."""
        return ConfigError(f"{self._where(place)}: {problem}", "correct it and run the same command again")

    def _parse(self, overrides: Sequence[str]) -> Study:
        values: Any = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ConfigError(f"{self.path} is not a study", "begin with `title:`, `data:`, `train:` and `arms:`")
        for override in overrides:
            self._override(values, override)
        try:
            return Study.model_validate(values)
        except ValidationError as error:
            raise self._explain(error) from error

    def _explain(self, error: ValidationError) -> ConfigError:
        place: list[str | int] = list(error.errors()[0]["loc"])
        message = describe(error)
        if not place:  # our own checks of the whole begin with the place: "train.steps: ..."
            head = message.partition(":")[0]
            place = [int(part) if part.isdigit() else part for part in head.split(".")] if " " not in head else []
        return self.complaint(place, message)

    def _override(self, values: dict[str, Any], override: str) -> None:
        path, equals, text = override.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise ConfigError(f"--set {override} is not KEY=VALUE", "write it like --set train.steps=200")
        place: Any = values
        for key in keys[:-1]:
            place = self._inside(place, key, override)
        last: Any = _index(place, keys[-1], override) if isinstance(place, list) else keys[-1]
        if isinstance(place, list | dict):
            place[last] = _value(text, override)
        else:
            raise ConfigError(f"--set {override}: {'.'.join(keys[:-1])} has no parts", "set the whole of it")
        self._overridden.add(tuple(keys))

    def _inside(self, place: Any, key: str, override: str) -> Any:
        if isinstance(place, list):
            return place[_index(place, key, override)]
        if not isinstance(place, dict):
            raise ConfigError(f"--set {override}: {key} is not a part of anything", "check the path before the `=`")
        if place.get(key) is None:
            place[key] = {}
        return place[key]

    def _where(self, place: Sequence[str | int]) -> str:
        """`file, line 7`: of the value if it is in the file, else of what is around it."""
        keys = tuple(str(part) for part in place)
        if any(keys[: len(path)] == path for path in self._overridden):
            return f"--set {'.'.join(keys)}"
        node, line = self._tree, self._tree.start_mark.line
        for part in place:
            found = _child(node, part)
            if found is None:
                break
            node, line = found
        return f"{self.path}, line {line + 1}"


def _compose(path: Path) -> yaml.Node:
    if not path.is_file():
        raise ConfigError(f"there is no study {path}", "give the path of a file such as experiments/cpu/quick.yaml")
    try:
        tree: yaml.Node | None = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}", "correct the file") from error
    if tree is None:
        raise ConfigError(f"{path} is empty", "begin with `title:`, `data:`, `train:` and `arms:`")
    return tree


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, int] | None:
    """The value under a key or index, and the line of the key."""
    if isinstance(node, yaml.MappingNode):
        return next(((value, key.start_mark.line) for key, value in node.value if key.value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and str(part).isdigit() and int(part) < len(node.value):
        item = node.value[int(part)]
        return item, item.start_mark.line
    return None


def _index(items: list[Any], key: str, override: str) -> int:
    if not key.isdigit() or int(key) >= len(items):
        raise ConfigError(f"--set {override}: there is no item {key}", f"give 0 to {len(items) - 1}")
    return int(key)


def _value(text: str, override: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not YAML", "quote it, or write [a, b] for a list") from error
