"""Writing: one group at a time under the bank's lock, synced outside it.

The order of steps under the lock: refuse if a sync had failed; complete an erasure that was interrupted; catch up with
what others wrote, and cut off what an interrupted append left; answer a retry; compare the expected position; write
the group whole, or take it back. After unlocking: sync, then acknowledge.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import (
    BadEvent,
    DuplicateEvent,
    ErasureUnfinished,
    LimitExceeded,
    LogError,
    LogFailed,
    LogUnavailable,
    PositionConflict,
)
from rbank_es.events import ContentErased
from rbank_es.events.event import Event, type_of
from rbank_es.events.json_input import check_identity
from rbank_es.log import identifiers
from rbank_es.log.file import erasure, hints, lines, system_calls
from rbank_es.log.file.event_ids import Ids
from rbank_es.log.file.groups import Circumstances, Group, Prepared, as_read, compose, prepare, same_content
from rbank_es.log.file.heads import Heads
from rbank_es.log.file.long_texts import Texts, refs_of
from rbank_es.log.file.reader import Reader, Tail, opened
from rbank_es.log.file.segments import Segment, all_segments, read_opened, segment_path
from rbank_es.log.protocol import ANY, EMPTY, Appended, Erasing, Erasure, Expected

FAILED = "FAILED"
LOCK = "lock"


class _Interrupted(Exception):
    """There is an erasure to be completed before anything else may be written."""


class Writer:
    """The writing half of a `FileLog`. Opens its files when first used, and anew in a forked child.

    `with writer:` holds the bank; it is re-entrant within a thread. Raises `LogBusy`, `LogUnavailable`.
    """

    def __init__(
        self,
        directory: Path,
        bank_id: str,
        reader: Reader,
        texts: Texts,
        heads: Heads,
        *,
        clock: system_calls.Clock,
        entropy: system_calls.Entropy,
        calls: system_calls.System,
        unsafe_no_sync: bool,
    ) -> None:
        self._directory, self._bank_id, self._seed = directory, bank_id, lines.seed_of(bank_id)
        self._place = str(directory)
        self._reader, self._texts, self._heads = reader, texts, heads
        self._clock, self._entropy, self._system = clock, entropy, calls
        self._unsafe_no_sync = unsafe_no_sync
        self._mutex = threading.RLock()
        self._failed, self._erasing = str(directory / FAILED), str(directory / erasure.MARKER)
        self.ids = Ids(directory, reader)
        self._forget()
        _WRITERS.add(self)

    def _forget(self) -> None:
        self._fd = self._lock_fd = -1
        self._stored: dict[bytes, str] = {}
        self._stored_upto = (0, 0, 0)
        self._dirty = False
        self._heads.tail = None
        self.ids.forget_active()

    # ---------------------------------------------------------------- locking

    def __enter__(self) -> None:
        """Hold the bank: no other thread, process or forked child writes meanwhile."""
        self._mutex.acquire()
        try:
            if self._lock_fd < 0:
                self._lock_fd = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            system_calls.take(self._lock_fd, self._place)
            self._reader.holder = threading.get_ident()
        except OSError as error:
            self._mutex.release()
            raise LogUnavailable(self._place, "write to", error) from error
        except BaseException:
            if self._lock_fd >= 0:
                system_calls.release(self._lock_fd)  # a signal may have come just after it was taken
            self._mutex.release()
            raise

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        try:
            self._reader.holder = None
            system_calls.release(self._lock_fd)
        finally:
            self._mutex.release()
        if isinstance(error, OSError):
            raise LogUnavailable(self._place, "write to", error) from error

    def _ready(self) -> Tail:
        """Under the lock: the tail as it is now, healed, with an open descriptor on its segment.

        Raises `_Interrupted` where an eraser began and could not end.
        """
        if os.access(self._erasing, os.F_OK):
            raise _Interrupted
        return self._caught_up()

    def _caught_up(self) -> Tail:
        if os.access(self._failed, os.F_OK):
            raise LogFailed(self._place, (self._directory / FAILED).read_text().strip())
        tail = self._heads.tail
        if self._fd >= 0 and tail is not None:
            status = os.fstat(self._fd)
            if status.st_nlink and status.st_ino == tail.inode:
                if status.st_size == tail.offset:
                    return tail
                if (grown := self._grown(tail, status.st_size)) is not None:
                    return grown
        return self._catch_up()

    def _grown(self, tail: Tail, size: int) -> Tail | None:
        """The tail after the whole groups that others appended, where nothing else happened and they are few."""
        if not tail.offset < size <= tail.offset + limits.READ_BLOCK_BYTES:
            return None
        data = os.pread(self._fd, size - tail.offset, tail.offset)
        whole = self._reader.whole(data, tail.offset, tail.seq)
        if whole is None or whole.end != size:
            return None
        last = whole.events[-1]
        self.ids.add(whole.events)
        self._heads.durable = max(self._heads.durable, last.dur)
        self._heads.last_at = max(self._heads.last_at, last.at)
        self._heads.tail = Tail(tail.segment, tail.inode, size, last.seq, last.at, last.dur, None)
        return self._heads.tail

    def _catch_up(self) -> Tail:
        tail, same = self._heads.under_lock(all_segments(self._directory)[-1])
        if not same or self._fd < 0 or os.fstat(self._fd).st_ino != tail.inode:
            self._reopen(tail.segment)
            self._system.sync_directory(self._directory)  # whoever began the segment may have died before this
        self.ids.forget_active()
        self._heads.durable = max(self._heads.durable, tail.durable)
        self._heads.last_at = max(self._heads.last_at, tail.at) or self._time_before(tail.segment)
        self._heads.tail = tail
        if tail.sealed is not None:
            self.sync(self._fd)  # whoever closed the segment may have died before this
            return self._open_next(tail.sealed.last, tail.sealed.head)
        if tail.offset < os.fstat(self._fd).st_size:
            self._system.truncate(self._fd, tail.offset)
        return tail

    def _reopen(self, segment: Segment) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._fd = os.open(segment.path, os.O_RDWR | os.O_APPEND)

    def _time_before(self, segment: Segment) -> str:
        found = self._reader.line_at(segment.first - 1)
        return found[1].at if found is not None else ""

    # ---------------------------------------------------------------- appending

    def append(self, events: Sequence[Event], expected: int | Expected) -> Appended:
        """See `EventLog.append`."""
        prepared = self._prepare(events)
        while True:
            try:
                appended, fd = self._append_once(prepared, expected)
            except _Interrupted:
                self.finish_erasure()
            else:
                self._acknowledge(fd, appended.last)
                return appended

    def first_group(self, events: Sequence[Event]) -> bytes:
        """The bytes of the events with which a log begins; none for none."""
        return compose(self._prepare(events), self._circumstances(1)).data if events else b""

    def _append_once(self, prepared: list[Prepared], expected: int | Expected) -> tuple[Appended, int]:
        """Write the group, or find it written; returns a descriptor to sync."""
        with self:
            tail = self._ready()
            appended = self._known(prepared)
            if appended is None:
                if any(isinstance(item.event, ContentErased) for item in prepared):
                    raise BadEvent("content_erased is written by erasing, and by nothing else", path="$.type")
                if expected is not ANY:
                    self._check(expected, tail.seq)
                appended, _ = self._append(prepared, tail)
            return appended, os.dup(self._fd)

    def new_id(self) -> str:
        """A fresh UUIDv7."""
        return identifiers.uuid7s(self._clock(), self._entropy(10))[0]

    def _prepare(self, events: Sequence[Event]) -> list[Prepared]:
        if not events:
            raise BadEvent("there is nothing to append")
        if len(events) > limits.GROUP_EVENTS:
            raise LimitExceeded("events of one append", len(events), limits.GROUP_EVENTS, "split it (append --batch N)")
        for number, event in enumerate(events, 1):
            if event.id or event.occurred_at:
                check_identity(event, number)
        noise = self._entropy(28 * len(events))
        ids = identifiers.uuid7s(self._clock(), noise[18 * len(events) :])
        prepared = prepare(events, ids, identifiers.salts(noise[: 18 * len(events)]))
        return [self._owned(item) if item.handles else item for item in prepared]

    def _owned(self, item: Prepared) -> Prepared:
        """With texts in place of handles: a handle is good only within its own segment. Raises `BadEvent`."""
        for ref in refs_of(item.event):
            if not self._texts.holds(ref):
                raise BadEvent(f"{type_of(item.event)}: the handle {ref.key[:12]}… names no text of this bank")
        return prepare([self._texts.resolved(item.event)], [item.id], [item.salt])[0]

    def _check(self, expected: int | Expected, actual: int) -> None:
        wanted = 0 if expected is EMPTY else expected
        if wanted != actual:
            raise PositionConflict(self._place, int(str(wanted)), actual)

    def _known(self, prepared: list[Prepared]) -> Appended | None:
        """Where the group stands already, if it does. Raises `DuplicateEvent` if only in part, or otherwise."""
        given = [item.id for item in prepared if item.event.id]
        if not given:
            return None
        if len(set(given)) < len(given):
            twice = next(event_id for event_id in given if given.count(event_id) > 1)
            raise BadEvent(f"id {twice} is given twice in one append", path="$.id")
        found = self.ids.find(given)
        if not found:
            return None
        first = min(found, key=lambda event_id: found[event_id])
        if len(found) < len(prepared):
            reason = f"as {len(found)} of {len(prepared)} events of this append are"
            raise DuplicateEvent(first, found[first], reason)
        stored = tuple(self._stored_as(item, found[item.id]) for item in prepared)
        return Appended(min(found.values()), max(found.values()), stored, duplicate=True)

    def _stored_as(self, item: Prepared, seq: int) -> Event:
        there = self._reader.line_at(seq)
        if there is None:
            raise LogUnavailable(self._place, "read", OSError(f"position {seq:,} is gone"))
        stored = self._texts.resolved(there[1], there[0])
        if not same_content(stored, as_read(item)):
            raise DuplicateEvent(item.id, seq, "with other content")
        return there[1]

    def _circumstances(self, first: int) -> Circumstances:
        at = max(identifiers.utc_text(self._clock()), self._heads.last_at)
        return Circumstances(first, at, self._heads.durable, self._seed, self._stored, self._salt)

    def _salt(self) -> str:
        return identifiers.salts(self._entropy(18))[0]

    def _append(self, prepared: list[Prepared], tail: Tail) -> tuple[Appended, Tail]:
        group = self._compose(prepared, tail)
        if tail.offset + len(group.data) > limits.SEGMENT_BYTES and tail.seq >= tail.segment.first:
            tail = self._roll(tail)
            group = self._compose(prepared, tail)
        self._write(group.data, tail)
        last, known = group.events[-1], tail
        tail = Tail(tail.segment, tail.inode, tail.offset + len(group.data), last.seq, last.at, 0, None)
        self.ids.add(group.events)
        if self._stored_upto == _end_of(known):
            self._stored.update(group.texts)
            self._stored_upto = _end_of(tail)
        # Last: whoever is interrupted before this finds a file that is longer than it knows, and looks again.
        self._heads.last_at, self._dirty, self._heads.tail = last.at, True, tail
        return Appended(group.events[0].seq, last.seq, group.events), tail

    def _compose(self, prepared: list[Prepared], tail: Tail) -> Group:
        if any(item.long for item in prepared):
            self._look_for_texts(tail)
        return compose(prepared, self._circumstances(tail.seq + 1))

    def _look_for_texts(self, tail: Tail) -> None:
        """Know which texts the active segment holds; only what others wrote since the last look is read."""
        *file, offset = self._stored_upto
        if file != [tail.segment.first, tail.inode] or offset > tail.offset:
            self._stored, offset = {}, 0
        if offset < tail.offset:
            self._stored.update(erasure.stored_texts(tail.segment, self._seed, offset))
        self._stored_upto = _end_of(tail)

    def _write(self, data: bytes, tail: Tail) -> None:
        """All of the bytes or none: what a full disk or a signal cuts short is taken back.

        What was written whole is not: somebody may have read it.
        """
        try:
            self._system.write(self._fd, data)
        except BaseException:
            with suppress(OSError):
                if os.fstat(self._fd).st_size < tail.offset + len(data):
                    self._system.truncate(self._fd, tail.offset)
            raise

    def _acknowledge(self, fd: int, last: int) -> None:
        """Sync outside the lock: writers that wait here share the disk's work instead of queueing for it."""
        try:
            if not self._unsafe_no_sync:
                self.sync(fd)
                self._heads.durable = max(self._heads.durable, last)
        finally:
            os.close(fd)

    def _fail(self, error: OSError) -> None:
        """After one failed sync nobody may trust the next: leave a marker that stops all writers of the bank."""
        reason = f"a sync failed ({error.strerror or error}), so what was appended last may not be on disk"
        with suppress(LogError, OSError), self:
            (self._directory / FAILED).write_text(reason + "\n")
            self._system.sync_directory(self._directory)
        raise LogFailed(self._place, reason) from error

    def recover(self) -> bool:
        """For a log that was just found sound: let writers in again. Whether there was a need to.

        After a failed sync the system counts pages as clean that never reached the disk, and no later sync touches
        them. So the last segment is written anew; those before it were synced before it began.
        """
        if not (self._directory / FAILED).exists():
            return False
        with self:
            segment = all_segments(self._directory)[-1]
            self._system.write_whole(segment.path, segment.path.read_bytes())
            self._system.remove(self._directory / FAILED)
        return True

    # ---------------------------------------------------------------- rolling

    def _roll(self, tail: Tail) -> Tail:
        """Under the lock: close the active segment and begin the next."""
        digest = self._heads.head(tail.seq).digest
        self._write(lines.sealed_line(tail.seq, digest, self._seed), tail)
        self.sync(self._fd)
        return self._open_next(tail.seq, digest)

    def sync(self, fd: int) -> None:
        """Return when the file's bytes are on disk. Raises `LogFailed`, and then no writer may go on."""
        try:
            self._system.sync_data(fd)
        except OSError as error:
            self._fail(error)

    def _open_next(self, last: int, head: str) -> Tail:
        segment = Segment(segment_path(self._directory, last + 1), last + 1)
        line = lines.opened_line(self._bank_id, segment.first, head, self._erased_before(last))
        self._system.write_whole(segment.path, line)
        self._reopen(segment)
        inode = os.fstat(self._fd).st_ino
        self._heads.durable = max(self._heads.durable, last)
        self._heads.note_digest((len(line), last, bytes.fromhex(head)), segment, inode)
        self._heads.last_at = self._heads.last_at or self._time_before(segment)
        tail = Tail(segment, inode, len(line), last, self._heads.last_at, 0, None)
        self._heads.tail = tail
        self.ids.forget_active()
        return tail

    def _erased_before(self, last: int) -> int:
        """Position of the last erasure: an erasure is always the last event of its segment."""
        found = self._reader.line_at(last)
        if found is not None and type_of(found[1]) == "content_erased":
            return last
        segment = all_segments(self._directory)[-1]
        with opened(segment.path) as fd:
            return read_opened(segment, fd)[0].erased

    # ---------------------------------------------------------------- erasing

    def erase(self, what: Erasing, reason: str, by: str | None) -> Erasure:
        """See `EventLog.erase`."""
        self.finish_erasure()
        with self._alone():
            tail = self._caught_up()
            planned = erasure.plan(self._directory, self._reader, self._texts, what, f"{reason}\n{by or ''}")
            if not planned.found and not planned.erasure.texts:
                return msgspec.structs.replace(planned.erasure, dry_run=False)
            prepared = self._prepare(erasure.events_of(planned, reason, by))
            job = erasure.Job.of(msgspec.structs.replace(item.event, id=item.id) for item in prepared)
            self._system.write_whole(self._directory / erasure.MARKER, msgspec.json.encode(job))
            appended = self._carry_out(job, prepared, tail)
        return msgspec.structs.replace(planned.erasure, dry_run=False, appended=appended)

    def finish_erasure(self) -> None:
        """Complete what an eraser began and could not end, if there is such a thing."""
        if os.access(self._erasing, os.F_OK):
            with self._alone():
                job = erasure.Job.read(self._directory / erasure.MARKER)
                if job is not None:
                    self._carry_out(job, self._prepare(job.events()), self._caught_up())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the derived files, and then the bank: in that order, as everybody does who holds both."""
        try:
            self._heads.folder.mkdir(exist_ok=True)
            with system_calls.locked(self._heads.folder / hints.LOCK, self._place), self:
                yield
        except OSError as error:
            raise LogUnavailable(self._place, "write to", error) from error

    def _carry_out(self, job: erasure.Job, prepared: list[Prepared], tail: Tail) -> Appended:
        try:
            return self._erase_everywhere(job, prepared, tail)
        except OSError as error:
            raise ErasureUnfinished(self._place, error) from error

    def _erase_everywhere(self, job: erasure.Job, prepared: list[Prepared], tail: Tail) -> Appended:
        appended = self._known(prepared)
        if appended is None:
            appended, tail = self._append(prepared, tail)
        self.sync(self._fd)
        if tail.seq >= tail.segment.first:
            self._roll(tail)
        erasure.rewrite(self._directory, job, self._bank_id, self._system)
        erasure.clear(self._directory, self._heads.folder, hints.LOCK, self._system)
        self.ids.forget_all()
        self._system.remove(self._directory / erasure.MARKER)
        return appended

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Let go of files; leave a hint if anything was written."""
        with self._mutex:
            if self._dirty:
                self._heads.leave_hint()
            _close_all((self._fd, self._lock_fd))
            self._forget()

    def __del__(self) -> None:
        # As with any file of Python: who forgets to close doesn't leak.
        with suppress(Exception):
            _close_all((self._fd, self._lock_fd))

    def forked(self) -> None:
        """In a forked child: what threads of the parent hold is not held here, and its open files are not shared."""
        self._mutex = threading.RLock()
        _close_all((self._fd, self._lock_fd))
        self._forget()
        self._reader.holder = None
        self._texts.forked()


def _end_of(tail: Tail) -> tuple[int, int, int]:
    return tail.segment.first, tail.inode, tail.offset


def _close_all(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        if fd >= 0:
            os.close(fd)


_WRITERS: weakref.WeakSet[Writer] = weakref.WeakSet()


def _forked() -> None:
    for writer in list(_WRITERS):
        writer.forked()


os.register_at_fork(after_in_child=_forked)
