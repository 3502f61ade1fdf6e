"""Settings from YAML. Errors name the file and the line, or the `--set` that they come from."""

import io
import re
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import ValidationError

from oelm.base.errors import ConfigError
from oelm.base.files import read_text, write_text
from oelm.config.settings import Settings, complaint

S = TypeVar("S", bound=Settings)

_MOST_VALUES = 100_000
"""With aliases expanded: a few lines of aliases to aliases can stand for billions of values."""
_DEEPEST = 50
_MOST_BYTES = 10_000_000
_LONGEST = 10_000
_KINDS = frozenset({"str", "int", "float", "bool", "null", "map", "seq", "merge"})
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class YamlFile:
    """A YAML file as a tree of nodes, which know where they stand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise ConfigError(f"there is no file {path}", "give the path of an existing YAML file")
        self._text, self._overrides = read_text(path, most_bytes=_MOST_BYTES), list[str]()
        root = _composed(self._text, str(path))
        if root is None:
            raise ConfigError(f"{path} is empty", "write settings into it, or give another file")
        self._root = root

    @property
    def text(self) -> str:
        """The file as it was written; with overrides what it says then, and which they were, without its comments."""
        if not self._overrides:
            return self._text
        said = "".join(f"# --set {each}\n" for each in self._overrides)
        return said + str(yaml.serialize(self._root, allow_unicode=True))

    def override(self, assignment: str) -> None:
        """Apply a `--set`: `train.steps=200`, `seeds=[0, 1]`, `arms.1.settings.lr=1e-3`."""
        path, equals, text = assignment.partition("=")
        *parents, last = path.split(".")
        if not equals or not all((*parents, last)):
            raise ConfigError(f"--set {assignment} is not KEY=VALUE", "write it like --set train.steps=200")
        name = f"--set {path}"
        value = _composed(text, name) or _null(name)
        node = self._root
        for key in parents:
            child = _child(node, key)
            if child is None or child[1].tag == "tag:yaml.org,2002:null":
                child = _put(node, key, yaml.MappingNode("tag:yaml.org,2002:map", [], _mark(name)), name)
            node = child[1]
        _put(node, last, value, name)
        self._overrides.append(assignment)

    def __contains__(self, key: str) -> bool:
        """Whether the file has this key at its top."""
        return _child(self._root, key) is not None

    def parse(self, kind: type[S]) -> S:
        """The settings in the file."""
        values = _constructed(self._root, str(self.path))
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            raise self._explained(error) from error

    def _explained(self, error: ValidationError) -> ConfigError:
        """The validator's first complaint, with the place in the file that its location leads to.

        Parts of a location that the file does not have are the names of the validator's own alternatives.
        """
        first = error.errors()[0]
        node, mark, path = self._root, self._root.start_mark, list[str]()
        for part in first["loc"]:
            child = _child(node, part)
            if child is not None:
                mark, node = child
                path.append(str(part))
        if first["type"] == "missing":
            path.append(str(first["loc"][-1]))
        where = f"{mark.name}, line {mark.line + 1}" if mark.name == str(self.path) else mark.name
        return ConfigError(f"{where}: {complaint(error, '.'.join(path))}", "correct it and run the same command again")


def read_yaml(kind: type[S], path: Path) -> S:
    """Settings from a YAML file."""
    return YamlFile(path).parse(kind)


def plain_values(text: str, name: str) -> Any:
    """The values of a YAML text that `name` stands for in errors, within the same limits; None if it is empty."""
    root = _composed(text, name)
    return None if root is None else _constructed(root, name)


def write_yaml(settings: Settings, path: Path) -> None:
    """Write settings as YAML, keys in the order of their definition."""
    write_text(path, yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


class _PlainLoader(yaml.SafeLoader):
    """A date is text: nothing here is made of dates."""

    yaml_implicit_resolvers: dict[str, Any] = {  # noqa: RUF012 (as its base has it)
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _composed(text: str, name: str) -> yaml.Node | None:
    stream = io.StringIO(text)
    stream.name = name  # what marks call it
    try:
        node: yaml.Node | None = yaml.compose(stream, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        _refuse_yaml(name, error)
    except RecursionError as error:
        raise ConfigError(f"{name}: values are nested too deeply", "correct it") from error
    if node is not None:
        _count_values(node, {}, 0)
    return node


def _constructed(root: yaml.Node, name: str) -> Any:
    try:
        return _PlainLoader("").construct_document(root)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits
        _refuse_yaml(name, error)


def _count_values(node: yaml.Node, counts: dict[int, int], depth: int) -> int:
    """How many values a node stands for; duplicate keys, endless aliases and deep nesting are refused."""
    if id(node) not in counts:
        counts[id(node)] = _MOST_VALUES + 1  # while it is being counted: a node that contains itself has no end
        if depth > _DEEPEST:
            _refuse(node.start_mark, f"values are nested more than {_DEEPEST} deep")
        _refuse_strange(node)
        children = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node)
            children = [child for pair in node.value for child in pair]
        counts[id(node)] = 1 + sum(_count_values(child, counts, depth + 1) for child in children)
    if counts[id(node)] > _MOST_VALUES:
        _refuse(node.start_mark, f"aliases stand for more than {_MOST_VALUES:,} values")
    return counts[id(node)]


def _refuse_strange(node: yaml.Node) -> None:
    """What no setting is: values of other kinds, text without end, characters that a terminal would obey."""
    if node.tag.removeprefix("tag:yaml.org,2002:") not in _KINDS:
        _refuse(node.start_mark, f"{node.tag} is no kind of value that settings have")
    if isinstance(node, yaml.ScalarNode):
        if len(node.value) > _LONGEST:
            _refuse(node.start_mark, f"a value has {len(node.value):,} characters, at most {_LONGEST:,} do")
        if _STRANGE.search(node.value):
            _refuse(node.start_mark, "a value has control characters")


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (before := lines.get((key.tag, key.value))) is not None:
                _refuse(key.start_mark, f"the key {key.value!r} is there already, in line {before}")
            lines[key.tag, key.value] = key.start_mark.line + 1


def _refuse(mark: yaml.Mark, problem: str) -> NoReturn:
    raise ConfigError(f"{mark.name}, line {mark.line + 1}: {problem}", "correct the file")


def _refuse_yaml(name: str, error: Exception) -> NoReturn:
    raise ConfigError(
        f"{name} is not YAML: {' '.join(str(error).split())}", "correct it; quote what has special characters"
    ) from error


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    """The value under a key or an index, and where its key, or the value itself, stands."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and (place := _place(str(part), node)) is not None:
        return node.value[place].start_mark, node.value[place]
    return None


def _place(key: str, node: yaml.SequenceNode) -> int | None:
    """The place in a list that a key names; None if it names none."""
    return next((place for place in range(len(node.value)) if str(place) == key), None)


def _put(node: yaml.Node, key: str, value: yaml.Node, name: str) -> tuple[yaml.Mark, yaml.Node]:
    """Set a key of a mapping or an item of a list."""
    mark = _mark(name)
    if isinstance(node, yaml.MappingNode):
        others = [pair for pair in node.value if pair[0].value != key]
        node.value = [*others, (yaml.ScalarNode("tag:yaml.org,2002:str", key, mark), value)]
    elif isinstance(node, yaml.SequenceNode):
        if (place := _place(key, node)) is None:
            raise ConfigError(f"{name}: there is no item {key}", f"give 0 to {len(node.value) - 1}")
        node.value[place] = value
    else:
        raise ConfigError(f"{name}: {key} would be a part of {node.value!r}, which has none", "set the whole of it")
    return mark, value


def _null(name: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:null", "", _mark(name))


def _mark(name: str) -> yaml.Mark:
    return yaml.Mark(name, 0, 0, 0, None, 0)
