# ruff: noqa: D102  the methods without a docstring are documented in `EventLog` and `LogEngine`
"""The `memory:` engine: logs in the memory of this process, lost when it ends. The quickest way to try something.

`memory:NAME` can be opened again in the same process. Every `memory:` that is created is a new log, and belongs to the
object that `create` returned. The lines are the same as the file engine's, byte for byte, so checksums, heads and
erasure work alike.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event as Signal
from typing import Any

from rbank_es.errors import BadBankName, BankExists, BankNotFound, LogBusy
from rbank_es.log import ancestry
from rbank_es.log.groups import Clock, Entropy, system_clock
from rbank_es.log.memory.memory_store import MemoryStore
from rbank_es.log.protocol import Ancestor, Appended, EventLog, Lease, LogEngine, Relative, Storage
from rbank_es.log.rows.line_rows import Access, ComposedRows, End, Rows
from rbank_es.log.rows.row_engine import RowEngine
from rbank_es.log.rows.row_log import RowLog

LOST = "lost when this process ends"
_STOP_CHECK_S = 0.05
"""Seconds between two checks of `stop` in `wait`: short for people, and 20 wake-ups a second cost nothing."""

_NAME = re.compile(r"memory:([A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)?")


class MemoryLog(RowLog):
    """A log in memory; see `EventLog` for its promises. Durable means: until this process ends.

    Safe for many threads. A forked child has a log of its own, equal up to the fork. `clock` returns UTC microseconds,
    `entropy` random bytes.
    """

    scheme = "memory"
    page_rows = 20  # few, because many are looked up for their first event alone

    def __init__(self, store: MemoryStore, *, clock: Clock = system_clock, entropy: Entropy = os.urandom) -> None:
        self.store, self.seed = store, store.seed
        self._bank_id, self._ancestors, self._place = store.bank_id, store.ancestors, f"memory:{store.name} ({LOST})"
        self._clock, self._entropy = clock, entropy

    @property
    def engine(self) -> LogEngine:  # type: ignore[override]
        return ENGINE

    @property
    def derived_directory(self) -> Path:
        return self.store.derived_directory

    @contextmanager
    def _alone(self) -> Iterator[Rows]:
        with self.store.changed:
            yield self.store

    def rows(self, access: Access = "read") -> AbstractContextManager[Rows]:
        return nullcontext(self.store) if access == "read" else self._alone()

    def _end(self, rows: Rows) -> End:
        return rows.end()  # which no other release wrote, and no other machine can put back

    def _acknowledge(self, made: ComposedRows) -> Appended:
        return made.appended

    def relatives(self) -> tuple[Relative, ...]:
        store, found = self.store, list[Relative]()
        for other in ENGINE.named(store.lineage):
            if other is not store:
                ends = store.position(), other.position()
                shared = ancestry.shared_position(
                    store.ancestors, store.bank_id, ends[0], other.ancestors, other.bank_id, ends[1]
                )
                found.append(Relative(other.bank_id, f"memory:{other.name}", shared))
        placed = {each.bank for each in found}
        elsewhere = [each for each in super().relatives() if each.bank not in placed]
        return (*elsewhere, *found)

    def storage(self) -> Storage:
        stored = [row.line for row in self.store.long_texts.values()] + [row.line for row in self.store.events]
        return Storage(1, 0, sum(map(len, stored)), 0)

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        # In slices, because nothing wakes the condition when `stop` is set.
        ended = time.monotonic() + timeout_s
        with self.store.changed:
            while self.position() <= seen and (left := ended - time.monotonic()) > 0:
                if stop is not None and stop.is_set():
                    return
                self.store.changed.wait(min(left, _STOP_CHECK_S))

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Lease]:
        held = self.store.held
        with self.store.changed:
            if name in held:
                raise LogBusy(self.place, 0)
            held.add(name)
        try:
            yield Lease()
        finally:
            held.discard(name)

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> EventLog:
        return super().fork(upto, into, name=name or (_name_in(into) if into is not None else ""), by=by)


def _name_in(locator: str) -> str:
    found = _NAME.fullmatch(locator)
    if found is None:
        raise BadBankName(locator, "a bank in memory is memory:NAME or memory:")
    return found[1] or ""


class MemoryEngine(RowEngine[MemoryLog]):
    """The engine that stores logs in this process; a log with a name can be opened again by this name."""

    outlives_process = False

    def __init__(self) -> None:
        self._stores: dict[str, MemoryStore] = {}

    def name_of(self, locator: str) -> str:
        """Return the name behind `memory:`; `memory` where there is none."""
        return _name_in(locator) or "memory"

    def publish(self, store: MemoryStore) -> bool:
        """Register a store by its name; return whether the name was free."""
        # One step, so no lock, which a thread of a parent could hold in a child.
        return not store.name or self._stores.setdefault(store.name, store) is store

    def named(self, lineage: str) -> list[MemoryStore]:
        """Return the stores with a name that are of a lineage."""
        return [store for store in tuple(self._stores.values()) if store.lineage == lineage]

    def open(self, locator: str, **options: Any) -> MemoryLog:
        store = self._stores.get(_name_in(locator))
        if store is None:
            raise BankNotFound(locator, "A bank in memory can be opened by its name, in the process that made it")
        return MemoryLog(store, **options)

    def _make(
        self,
        locator: str,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        fill: Callable[[MemoryLog], object],
        **options: Any,
    ) -> MemoryLog:
        name = _name_in(locator)
        if name in self._stores:
            raise BankExists(locator)
        made = MemoryLog(MemoryStore(bank_id, name, ancestors=tuple(ancestors)), **options)
        fill(made)
        if not self.publish(made.store):
            raise BankExists(locator)
        return made

    def receive(
        self, locator: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], **options: Any
    ) -> EventLog:
        return super().receive("memory:" if locator is None else locator, bank_id, ancestors, stored, **options)


ENGINE = MemoryEngine()
