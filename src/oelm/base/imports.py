"""Acting when somebody else imports a module, so that importing oelm need not import it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def after_import(module: str, act: Callable[[], None]) -> None:
    """Act now if the module is there already, else once, right after whoever imports it first."""
    if module in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Watch(module, act))


class _Watch(MetaPathFinder):
    """Stands first in line for one module, steps aside when it is asked for, and lets its loader act afterwards."""

    def __init__(self, module: str, act: Callable[[], None]) -> None:
        self._module, self._act = module, act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (its importer's)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's own spec, with the act behind its execution."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._act)
        return spec


class _Then(Loader):
    """A loader that acts when the module is complete."""

    def __init__(self, loader: Loader, act: Callable[[], None]) -> None:
        self._loader, self._act = loader, act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader, then act."""
        module.__loader__ = module.__spec__.loader = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        self._act()
