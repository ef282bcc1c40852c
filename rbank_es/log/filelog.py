"""The `file:` engine: a directory of JSON Lines segments, one writer at a time, any number of readers."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import (
    BadEvent,
    BankExists,
    BankNotFound,
    DuplicateEvent,
    LimitExceeded,
    LogFailed,
    LogUnavailable,
    PositionConflict,
)
from rbank_es.events.base import Erased, Event, Ref
from rbank_es.events.codec import texts_of
from rbank_es.events.intake import check_identity
from rbank_es.log import derived, erasing, lines, names, system, verifying
from rbank_es.log.compose import Group, Prepared, compose, prepare, same_content
from rbank_es.log.protocol import ANY, EMPTY, Appended, Erasing, Erasure, Expected, Head, Verification
from rbank_es.log.reader import Reader, Tail, opened
from rbank_es.log.segments import Segment, blocks, list_segments, read_opened, segment_of, segment_path
from rbank_es.log.texts import Texts

FAILED = "FAILED"


class FileLog:
    """A log in a directory. Safe for many processes and threads; opens its files when first used.

    `clock` returns UTC microseconds, `entropy` random bytes; both are there to be replaced where a log must come out
    the same every time. `unsafe_no_sync` gives up durability: an acknowledged event may be lost with the power.
    """

    def __init__(
        self,
        directory: Path,
        bank_id: str,
        *,
        clock: system.Clock = system.system_clock,
        entropy: system.Entropy = os.urandom,
        calls: system.System | None = None,
        unsafe_no_sync: bool = False,
    ) -> None:
        self.directory = directory
        self._bank_id = bank_id
        self._seed = lines.seed_of(bank_id)
        self._clock, self._entropy = clock, entropy
        self._system = calls or system.System()
        self._unsafe_no_sync = unsafe_no_sync
        self._reader = Reader(directory, bank_id)
        self._texts = Texts(directory, bank_id)
        self._mutex = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._fd = self._lock_fd = -1
        self._tail: Tail | None = None
        self._digest: tuple[int, int, bytes] | None = None
        self._digest_of: tuple[str, int] | None = None
        self._durable = 0
        self._last_at = ""
        self._ids: dict[str, int] | None = None
        self._stored: dict[bytes, str] | None = None
        self._indexes: dict[str, derived.IdIndex] = {}
        self._dirty = False
        self._writes = 0

    @classmethod
    def create(cls, directory: Path, **options: Any) -> FileLog:
        """Make an empty log. Raises `BankExists`, `LogUnavailable`."""
        calls = options.get("calls") or system.System()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / derived.FOLDER).mkdir(exist_ok=True)
            with system.locked(directory / "lock", str(directory)):
                if list_segments(directory):
                    raise BankExists(str(directory))
                bank_id = options.get("entropy", os.urandom)(16).hex()
                first = lines.opened_line(bank_id, 1, lines.GENESIS.hex(), 0)
                calls.write_whole(segment_path(directory, 1), first)
        except OSError as error:
            raise LogUnavailable(str(directory), "make a bank in", error) from error
        return cls(directory, bank_id, **options)

    @classmethod
    def open(cls, directory: Path, **options: Any) -> FileLog:
        """Open a log. Raises `BankNotFound`, `LogCorruption`, `LogUnavailable`."""
        segments = list_segments(directory)
        if not segments:
            raise BankNotFound(str(directory))
        try:
            with opened(segments[0].path) as fd:
                first, _ = read_opened(segments[0], fd)
        except OSError as error:
            raise LogUnavailable(str(directory), "read", error) from error
        return cls(directory, first.bank, **options)

    @property
    def bank_id(self) -> str:
        """The bank's id, made with the log and never changed."""
        return self._bank_id

    @property
    def place(self) -> str:
        """The directory, for messages."""
        return str(self.directory)

    @property
    def folder(self) -> Path:
        """Where derived files are kept: indexes and read models, all of them deletable."""
        return self.directory / derived.FOLDER

    # ---------------------------------------------------------------- reading

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        """See `EventLog.read`."""
        wanted = frozenset(resolve)
        for found in self._reader.numbered(after, upto, types):
            event = found.event
            if wanted and event.__struct_config__.tag in wanted:
                event = self._texts.resolved(event, found.segment)
            yield event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None
    ) -> Iterator[bytes]:
        """See `EventLog.lines`."""
        for found in self._reader.numbered(after, upto, types):
            yield found.line

    def position(self) -> int:
        """See `EventLog.position`."""
        return self._look().seq

    def _look(self) -> Tail:
        """Where the whole groups end now; no lock is needed, and nothing is changed."""
        segment = list_segments(self.directory)[-1]
        known = self._tail
        status = segment.path.stat()
        if known is not None and (known.segment, known.inode) == (segment, status.st_ino):
            if known.offset == status.st_size:
                return known
            return self._reader.tail(segment, (known.offset, known.seq))
        tail = self._reader.tail(segment, self._hinted(segment, status))
        self._tail = self._tail or tail
        return tail

    def _hinted(self, segment: Segment, status: os.stat_result) -> tuple[int, int] | None:
        hint = derived.read_hint(self.folder, system.boot_id())
        if hint is None or (hint.segment, hint.inode) != (segment.name, status.st_ino):
            return None
        if hint.offset > status.st_size:
            return None
        self._digest = (hint.offset, hint.seq, bytes.fromhex(hint.digest)) if hint.digest else None
        self._digest_of = (segment.name, status.st_ino)
        self._last_at = max(self._last_at, hint.at)
        self._durable = max(self._durable, hint.durable)
        return hint.offset, hint.seq

    def head(self, at: int | None = None) -> Head:
        """See `EventLog.head`."""
        position = self.position() if at is None else at
        segments = list_segments(self.directory)
        segment = segments[segment_of(segments, position)] if position else segments[0]
        with opened(segment.path) as fd:
            first, offset = read_opened(segment, fd)
            start = (offset, segment.first - 1, bytes.fromhex(first.head))
            place = (segment.name, os.fstat(fd).st_ino)
            if self._digest is not None and self._digest_of == place and self._digest[1] <= position:
                start = self._digest
            found = verifying.digest_upto(fd, start, position, self._seed, segment)
        if segment == segments[-1]:
            self._digest, self._digest_of = found, place
        return Head(position, found[2].hex())

    def crc_at(self, seq: int) -> str | None:
        """See `EventLog.crc_at`."""
        for found in self._reader.numbered(seq - 1, seq):
            return found.event.crc
        return None

    def seq_of_id(self, event_id: str) -> int | None:
        """See `EventLog.seq_of_id`."""
        segments = list_segments(self.directory)
        for segment in reversed(segments[:-1]):
            found = self._index(segment).find(event_id)
            if found is not None:
                return found
        return self._reader.find_id(event_id, segments[-1])

    def _index(self, segment: Segment) -> derived.IdIndex:
        if segment.name not in self._indexes:
            self._indexes[segment.name] = derived.id_index(self.folder, segment)
        return self._indexes[segment.name]

    def text(self, ref: Ref) -> str | None:
        """See `EventLog.text`."""
        return self._texts.read(ref)

    def erasures(self) -> int:
        """See `EventLog.erasures`."""
        segment = list_segments(self.directory)[-1]
        with opened(segment.path) as fd:
            return read_opened(segment, fd)[0].erased

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        """See `EventLog.verify`. Where a sync had failed, a sound log is synced again and opened to writers."""
        seen = verifying.verify(self.directory, self._bank_id, self._reader, noted)
        if not (self.directory / FAILED).exists():
            return seen
        with self._exclusive():
            for segment in list_segments(self.directory):
                with opened(segment.path) as fd:
                    self._system.sync_data(fd)
            self._system.remove(self.directory / FAILED)
        return msgspec.structs.replace(seen, cleared=True)

    # ---------------------------------------------------------------- writing

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """See `EventLog.append`."""
        prepared = self._prepare(events)
        with self._writing():
            tail = self._ready()
            known = self._known(prepared)
            if known is None:
                self._check(expected, tail.seq)
                appended, tail = self._append(prepared, tail)
            else:
                appended = known
            fd = os.dup(self._fd)
        self._acknowledge(fd, appended.last)
        return appended

    def _prepare(self, events: Sequence[Event]) -> list[Prepared]:
        if not events:
            raise BadEvent("there is nothing to append")
        if len(events) > limits.GROUP_EVENTS:
            raise LimitExceeded("events of one append", len(events), limits.GROUP_EVENTS, "split it (append --batch N)")
        noise = self._entropy(28 * len(events))
        salts = names.salts(noise[: 18 * len(events)])
        now = self._clock()
        prepared = []
        for number, (event, salt) in enumerate(zip(events, salts, strict=True)):
            if event.id or event.occurred_at:
                check_identity(event, number + 1)
            start = 18 * len(events) + 10 * number
            prepared.append(prepare(self._owned(event), names.uuid7(now, noise[start : start + 10]), salt))
        return prepared

    def _owned(self, event: Event) -> Event:
        """The event with texts in place of handles: a handle is good only within its own segment."""
        values = (getattr(event, name) for name in texts_of(type(event)))
        if any(isinstance(value, Ref) or (isinstance(value, tuple) and _holds_ref(value)) for value in values):
            return self._texts.resolved(event)
        return event

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """No other thread, process or forked child writes meanwhile."""
        with self._mutex:
            if self._pid != os.getpid():
                self._reset()
            try:
                if self._lock_fd < 0:
                    self._lock_fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
                system.take(self._lock_fd, self.place)
                try:
                    yield
                finally:
                    system.release(self._lock_fd)
            except OSError as error:
                raise LogUnavailable(self.place, "write to", error) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Exclusive, and with no erasure under way: one that was interrupted is completed first."""
        while True:
            with self._exclusive():
                if not (self.directory / erasing.MARKER).exists():
                    yield
                    return
            self._finish_erasure()

    def _ready(self) -> Tail:
        """Under the lock: the tail as it is now, healed, with an open descriptor on its segment."""
        self._refuse_failed()
        tail = self._tail
        if self._fd >= 0 and tail is not None:
            status = os.fstat(self._fd)
            if status.st_size == tail.offset and status.st_nlink and status.st_ino == tail.inode:
                return tail
        return self._catch_up()

    def _refuse_failed(self) -> None:
        with suppress(FileNotFoundError):
            raise LogFailed(self.place, (self.directory / FAILED).read_text().strip())

    def _catch_up(self) -> Tail:
        segment = list_segments(self.directory)[-1]
        known, status = self._tail, segment.path.stat()
        same = known is not None and (known.segment, known.inode) == (segment, status.st_ino)
        start = (known.offset, known.seq) if known is not None and same else self._hinted(segment, status)
        tail = self._reader.tail(segment, start, locked=True)
        self._take_over(tail, same)
        if tail.sealed is not None:
            return self._open_next(tail.sealed.last, tail.sealed.head)
        if tail.offset < os.fstat(self._fd).st_size:
            self._system.truncate(self._fd, tail.offset)
        return tail

    def _take_over(self, tail: Tail, same: bool) -> None:
        if not same or self._fd < 0 or os.fstat(self._fd).st_ino != tail.inode:
            self._reopen(tail.segment)
        self._ids = self._stored = None
        self._durable = max(self._durable, tail.durable)
        self._last_at = max(self._last_at, tail.at) or self._time_before(tail.segment)
        self._tail = tail

    def _reopen(self, segment: Segment) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._fd = os.open(segment.path, os.O_RDWR | os.O_APPEND)

    def _time_before(self, segment: Segment) -> str:
        for found in self._reader.numbered(segment.first - 2, segment.first - 1):
            return found.event.at
        return ""

    def _known(self, prepared: list[Prepared]) -> Appended | None:
        """Where the group stands already, if it does. Raises `DuplicateEvent` if only a part of it, or other content."""
        given = [item.event.id for item in prepared if item.given_id]
        if not given:
            return None
        if len(set(given)) < len(given):
            twice = next(event_id for event_id in given if given.count(event_id) > 1)
            raise BadEvent(f"id {twice} is given twice in one append", path="$.id")
        found = self._find(given)
        if not found:
            return None
        first = min(found, key=lambda event_id: found[event_id])
        if len(found) < len(prepared):
            reason = f"as {len(found)} of {len(prepared)} events of this append are"
            raise DuplicateEvent(first, found[first], reason)
        return Appended(min(found.values()), max(found.values()), self._compare(prepared, found), duplicate=True)

    def _compare(self, prepared: list[Prepared], found: dict[str, int]) -> tuple[Event, ...]:
        stored_events = []
        for item in prepared:
            seq = found[item.event.id]
            (there,) = self._reader.numbered(seq - 1, seq)
            stored = self._texts.resolved(there.event, there.segment)
            given = compose([item._replace(long=False)], **self._place(seq)).events[0]
            if not same_content(stored, given):
                raise DuplicateEvent(item.event.id, seq, "with other content")
            stored_events.append(there.event)
        return tuple(stored_events)

    def _find(self, event_ids: list[str]) -> dict[str, int]:
        """Positions of those of the ids that are known."""
        segments = list_segments(self.directory)
        found = {}
        for event_id in event_ids:
            seq = self._find_active(event_id, segments[-1], len(event_ids))
            for segment in reversed(segments[:-1]) if seq is None else ():
                seq = self._index(segment).find(event_id)
                if seq is not None:
                    break
            if seq is not None:
                found[event_id] = seq
        return found

    def _find_active(self, event_id: str, segment: Segment, wanted: int) -> int | None:
        """One id is searched in the segment's bytes; a writer of many gets a dictionary."""
        self._writes += wanted
        if self._ids is None and self._writes < limits.SEARCHED_IDS:
            return self._reader.find_id(event_id, segment)
        if self._ids is None:
            with opened(segment.path) as fd:
                self._ids = dict(
                    derived.id_and_seq(line)
                    for _, complete in blocks(fd, 0)
                    for line in complete
                    if not line.startswith((lines.ANY_TEXT, lines.SEGMENT))
                )
        return self._ids.get(event_id)

    def _check(self, expected: int | Expected, actual: int) -> None:
        if expected is ANY:
            return
        wanted = 0 if expected is EMPTY else expected
        if not isinstance(wanted, int) or wanted != actual:
            raise PositionConflict(self.place, wanted if isinstance(wanted, int) else -1, actual)

    def _place(self, first: int) -> dict[str, Any]:
        at = max(names.utc_text(self._clock()), self._last_at)
        return {
            "first": first,
            "at": at,
            "durable": self._durable,
            "seed": self._seed,
            "stored": self._stored or {},
            "salt": lambda: names.salts(self._entropy(18))[0],
        }

    def _append(self, prepared: list[Prepared], tail: Tail) -> tuple[Appended, Tail]:
        group = self._compose(prepared, tail)
        if tail.offset + len(group.data) > limits.SEGMENT_BYTES and tail.seq >= tail.segment.first:
            tail = self._roll(tail)
            group = self._compose(prepared, tail)
        self._write(group.data, tail)
        last = group.events[-1]
        tail = tail._replace(offset=tail.offset + len(group.data), seq=last.seq, at=last.at)
        self._tail, self._last_at, self._dirty = tail, last.at, True
        self._remember(group)
        return Appended(group.events[0].seq, last.seq, group.events), tail

    def _compose(self, prepared: list[Prepared], tail: Tail) -> Group:
        if self._stored is None and any(item.long for item in prepared):
            self._stored = erasing.stored_texts(tail.segment)
        return compose(prepared, **self._place(tail.seq + 1))

    def _remember(self, group: Group) -> None:
        if self._stored is not None:
            self._stored.update(group.texts)
        if self._ids is not None:
            self._ids.update((event.id, event.seq) for event in group.events)

    def _write(self, data: bytes, tail: Tail) -> None:
        """All of the group or nothing: what a full disk or a signal cuts short is taken back."""
        try:
            self._system.write(self._fd, data)
        except BaseException:
            with suppress(OSError):
                self._system.truncate(self._fd, tail.offset)
            raise

    def _acknowledge(self, fd: int, last: int) -> None:
        """Sync outside the lock: writers that wait here share the disk's work instead of queueing for it."""
        try:
            if not self._unsafe_no_sync:
                self._system.sync_data(fd)
                self._durable = max(self._durable, last)
        except OSError as error:
            self._fail(error)
        finally:
            os.close(fd)

    def _fail(self, error: OSError) -> None:
        """After one failed sync nobody may trust the next: leave a marker that stops all writers of the bank."""
        reason = f"a sync failed ({error.strerror or error}), so what was appended last may not be on disk"
        with self._exclusive(), suppress(OSError):
            (self.directory / FAILED).write_text(reason + "\n")
            self._system.sync_directory(self.directory)
        raise LogFailed(self.place, reason) from error

    def _roll(self, tail: Tail) -> Tail:
        """Under the lock: close the active segment and begin the next."""
        digest = self.head(tail.seq).digest
        self._write(lines.sealed_line(tail.seq, digest, self._seed), tail)
        self._synced(self._fd)
        return self._open_next(tail.seq, digest)

    def _synced(self, fd: int) -> None:
        try:
            self._system.sync_data(fd)
        except OSError as error:
            self._fail(error)

    def _open_next(self, last: int, head: str) -> Tail:
        path = segment_path(self.directory, last + 1)
        erased = last if any(self._reader.numbered(last - 1, last, ("content_erased",))) else self.erasures()
        line = lines.opened_line(self._bank_id, last + 1, head, erased)
        self._system.write_whole(path, line)
        segment = Segment(path, last + 1)
        self._reopen(segment)
        inode = os.fstat(self._fd).st_ino
        self._durable = max(self._durable, last)
        self._digest, self._digest_of = (len(line), last, bytes.fromhex(head)), (segment.name, inode)
        self._last_at = self._last_at or self._time_before(segment)
        self._tail = Tail(segment, inode, len(line), last, self._last_at, 0, None)
        self._ids = self._stored = None
        return self._tail

    def sync(self) -> None:
        """See `EventLog.sync`."""
        with opened(list_segments(self.directory)[-1].path) as fd:
            try:
                self._system.sync_data(fd)
            except OSError as error:
                self._fail(error)

    # ---------------------------------------------------------------- erasing

    def erase(self, what: Erasing, *, reason: str = "", by: str | None = None, dry_run: bool = False) -> Erasure:
        """See `EventLog.erase`."""
        if (self.directory / erasing.MARKER).exists():
            self._finish_erasure()
        if dry_run:
            return erasing.plan(self.directory, self._reader, self._texts, what, reason).erasure
        with system.locked(self.folder_lock(), self.place), self._exclusive():
            tail = self._ready()
            planned = erasing.plan(self.directory, self._reader, self._texts, what, reason)
            if not planned.erasure.places and not planned.erasure.texts:
                return msgspec.structs.replace(planned.erasure, dry_run=False)
            prepared = self._prepare(erasing.events_of(planned, reason, by))
            job = erasing.Job.of(planned, [item.event for item in prepared])
            self._system.write_whole(self.directory / erasing.MARKER, msgspec.json.encode(job))
            appended = self._carry_out(job, prepared, tail)
        return msgspec.structs.replace(planned.erasure, dry_run=False, appended=appended)

    def folder_lock(self) -> Path:
        """The lock that whoever writes derived files holds; taken before the log's own."""
        self.folder.mkdir(exist_ok=True)
        return self.folder / derived.LOCK

    def _finish_erasure(self) -> None:
        """Complete what an eraser began and could not end."""
        with system.locked(self.folder_lock(), self.place), self._exclusive(), suppress(FileNotFoundError):
            job = erasing.Job.read(self.directory / erasing.MARKER)
            self._carry_out(job, self._prepare(job.events()), self._ready())

    def _carry_out(self, job: erasing.Job, prepared: list[Prepared], tail: Tail) -> Appended:
        appended = self._known(prepared)
        if appended is None:
            appended, tail = self._append(prepared, tail)
        self._synced(self._fd)
        tail = self._tail or tail
        if tail.seq >= tail.segment.first:
            self._roll(tail)
        erasing.rewrite(self.directory, job, self._bank_id, self._system)
        erasing.clear(self.folder, keep=derived.LOCK)
        self._indexes.clear()
        self._system.remove(self.directory / erasing.MARKER)
        return appended

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """See `EventLog.close`."""
        with self._mutex:
            if self._pid == os.getpid():
                if self._dirty and self._tail is not None:
                    self._leave_hint(self._tail)
                for fd in (self._fd, self._lock_fd):
                    if fd >= 0:
                        os.close(fd)
            self._reset()

    def _leave_hint(self, tail: Tail) -> None:
        digest = (
            self._digest[2].hex() if self._digest is not None and self._digest[:2] == (tail.offset, tail.seq) else ""
        )
        hint = derived.Hint(
            segment=tail.segment.name,
            inode=tail.inode,
            offset=tail.offset,
            seq=tail.seq,
            at=self._last_at,
            durable=self._durable,
            digest=digest,
            boot=system.boot_id(),
        )
        derived.write_hint(self.folder, hint)

    def __enter__(self) -> FileLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _holds_ref(values: Iterable[object]) -> bool:
    return any(isinstance(value, (Ref, Erased)) for value in values)
