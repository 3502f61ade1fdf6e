"""Run code after a module is imported by somebody else, so that importing oelm does not import it.

The importer asks for methods, not for the base classes of `importlib.abc`, which bring much along: it would be imported
before Ctrl-C is heard.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader


def after_import(module: str, act: Callable[[], None]) -> None:
    """Call `act` now if the module is already imported, otherwise once, right after its first import."""
    if module in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Watch(module, act))


class _Watch:
    """A meta-path finder for one module: it asks the other finders, and wraps the loader that they return."""

    def __init__(self, module: str, act: Callable[[], None]) -> None:
        self._module, self._act = module, act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (its importer's)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's own spec with a wrapped loader."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._act)  # type: ignore[assignment]  # it has the methods
        return spec


class _Then:
    """A loader that calls `act` after the module has been executed."""

    def __init__(self, loader: "Loader", act: Callable[[], None]) -> None:
        self._loader, self._act = loader, act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader, then act."""
        module.__loader__ = module.__spec__.loader = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        self._act()
