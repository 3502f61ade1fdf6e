"""Every module and everything public says what it is."""

import ast
from collections.abc import Iterator

from .source import Sources, sources


def undocumented(modules: Sources) -> Iterator[str]:
    for module, text in modules.items():
        tree = ast.parse(text)
        if not ast.get_docstring(tree):
            yield module
        yield from (f"{module}.{name}" for name in _undocumented(tree.body))


def _undocumented(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from _undocumented(node.body, f"{prefix}{node.name}.")


def test_everything_public_has_a_docstring() -> None:
    assert list(undocumented(sources())) == []


def test_a_missing_docstring_is_found() -> None:
    planted = {"a": "class A:\n    'x'\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\ndef _i(): ..."}
    assert list(undocumented(planted)) == ["a", "a.A.f", "a.h"]
