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
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event as Signal
from typing import Any

import msgspec

from rbank_es.errors import BadBankName, BankExists, BankNotFound, LogBusy, LogCorruption, UnknownEvent
from rbank_es.events.codec import event_types, resolved, type_of, unknown_types
from rbank_es.events.event import Event, Ref
from rbank_es.log import ancestry, erasure, groups, lines
from rbank_es.log.erasure_residue import ResidueSearch
from rbank_es.log.groups import Clock, Entropy, Prepared, system_clock
from rbank_es.log.line_groups import checked_groups, fork_beginnings, fork_lines, stored_upto
from rbank_es.log.lines import Head
from rbank_es.log.memory.memory_store import MemoryStore
from rbank_es.log.protocol import (
    ANY,
    EMPTY,
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
from rbank_es.log.verification import LogCheck

LOST = "lost when this process ends"
_STOP_CHECK_S = 0.05
"""Seconds between two checks of `stop` in `wait`: short for people, and 20 wake-ups a second cost nothing."""

_NAME = re.compile(r"memory:([A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)?")


class MemoryLog:
    """A log in memory; see `EventLog` for its promises. Durable means: until this process ends.

    Safe for many threads. A forked child has a log of its own, equal up to the fork. `clock` returns UTC microseconds,
    `entropy` random bytes.
    """

    def __init__(self, store: MemoryStore, *, clock: Clock = system_clock, entropy: Entropy = os.urandom) -> None:
        self.store = store
        self._clock, self._entropy = clock, entropy

    @property
    def scheme(self) -> str:
        return "memory"

    @property
    def bank_id(self) -> str:
        return self.store.bank_id

    @property
    def place(self) -> str:
        return f"memory:{self.store.name} ({LOST})"

    @property
    def derived_directory(self) -> Path:
        return self.store.derived_directory

    def ancestors(self) -> tuple[Ancestor, ...]:
        return self.store.ancestors

    def relatives(self) -> tuple[Relative, ...]:
        store, found = self.store, list[Relative]()
        for other in ENGINE.named(store.lineage):
            if other is not store:
                end = len(other.events)
                shared = ancestry.shared_position(
                    store.ancestors, store.bank_id, len(store.events), other.ancestors, other.bank_id, end
                )
                found.append(Relative(other.bank_id, f"memory:{other.name}", shared))
        placed = {each.bank for each in found}
        elsewhere = [Relative(each.bank, "", each.upto) for each in store.ancestors if each.bank not in placed]
        return (*elsewhere, *found)

    def storage(self) -> Storage:
        return Storage(1, 0, sum(map(len, (*self.store.events, *self.store.texts.values()))), 0)

    def new_id(self) -> str:
        return groups.new_id(self._clock, self._entropy)

    # ------------------------------------------------------------ appending

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        prepared = self._prepare(events)
        with self.store.changed:
            known = groups.known_group(prepared, self._positions, self._stored_at)
            if known is not None:
                return known
            groups.refuse_erasure_records(prepared)
            groups.check_expected(self.place, expected, len(self.store.events))
            return self._add(prepared)

    def _prepare(self, events: Sequence[Event]) -> list[Prepared]:
        texts = self.store.texts
        return groups.prepare_new(events, self._clock, self._entropy, lambda ref: ref.key in texts, self.store.text)

    def _positions(self, ids: Sequence[str]) -> dict[str, int]:
        found = {event_id: self.seq_of_id(event_id) for event_id in ids}
        return {event_id: seq for event_id, seq in found.items() if seq is not None}

    def _stored_at(self, seq: int) -> tuple[Event, Event]:
        event = self._event(seq)
        return event, resolved(event, self.store.text)

    def _add(self, prepared: list[Prepared]) -> Appended:
        store, position = self.store, len(self.store.events)
        at = groups.time_after(self._clock(), self._event(position).at if position else "")
        salt = partial(groups.new_salt, self._entropy)
        now = groups.Circumstances(position + 1, at, position, store.seed, store.stored, salt)
        group = groups.compose(prepared, now)
        store.add(group.data.split(b"\n")[:-1])
        return Appended(position + 1, group.events[-1].seq, group.events)

    # ------------------------------------------------------------ reading

    def _event(self, seq: int) -> Event:
        line = self.store.events[seq - 1]
        if not lines.is_intact(line, self.store.seed):
            raise LogCorruption(f"position {seq:,}", "checksum is wrong")
        event = lines.event_of(line)
        if event.seq != seq:
            raise LogCorruption(f"position {seq:,}", f"it holds the event of position {event.seq:,}")
        return event

    def _numbered(
        self, after: int, upto: int | None, types: Collection[str] | None, run: str | None
    ) -> Iterator[tuple[int, bytes]]:
        if unknown := unknown_types(types or ()):
            raise UnknownEvent(min(unknown), None, None)
        wanted = {name.encode() for name in types} if types is not None else None
        known = {name.encode() for name in event_types()}
        for seq in self._positions_of(after, upto, run):
            line = self.store.events[seq - 1]
            kind = lines.type_of_line(line)
            if wanted is None or kind in wanted or kind not in known:
                yield seq, line

    def _positions_of(self, after: int, upto: int | None, run: str | None) -> Iterator[int]:
        end = len(self.store.events) if upto is None else min(upto, len(self.store.events))
        if run is not None:
            positions = self.store.runs.get(run, ())
            yield from positions[bisect_right(positions, after) : bisect_right(positions, end)]
            return
        # The end is looked up at each step, so a long read sees what is appended meanwhile, as with files.
        for seq in count(after + 1):
            if seq > (len(self.store.events) if upto is None else min(upto, len(self.store.events))):
                return
            yield seq

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        for seq, _ in self._numbered(after, upto, types, run):
            event = self._event(seq)
            yield resolved(event, self.store.text) if type_of(event) in resolve else event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        for seq, line in self._numbered(after, upto, types, run):
            self._event(seq)  # raises for a line that can't be trusted
            yield line

    def position(self) -> int:
        return len(self.store.events)

    def settled(self) -> int:
        return self.position()

    def mark(self, position: int) -> str | None:
        if not position:
            return ""
        return self.store.digests[position].hex() if position <= self.position() else None

    def head(self, at: int | None = None) -> Head:
        seq = self.position() if at is None else at
        if not 0 <= seq <= self.position():
            raise LogCorruption(self.place, f"position {seq:,} is missing", "")
        return Head(seq, self.store.digests[seq].hex())

    def seq_of_id(self, event_id: str) -> int | None:
        seq = self.store.ids.get(event_id)
        # That of an append under way, or one that was interrupted, is not there yet.
        return seq if seq is not None and seq <= self.position() else None

    def text(self, ref: Ref) -> str | None:
        return self.store.text(ref)

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

    def owns(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.derived_directory.resolve())

    # ------------------------------------------------------------ erasing, checking, copying

    def erasures(self) -> int:
        return self.store.erased_at

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        with self.store.derived_files_held(), self.store.changed:
            planned = erasure.plan(self.store, what, reason, by)
            if planned.found:
                holders = ancestry.holders(self.relatives(), planned.erasure.places)
                planned = planned._replace(erasure=msgspec.structs.replace(planned.erasure, relatives=holders))
            if dry_run:
                return planned.erasure
            if not planned.found and not planned.erasure.texts:
                return planned.carried_out(None, {}).erasure
            records = erasure.records_of(planned, reason, by)
            planned = planned.carried_out(self._add(self._prepare(records)), {})
            self.store.rewrite(erasure.Targets.of(records))
        if rebuild is not None:
            rebuild()
        search = ResidueSearch(planned.sought)
        search.look_through_lines("memory", (line for _, line in self.store.blocks(None)))
        search.look_through_files(self.derived_directory)
        return msgspec.structs.replace(planned.erasure, residue=search.residue())

    def add_witness(self, witness: Callable[[], int]) -> None:
        """Do nothing: no append is ever interrupted half way."""

    def sync(self) -> None:
        pass

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        with self.store.changed:
            check = LogCheck(
                self.store.seed, noted, lambda reason: LogCorruption(f"the line after position {check.seq:,}", reason)
            )
            begun = fork_beginnings(self.bank_id, self.store.ancestors)
            for line in self.store.texts.values():
                check.line(line)
            for line in self.store.events:
                if check.seq + 1 in begun:
                    check.begin_fork(begun[check.seq + 1])
                check.line(line)
            check.finish(erasing=False)
        return Verification(
            head=Head(check.seq, check.digest.hex()),
            events=check.seq,
            texts=check.texts,
            erased=check.erased,
            noted=tuple(noted),
        )

    def stored(self, upto: int | None = None) -> Iterator[bytes]:
        return stored_upto(self.store.stored_lines(), self.head(upto).seq, self.store.seed)

    def copy(self, upto: int, into: str | None = None) -> MemoryLog:
        return ENGINE.receive(into, self.bank_id, self.ancestors(), self.stored(upto))

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> MemoryLog:
        made_id, chosen = self._entropy(16).hex(), _name_in(into) if into is not None else ""
        begun = fork_lines(self, upto, made_id, name=name or chosen, by=by, clock=self._clock, entropy=self._entropy)
        options = {"clock": self._clock, "entropy": self._entropy}
        return ENGINE.receive(into, made_id, begun.ancestors, begun.stored, **options)

    def close(self) -> None:
        pass

    def __enter__(self) -> MemoryLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _name_in(locator: str) -> str:
    found = _NAME.fullmatch(locator)
    if found is None:
        raise BadBankName(locator, "a bank in memory is memory:NAME or memory:")
    return found[1] or ""


class MemoryEngine:
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

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> MemoryLog:
        name = _name_in(locator)
        if name in self._stores:
            raise BankExists(locator)
        log = MemoryLog(MemoryStore(options.get("entropy", os.urandom)(16).hex(), name), **options)
        if events:
            log.append(events, expected=EMPTY)
        if fill is not None:
            fill(log)
        if not self.publish(log.store):
            raise BankExists(locator)
        return log

    def receive(
        self, locator: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], **options: Any
    ) -> MemoryLog:
        name = _name_in(locator) if locator is not None else ""
        if name in self._stores:
            raise BankExists(f"memory:{name}")
        store = MemoryStore(bank_id, name, ancestors=tuple(ancestors))
        for group in checked_groups(bank_id, ancestors, stored, store.texts.__contains__):
            store.add([*group.texts, *group.events])
            if group.erases:
                store.erased_at = group.last
        if not self.publish(store):
            raise BankExists(f"memory:{name}")
        return MemoryLog(store, **options)


ENGINE = MemoryEngine()
