"""The facts of a memory that is kept in tables: read by key where they are asked for, with what an event replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rbank_es.events import Event

Key = TypeVar("Key")
Value = TypeVar("Value")


class Facts(dict[Key, Value]):
    """Facts by key: those in memory, else those that `find` reads. `before` has the values that an event replaced.

    A dict, because facts in memory are looked up most often, and then no code of this class runs.
    """

    def __init__(self, find: Callable[[Key], Value | None] | None, stored: Callable[[], bool] | None = None) -> None:
        """Look up with `find`; without it there is nothing but what is set. `stored` says whether rows exist."""
        super().__init__()
        self._find, self._stored = find, stored
        self.before: dict[Key, Value | None] = {}

    def __missing__(self, key: Key) -> Value:
        found = None if self._find is None else self._find(key)
        if found is None:
            raise KeyError(key)
        super().__setitem__(key, found)
        return found

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if self._find is None or super().__contains__(key):
            return super().get(key, default)
        found = self._find(key)
        if found is None:
            return default
        super().__setitem__(key, found)
        return found

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self.get(key) is not None  # type: ignore[arg-type]  # no such key, no value

    def __setitem__(self, key: Key, value: Value) -> None:
        if key not in self.before:
            self.before[key] = self.get(key)
        super().__setitem__(key, value)

    def keep(self, key: Key, value: Value) -> None:
        """Keep a value that the tables have already, unless there is a newer one."""
        self.setdefault(key, value)

    def shorten(self, key: Key, value: Value) -> None:
        """Keep less of a value, now that its rows have the rest."""
        super().__setitem__(key, value)

    def drain(self) -> Iterator[tuple[Key, Value | None, Value]]:
        """Yield the keys whose values changed, each with both values; from then on nothing has changed."""
        before, self.before = self.before, {}
        for key, old in before.items():
            new = self[key]
            if new != old:
                yield key, old, new

    def __bool__(self) -> bool:
        return len(self) > 0 or (self._stored is not None and self._stored())


class PreparedParts(Facts[str, tuple[Event, ...]]):
    """The parts of corrections that aren't completed; none is an empty tuple, which has no rows."""

    def pop(self, key: str, default: Any = None) -> Any:
        """Return the parts of a correction, which then has none."""
        found = self.get(key, default)
        if found:
            self[key] = ()
        return found
