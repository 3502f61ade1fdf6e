"""The package's source as text by module name, so that a test can plant a violation beside the real modules."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "oelm"

Sources = Mapping[str, str]


@cache
def sources() -> Sources:
    """`oelm.base.files` -> its text."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {module_name(path): path.read_text(encoding="utf-8") for path in paths}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room(module: str) -> str:
    """`oelm.base.files` -> `base`; the package itself has no room."""
    return module.split(".")[1] if "." in module else ""


def imported(text: str) -> Iterator[str]:
    """The full names of everything imported anywhere in a module, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
