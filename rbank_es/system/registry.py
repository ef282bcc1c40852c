"""Registries of the seams of the project, and the plugins of other packages that add to them.

A registry is the one place where a seam (log engines, policies, executors, importers, projections, …) names its
implementations. Each name leads to a home, `module:attribute`, which is imported on first use. Another package adds
its own by an entry point in the group `rbank_es.plugins` that names a function without arguments; the function calls
`add` of the registries, or `rbank_es.events.codec.register` for an event type.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

from rbank_es.errors import BadInput, BadPlugin, Notice

GROUP = "rbank_es.plugins"
T = TypeVar("T")
_called: set[str] = set()
_searched: set[str] = set()
_left_out: dict[str, str] = {}


def load_plugins() -> None:
    """Call every installed plugin that was not called before in this process. One that fails is named and left out."""
    places = set(sys.path) - _searched
    # Importing importlib.metadata takes 25 ms, and most environments have no plugin: 2 ms are enough to see that.
    if any(_names_group(place) for place in places):
        _call_plugins()
    _searched.update(places)


def _names_group(place: str) -> bool:
    files = Path(place or ".").glob("*.*-info/entry_points.txt")
    return any(GROUP.encode() in file.read_bytes() for file in files)


def _call_plugins() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.value in _called:
            continue
        _called.add(point.value)
        try:
            point.load()()
        # Whatever foreign code raises is its own fault; an exit would end our command without a word.
        except (Exception, SystemExit) as error:
            leave_out(point.name, point.value.partition(":")[0].partition(".")[0], error)


def leave_out(plugin: str, package: str, error: BaseException) -> None:
    """Go on without a plugin that fails: warn with its name and the reason, which later messages name again."""
    refusal = BadPlugin(plugin, f"{type(error).__name__}: {error}", package)
    _left_out[plugin] = str(refusal)
    warnings.warn(Notice(f"{refusal} What follows goes on without it."), stacklevel=2)


def plugin_at_fault(error: BaseException) -> str | None:
    """Return the package of the plugin in whose code an error was raised; None if that is no plugin's."""
    packages, fault = {value.partition(":")[0].partition(".")[0] for value in _called}, None
    trace = error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        # The innermost of both: a plugin may be called by this project, and call it in turn.
        fault = package if package in packages else None if package == __name__.partition(".")[0] else fault
        trace = trace.tb_next
    return fault


def package_of(maker: object) -> str:
    """Return the package that an object, or else its class, is in: people know the package that they installed."""
    return str(getattr(maker, "__module__", None) or type(maker).__module__).partition(".")[0]


def checked_result(value: object, due: type[T], name: str, maker: object) -> T:
    """Return what an implementation of that name returned. Raises `BadPlugin` unless it is of the class that is due."""
    # Here, because a value that is taken as it is fails later, where nothing tells whose it was.
    if not isinstance(value, due):
        raise BadPlugin(name, f"it returned {type(value).__name__}, not {due.__name__}", package_of(maker))
    return value


def checked_results(values: object, due: type[T], name: str, maker: object) -> Sequence[T]:
    """Return the list or tuple that an implementation returned. Raises `BadPlugin` unless each is of the class due."""
    if not isinstance(values, list | tuple):
        returned = f"it returned {type(values).__name__}, not a list of {due.__name__}"
        raise BadPlugin(name, returned, package_of(maker))
    for value in values:
        checked_result(value, due, name, maker)
    return values


class Registry(Generic[T]):
    """The implementations of one seam, by name. `kind` is the seam's noun in messages, such as `executor`."""

    def __init__(self, kind: str, homes: Mapping[str, str]) -> None:
        self.kind = kind
        self._homes: dict[str, str | T] = dict(homes)
        self._packages: dict[str, str] = {}

    def add(self, name: str, home: str | T) -> None:
        """Add an implementation: the object, or its home as `module:attribute`. Raises `BadInput` for a taken name."""
        # Refused, because a package that replaces another's implementation would do so by order of installation.
        if self._homes.setdefault(name, home) is not home:
            raise BadInput(f"there is {self.kind} {name!r} already; choose another name")
        self._packages[name] = (home if isinstance(home, str) else type(home).__module__).partition(".")[0]

    def package_of(self, name: str) -> str | None:
        """Return the package that added an implementation; None for one of this project."""
        return self._packages.get(name)

    def __contains__(self, name: object) -> bool:
        if name not in self._homes:
            load_plugins()
        return name in self._homes

    def names(self) -> tuple[str, ...]:
        """Return the names in the order in which they were added; those of plugins last."""
        load_plugins()
        return tuple(self._homes)

    def check(self, name: str, *others: str) -> None:
        """Raise `BadInput` for an unknown name, listing the known ones. Imports no implementation.

        `others` are names that stand for none of the implementations, and are allowed too.
        """
        if name not in others and name not in self:
            there = f"there is no {self.kind} {name!r}; there are: {', '.join((*self._homes, *others))}"
            raise BadInput("; ".join((there, *_left_out.values())))

    def get(self, name: str) -> T:
        """Return an implementation, imported now. Raises as `check`."""
        home = self._homes.get(name)
        if home is None:
            self.check(name)
            home = self._homes[name]
        if not isinstance(home, str):
            return home
        found: T = self._imported(name, home)
        # Kept, so that later calls skip the import system.
        self._homes[name] = found
        return found

    def _imported(self, name: str, home: str) -> T:
        module, _, attribute = home.partition(":")
        try:
            found: T = getattr(import_module(module), attribute)
        except (AttributeError, ModuleNotFoundError) as error:
            # Another missing module, such as dspy, is an extra that isn't installed: its error must stay what it is.
            if isinstance(error, ModuleNotFoundError) and not f"{module}.".startswith(f"{error.name}."):
                raise
            raise BadPlugin(name, f"{self.kind} {name!r} has its home at {home}, and it is not there") from error
        return found

    def all(self) -> Iterator[tuple[str, T]]:
        """Yield every name with its implementation, those of plugins too."""
        for name in self.names():
            yield name, self.get(name)


def exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose public names are imported on first use.

    `modules` has the names of each, with blanks between them. Modules are named as in a relative import: `.policy` is
    one of the package, `..models.choice` one of another. Type checkers are told of the same names by imports of the
    form `A as A`.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> object:
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).keys() | homes.keys())

    return found, names
