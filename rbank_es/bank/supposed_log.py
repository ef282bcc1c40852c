"""The log that a bank would have under a supposition: the recorded one, with other events in the place of some.

It is never written anywhere. Read models are built of it as of any other log. A recorded event that is left out leaves
a gap, so that the positions of those behind it stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rbank_es.events import Event, Ref, type_of

if TYPE_CHECKING:
    from rbank_es.bank.supposed_history import Made
    from rbank_es.bank.supposition import Supposition
    from rbank_es.log import EventLog


class SupposedLog:
    """The part of a log that read models are built from: its events up to a position, and the texts that they name."""

    def __init__(
        self, log: EventLog, since: int, until: int, made: Mapping[int, Made], supposition: Supposition
    ) -> None:
        """Take the recorded log, the positions between which it is otherwise, and what `SupposedHistory` made."""
        self._log, self._since, self._until, self._supposition = log, since, until, supposition
        self._made = made
        self._keys = sorted(made)
        # Behind each of these positions, by how much the recorded ones have moved.
        self._moved = [*accumulate(max(0, len(made[key]) - 1) for key in self._keys)]

    def position(self) -> int:
        """Return the last position."""
        return self._until + self._moved_before(self._until + 1)

    def erasures(self) -> int:
        """Return the erasure epoch of the recorded log."""
        return self._log.erasures()

    def sync(self) -> None:
        """Wait until the recorded events are durable."""
        self._log.sync()

    def text(self, ref: Ref) -> str | None:
        """Return the text that a handle names; None if it was erased."""
        return self._log.text(ref)

    def mark(self, position: int) -> str:
        """Return a mark by which no recorded log takes a read model for its own."""
        return f"what-if {self._log.bank_id} {position}"

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        """Yield the events with `after` < seq <= `upto`, in order, of some types, as `EventLog.read` does."""
        last = self.position() if upto is None else upto
        for event in self._events(types, resolve):
            if after < event.seq <= last and (types is None or type_of(event) in types):
                yield event

    def _events(self, types: Collection[str] | None, resolve: Collection[str]) -> Iterator[Event]:
        keys = iter(self._keys)
        key = next(keys, None)
        for event in self._log.read(upto=self._until, types=types, resolve=resolve):
            while key is not None and key < event.seq:
                yield from self._in_place(key)
                key = next(keys, None)
            if key is not None and key == event.seq:
                yield from self._in_place(key, event)
                key = next(keys, None)
            elif event.seq <= self._since or not self._supposition.is_without(event):
                moved = self._moved_before(event.seq)
                yield replace(event, seq=event.seq + moved) if moved else event
        while key is not None:
            yield from self._in_place(key)
            key = next(keys, None)

    def _in_place(self, key: int, recorded: Event | None = None) -> Iterator[Event]:
        """Yield the events in the place of one; it is None where the reader doesn't want events of its type."""
        start = key + self._moved_before(key)
        for number, event in enumerate(self._made[key]):
            stays = recorded if event is None else event
            if stays is not None:
                yield replace(stays, seq=start + number)

    def _moved_before(self, seq: int) -> int:
        index = bisect_left(self._keys, seq)
        return self._moved[index - 1] if index else 0
