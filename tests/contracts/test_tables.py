"""Dispatch is by enum and a total table: a new member that a table forgets is found without running it."""

import ast
from collections.abc import Iterator
from functools import cache

from .source import Sources, sources

# An architecture has the kinds of attention that it has: its rows are data, not dispatch.
PARTIAL = {"Attention"}


@cache
def parsed(text: str) -> ast.Module:
    """Each module is parsed once."""
    return ast.parse(text)


def enums(modules: Sources) -> dict[str, set[str]]:
    """The members of every enum of the package."""
    found = {}
    for text in modules.values():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
                assigned = [target for item in node.body if isinstance(item, ast.Assign) for target in item.targets]
                found[node.name] = {target.id for target in assigned if isinstance(target, ast.Name)}
    return found


def tables(modules: Sources) -> Iterator[tuple[str, str, set[str]]]:
    """Every module-level dict whose keys are all members of one enum: where it stands, the enum, the members."""
    known = {name: members for name, members in enums(modules).items() if name not in PARTIAL}
    for module, text in modules.items():
        statements = [item for item in parsed(text).body if isinstance(item, ast.Assign | ast.AnnAssign)]
        for node in (node for statement in statements for node in ast.walk(statement)):
            if not isinstance(node, ast.Dict) or not node.keys:
                continue
            keys = [key for key in node.keys if isinstance(key, ast.Attribute) and isinstance(key.value, ast.Name)]
            owners = {key.value.id for key in keys if isinstance(key.value, ast.Name)}
            if len(keys) == len(node.keys) and len(owners) == 1 and (owner := owners.pop()) in known:
                yield f"{module}:{node.lineno}", owner, {key.attr for key in keys}


def incomplete(modules: Sources) -> list[str]:
    known = enums(modules)
    return [
        f"{place} lacks {', '.join(sorted(known[owner] - members))} of {owner}"
        for place, owner, members in tables(modules)
        if members != known[owner]
    ]


def test_every_table_over_an_enum_is_total() -> None:
    assert incomplete(sources()) == []


def test_the_tables_are_found() -> None:
    assert "Projection" in {owner for _, owner, _ in tables(sources())}
    assert {"NORMAL", "XAVIER"} < enums(sources())["Projection"]


def test_a_forgotten_member_is_found() -> None:
    module = "oelm.config.method"
    planted = sources()[module].replace('    XAVIER = "xavier"\n', '    XAVIER = "xavier"\n    NEW = "new"\n')
    assert planted != sources()[module]
    found = incomplete({**sources(), module: planted})
    assert any("projections" in line and "lacks NEW of Projection" in line for line in found)
