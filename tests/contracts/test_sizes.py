"""A function of the report fits on a screen."""

import ast
from collections.abc import Iterator

from .source import Sources, room, sources

MOST_LINES = 40


def long_functions(modules: Sources) -> Iterator[str]:
    for module, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MOST_LINES:
                yield f"{module}.{node.name}"


def test_no_function_of_the_report_is_long() -> None:
    assert list(long_functions({name: text for name, text in sources().items() if room(name) == "report"})) == []


def test_a_long_function_is_found() -> None:
    assert list(long_functions({"a": "def f():\n" + "    x = 1\n" * MOST_LINES})) == ["a.f"]
    assert list(long_functions({"a": "def f():\n" + "    x = 1\n" * (MOST_LINES - 1)})) == []
