"""Mappings of a state whose values are looked up where they are kept, one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from rbank_es.law.bank_state import ItemState, ItemStatus, State

Key = TypeVar("Key")
Value = TypeVar("Value")


class StateSource(Protocol):
    """Where the facts of a state are kept."""

    def look_up(self, name: str, find: Callable[[Any], Value | None], key: Any) -> Value | None:
        """Return the value of a key of the mapping with a name, None if there is none."""
        ...

    def whole(self) -> State:
        """Return the whole state, in memory."""
        ...


class LookedUp(Mapping[Key, Value]):
    """One mapping of a state by key. To iterate it reads the whole state."""

    def __init__(self, source: StateSource, name: str, find: Callable[[Any], Value | None]) -> None:
        """`find` returns the value of a key, None where there is none."""
        self._source, self._name, self._find = source, name, find
        self._known: dict[Any, Value | None] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if key not in self._known:
            self._known[key] = self._source.look_up(self._name, self._find, key)
        found = self._known[key]
        return default if found is None else found

    def __getitem__(self, key: Key) -> Value:
        found: Value | None = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[Key]:
        return iter(getattr(self._source.whole(), self._name))

    def __len__(self) -> int:
        return len(getattr(self._source.whole(), self._name))


class LookedUpItems(LookedUp[str, ItemState]):
    """The items of a state, of which some facts are known without reading all. A subclass says how."""

    @property
    @abstractmethod
    def active(self) -> int:
        """The number of active items that agents are given."""

    @property
    @abstractmethod
    def ids(self) -> Collection[str]:
        """The ids of all items, in no order, read when they are iterated."""

    @abstractmethod
    def ids_in(self, state: ItemStatus) -> list[str]:
        """Return the ids of the items in a state."""
