"""Registries of what can be added to the project, and the plugins of other packages that add to them.

A registry is the one place where a seam (log engines, executors, importers, …) names its implementations. Each name
leads to a home, `module:attribute`, that is imported on first use. A package of somebody else's adds its own by an
entry point in the group `rbank_es.plugins` that names a function without arguments: it calls `add` of the registries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from rbank_es.errors import BadInput, BadPlugin

GROUP = "rbank_es.plugins"
T = TypeVar("T")
_loaded: set[str] = set()


def load_plugins() -> None:
    """Call every plugin that is installed, each once in a process. Raises `BadPlugin` for one that fails."""
    from importlib.metadata import entry_points  # slow to load, and most commands need no plugin

    for point in entry_points(group=GROUP):
        if point.value in _loaded:
            continue
        _loaded.add(point.value)
        try:
            point.load()()
        except Exception as error:  # whatever a stranger's code raises is its own fault, and must name it
            raise BadPlugin(point.name, f"{type(error).__name__}: {error}") from error


class Registry(Generic[T]):
    """The implementations of one seam, by name. `kind` is the seam's noun, as messages say it: `executor`."""

    def __init__(self, kind: str, homes: Mapping[str, str]) -> None:
        self.kind = kind
        self._homes: dict[str, str | T] = dict(homes)

    def add(self, name: str, home: str | T) -> None:
        """Add an implementation: the object, or its home as `module:attribute`. Raises `BadInput` for a taken name."""
        if self._homes.setdefault(name, home) is not home:
            raise BadInput(f"there is {self.kind} {name!r} already; choose another name")

    def names(self) -> tuple[str, ...]:
        """Return the names in the order in which they were added; those of plugins last."""
        load_plugins()
        return tuple(self._homes)

    def check(self, name: str) -> None:
        """Raise `BadInput` for an unknown name, listing the known ones. Imports no implementation."""
        if name not in self._homes:
            load_plugins()
        if name not in self._homes:
            raise BadInput(f"no {self.kind} {name!r}; there are: {', '.join(self._homes)}")

    def get(self, name: str) -> T:
        """Return an implementation, imported now. Raises as `check`."""
        self.check(name)
        home = self._homes[name]
        if not isinstance(home, str):
            return home
        module, _, attribute = home.partition(":")
        found: T = getattr(import_module(module), attribute)
        self._homes[name] = found
        return found

    def all(self) -> Iterator[tuple[str, T]]:
        """Yield every name with its implementation, those of plugins too."""
        for name in self.names():
            yield name, self.get(name)


def exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose public names are imported on first use, by their homes."""

    def found(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).keys() | homes.keys())

    return found, names
