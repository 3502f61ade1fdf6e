"""Rooms import only downwards, and rooms on one level do not see each other."""

import pytest

import oelm

from .source import Sources, imported, room, sources

LEVELS = {
    "base": 0,
    "config": 1,
    "method": 2,
    "data": 2,
    "model": 3,
    "surgery": 3,
    "tasks": 4,
    "exports": 4,
    "train": 5,
    "evaluate": 5,
    "experiments": 6,
    "report": 6,
    "bench": 6,
    "cli": 7,
}
OUTSIDE = {"", "__main__"}  # the package's front door and `python -m oelm`


def may_see(here: str, there: str) -> bool:
    return here == there or LEVELS[there] < LEVELS[here]


def wrong_imports(modules: Sources) -> list[str]:
    """What a room must not import: a room above or beside it, and the package's own front door."""
    wrong = []
    for module, text in modules.items():
        if room(module) in OUTSIDE:
            continue
        for name in imported(text):
            if name.split(".")[0] != "oelm" or name == "oelm.__version__":
                continue
            if room(name) not in LEVELS or not may_see(room(module), room(name)):
                wrong.append(f"{module} imports {name}")
    return wrong


def test_imports_point_down() -> None:
    assert wrong_imports(sources()) == []


def test_every_room_has_a_level() -> None:
    assert {room(module) for module in sources()} - OUTSIDE <= LEVELS.keys()


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("oelm.base.files", "import oelm.config.run"),
        ("oelm.method.cost", "from oelm.model.gpt import GPT"),
        ("oelm.method.cost", "from oelm.data import batches"),
        ("oelm.train.loop", "def f():\n    from oelm.evaluate.generation import generate"),
        ("oelm.report.groups", "from oelm import experiments"),
        ("oelm.report.groups", "from oelm import GPT"),
        ("oelm.report.groups", "import oelm"),
        ("oelm.config.run", "if TYPE_CHECKING:\n    import oelm.cli.main"),
    ],
)
def test_a_planted_violation_is_found(module: str, line: str) -> None:
    planted = {module: f"{sources()[module]}\n{line}\n"}
    assert [found.split(" ")[0] for found in wrong_imports(planted)] == [module]


def test_only_surgery_knows_other_peoples_models() -> None:
    knowing = [
        module for module, text in sources().items() if any(n.startswith("transformers") for n in imported(text))
    ]
    assert {room(module) for module in knowing} <= {"surgery", "exports"}


@pytest.mark.parametrize("name", [name for name in oelm.__all__ if not name.startswith("_")])
def test_every_public_name_is_where_it_is_said_to_be(name: str) -> None:
    assert getattr(oelm, name) is not None


def recurring_names(modules: Sources) -> set[str]:
    """File names that two rooms have; a verb may be called like what it calls."""
    seen: dict[str, set[str]] = {}
    for module in modules:
        parts = module.split(".")
        if len(parts) == 3 and parts[1] != "cli":
            seen.setdefault(parts[2], set()).add(parts[1])
    return {name for name, rooms in seen.items() if len(rooms) > 1}


def test_no_two_rooms_have_a_file_of_one_name() -> None:
    assert recurring_names(sources()) == set()


def test_a_recurring_name_is_found() -> None:
    assert recurring_names({**sources(), "oelm.train.method": ""}) == {"method"}
