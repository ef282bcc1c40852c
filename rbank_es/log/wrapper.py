# ruff: noqa: D102  each method is documented in `EventLog`
"""A log that forwards to another one: the base of logs that watch, stop or fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event as Signal

from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log.lines import Head
from rbank_es.log.protocol import (
    ANY,
    Ancestor,
    Appended,
    Erasing,
    Erasure,
    EventLog,
    Expected,
    Lease,
    Relative,
    Storage,
    Verification,
)


class LogWrapper:
    """A log that forwards every call to another one; a subclass changes some of them."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    @property
    def scheme(self) -> str:
        return self._log.scheme

    @property
    def bank_id(self) -> str:
        return self._log.bank_id

    @property
    def place(self) -> str:
        return self._log.place

    def ancestors(self) -> tuple[Ancestor, ...]:
        return self._log.ancestors()

    def relatives(self) -> tuple[Relative, ...]:
        return self._log.relatives()

    def storage(self) -> Storage:
        return self._log.storage()

    @property
    def derived_directory(self) -> Path:
        return self._log.derived_directory

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        return self._log.append(events, expected=expected)

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        return self._log.read(after=after, upto=upto, types=types, run=run, resolve=resolve)

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        return self._log.lines(after=after, upto=upto, types=types, run=run)

    def stored(self, upto: int | None = None) -> Iterator[bytes]:
        return self._log.stored(upto)

    def new_id(self) -> str:
        return self._log.new_id()

    def position(self) -> int:
        return self._log.position()

    def settled(self) -> int:
        return self._log.settled()

    def head(self, at: int | None = None) -> Head:
        return self._log.head(at)

    def mark(self, position: int) -> str | None:
        return self._log.mark(position)

    def seq_of_id(self, event_id: str) -> int | None:
        return self._log.seq_of_id(event_id)

    def text(self, ref: Ref) -> str | None:
        return self._log.text(ref)

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        self._log.wait(seen, timeout_s, stop)

    def exclusive(self, name: str) -> AbstractContextManager[Lease]:
        return self._log.exclusive(name)

    def owns(self, path: Path) -> bool:
        return self._log.owns(path)

    def erasures(self) -> int:
        return self._log.erasures()

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        return self._log.erase(what, reason=reason, by=by, dry_run=dry_run, rebuild=rebuild)

    def add_witness(self, witness: Callable[[], int]) -> None:
        self._log.add_witness(witness)

    def sync(self) -> None:
        self._log.sync()

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        return self._log.verify(noted)

    def copy(self, upto: int, into: str | None = None) -> EventLog:
        return self._log.copy(upto, into)

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> EventLog:
        return self._log.fork(upto, into, name=name, by=by)

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
