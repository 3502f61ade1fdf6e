"""A function's body fits on a screen. Its signature does not count: the parameters of a verb are its options."""

import ast
from collections.abc import Iterator

from .source import Sources, sources

MOST_LINES = 40


def long_functions(modules: Sources) -> Iterator[str]:
    for module, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.body[0].lineno >= MOST_LINES:
                yield f"{module}.{node.name}"


def test_no_function_is_long() -> None:
    assert list(long_functions(sources())) == []


def test_a_long_function_is_found() -> None:
    assert list(long_functions({"a": "def f():\n" + "    x = 1\n" * (MOST_LINES + 1)})) == ["a.f"]
    assert list(long_functions({"a": "def f(\n    x,\n):\n" + "    x = 1\n" * MOST_LINES})) == []
