"""The writer of a log's files: it writes one group at a time under the bank's lock, and syncs outside the lock.

The order of steps under the lock: refuse if a sync failed earlier; complete an interrupted erasure; catch up with other
writers, and truncate the remains of an interrupted append; answer a retry; compare the expected position; write the
group whole, or take it back. After unlocking: sync, then acknowledge.
"""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.errors import ErasureUnfinished, InterruptedAppend, LogError, LogFailed, LogUnavailable
from rbank_es.events import Event, type_of
from rbank_es.log import disk, groups, lines
from rbank_es.log.file.bank_directory import (
    ERASING,
    ErasureJob,
    keep_remains,
    kept_remains,
    next_remains,
    remove_remains,
)
from rbank_es.log.file.position_index import Heads, Ids
from rbank_es.log.file.reader import Reader, Tail
from rbank_es.log.file.segments import Segment, Texts, all_segments, read_opened, segment_path, stored_texts
from rbank_es.log.groups import Circumstances, Clock, ComposedGroup, Entropy, Prepared, compose
from rbank_es.log.protocol import DERIVED_LOCK, Appended, Erasing, Expected
from rbank_es.system.files import BankCache, caches_of, open_regular, opened, read_regular, sweep_scratch
from rbank_es.system.forks import undivided

if TYPE_CHECKING:
    from rbank_es.log.erasure import Plan


class _Interrupted(Exception):
    """An erasure must be completed before anything else may be written."""


class Writer(disk.ProcessCache):
    """The writing half of a `FileLog`. It opens its files when first used, and again in a forked child.

    `with writer:` holds the bank; it is re-entrant within a thread. Raises `LogBusy`, `LogUnavailable`.
    """

    def __init__(
        self,
        directory: Path,
        bank_id: str,
        reader: Reader,
        texts: Texts,
        heads: Heads,
        ids: Ids,
        cache: BankCache,
        *,
        clock: Clock,
        entropy: Entropy,
        calls: disk.System,
        unsafe_no_sync: bool,
    ) -> None:
        self._directory, self._bank_id, self._seed = directory, bank_id, reader.seed
        self._place = str(directory)
        self._reader, self._texts, self._heads = reader, texts, heads
        self._clock, self._entropy, self._system = clock, entropy, calls
        self._unsafe_no_sync = unsafe_no_sync
        self._failure = disk.FailureMarker(directory, calls)
        self._erasing = str(directory / ERASING)
        self.ids, self._cache = ids, cache
        self._release()
        super().__init__()

    def _release(self) -> None:
        self._fd = self._lock_fd = -1
        self._stored: dict[bytes, str] = {}
        self._stored_upto = (0, 0, 0)
        self._dirty = False
        self._unrecorded: lines.Torn | None = None
        self._heads.tail = None

    # ---------------------------------------------------------------- locking

    def __enter__(self) -> None:
        """Hold the bank's lock, which excludes other threads, processes and forked children."""
        self.lock.acquire()
        try:
            if self._lock_fd < 0:
                with undivided:  # a child that is forked in between would keep its copy
                    self._lock_fd = self._failure.open_lock()
            disk.take(self._lock_fd, self._place)
            self._reader.holder = threading.get_ident()
        except OSError as error:
            self.lock.release()
            raise LogUnavailable(self._place, "write to", error) from error
        except BaseException:
            if self._lock_fd >= 0:
                disk.release(self._lock_fd)  # a signal may have come just after it was taken
            self.lock.release()
            raise

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        try:
            self._reader.holder = None
            if self._failure.is_only_here:
                self._failure.hold(self._lock_fd)
            else:
                disk.release(self._lock_fd)
        finally:
            self.lock.release()
        if isinstance(error, OSError):
            raise LogUnavailable(self._place, "write to", error) from error

    def _ready(self) -> Tail:
        """Return the tail, with an open descriptor on its segment. For the holder of the lock.

        Raises `_Interrupted` if an erasure was begun and not completed.
        """
        if os.path.lexists(self._erasing) and ErasureJob.read(Path(self._erasing)) is not None:
            raise _Interrupted
        return self._caught_up()

    def _caught_up(self) -> Tail:
        if (reason := self._failure.reason()) is not None:
            raise LogFailed(self._place, reason)
        tail = self._heads.tail
        if self._fd >= 0 and tail is not None:
            status = os.fstat(self._fd)
            # A rewritten segment has another inode, and no link is left to the one that is open.
            if status.st_nlink == 1 and status.st_ino == tail.inode:
                # The usual case, in 2 µs: nobody else wrote.
                if status.st_size == tail.offset:
                    return tail
                if (grown := self._grown(tail, status.st_size)) is not None:
                    return grown
        return self._catch_up()

    def _grown(self, tail: Tail, size: int) -> Tail | None:
        """Return the tail behind a few whole groups that others appended; None if there was any other change."""
        if not tail.offset < size <= tail.offset + limits.READ_BLOCK_BYTES:
            return None
        data = os.pread(self._fd, size - tail.offset, tail.offset)
        whole = self._reader.groups_in(data, tail.offset, tail.seq)
        if whole is None or whole.end != size:
            return None
        last = whole.events[-1]
        self._heads.durable = max(self._heads.durable, last.dur)
        self._heads.last_at = max(self._heads.last_at, last.at)
        self._heads.tail = Tail(tail.segment, tail.inode, size, last.seq, last.at, last.dur, None)
        return self._heads.tail

    def _catch_up(self) -> Tail:
        tail, same = self._heads.under_lock(all_segments(self._directory)[-1])
        if not same or self._fd < 0 or os.fstat(self._fd).st_ino != tail.inode:
            self._reopen(tail.segment)
            sweep_scratch(self._directory)
            self._system.sync_directory(self._directory)  # whoever began the segment may have died before this
        if tail.sealed is None:
            _refuse_other_names(self._fd, tail.segment)
        self._heads.durable = max(self._heads.durable, tail.durable)
        self._heads.last_at = max(self._heads.last_at, tail.at) or self._time_before(tail.segment)
        self._heads.tail = tail
        if tail.sealed is not None:
            self.sync(self._fd)  # whoever closed the segment may have died before this
            return self._open_next(tail.sealed.last, tail.sealed.head)
        return tail

    def _cut(self, tail: Tail) -> None:
        """Cut off what is behind the whole groups; keep it in a file, and record this with the next write."""
        size = os.fstat(self._fd).st_size - tail.offset
        if size <= 0:
            return
        # Under the lock nobody is appending, and nothing vouches for them: an interrupted append left them.
        kept = next_remains(self._directory)
        warnings.warn(InterruptedAppend(f"segment {tail.segment.name}, byte {tail.offset:,}", size, kept), stacklevel=2)
        keep_remains(self._directory / kept, self._fd, tail.offset, self._system)
        self._system.truncate(self._fd, tail.offset)
        at = groups.time_after(self._clock(), self._heads.last_at)
        self._unrecorded = lines.Torn(tail.seq, at, size, kept)

    def _reopen(self, segment: Segment) -> None:
        fd, self._fd = self._fd, -1
        _close_all([fd])
        self._reader.receipts.close()  # the file may have been removed, by whoever erased a text and rolled
        self._fd = open_regular(segment.path, os.O_RDWR | os.O_APPEND)

    def _time_before(self, segment: Segment) -> str:
        found = self._reader.line_at(segment.first - 1)
        return found[1].at if found is not None else ""

    # ---------------------------------------------------------------- appending

    def append(self, events: Sequence[Event], expected: int | Expected) -> Appended:
        """See `EventLog.append`."""
        prepared = self._prepare(events)
        while True:
            try:
                appended, fd, tail = self._append_once(prepared, expected)
            except _Interrupted:
                self.finish_erasure()
            else:
                self._acknowledge(fd, tail, "" if appended.duplicate else appended.events[-1].crc)
                return appended

    def first_group(self, events: Sequence[Event]) -> bytes:
        """Return the bytes of the events with which a log begins; none for none. Raises as `append`."""
        if not events:
            return b""
        prepared = self._prepare(events)
        groups.refuse_repeated_ids([item.id for item in prepared])
        groups.refuse_erasure_records(prepared)
        return compose(prepared, self._circumstances(1)).data

    def _append_once(self, prepared: list[Prepared], expected: int | Expected) -> tuple[Appended, int, Tail]:
        """Write the group unless the log holds it already; return a descriptor to sync, and the log's tail."""
        with self:
            tail = self._ready()
            # Before the expectation, because a retry can't know that its first try succeeded.
            appended = self._known(prepared, tail)
            if appended is None:
                groups.refuse_erasure_records(prepared)
                groups.check_expected(self._place, expected, tail.seq)
                appended, tail = self._append(prepared, tail)
            # A duplicate, because another thread may roll, and close the descriptor, before this group is synced.
            return appended, os.dup(self._fd), tail

    def new_id(self) -> str:
        """Return a fresh UUIDv7."""
        tail = self._heads.tail  # before the id is made, because afterwards somebody may append it
        return self.ids.noted(groups.new_id(self._clock, self._entropy), tail)

    def _prepare(self, events: Sequence[Event]) -> list[Prepared]:
        return groups.prepare_new(events, self._clock, self._entropy, self._texts.holds, self._texts.read)

    def _known(self, prepared: list[Prepared], tail: Tail) -> Appended | None:
        return groups.known_group(prepared, partial(self.ids.find, tail=tail), self._stored_at)

    def _stored_at(self, seq: int) -> tuple[Event, Event]:
        there = self._reader.line_at(seq)
        if there is None:
            raise LogUnavailable(self._place, "read", OSError(f"position {seq:,} is gone"))
        segment, event, _ = there
        return event, self._texts.resolved(event, segment)

    def _circumstances(self, first: int) -> Circumstances:
        at = groups.time_after(self._clock(), self._heads.last_at)
        salt = partial(groups.new_salt, self._entropy)
        return Circumstances(first, at, self._heads.durable, self._seed, self._stored, salt)

    def _append(self, prepared: list[Prepared], tail: Tail) -> tuple[Appended, Tail]:
        group = self._compose(prepared, tail)
        if tail.offset + len(group.data) > limits.SEGMENT_BYTES and tail.seq >= tail.segment.first:
            tail = self._roll(tail)
            group = self._compose(prepared, tail)  # again, because a text of the old segment can't be named here
        written = self._write(group.data, tail)
        last, known = group.events[-1], tail
        tail = Tail(tail.segment, tail.inode, tail.offset + written, last.seq, last.at, 0, None)
        if self._stored_upto == _end_of(known):
            self._stored.update(group.texts)
            self._stored_upto = _end_of(tail)
        # Last, because a thread interrupted before this finds a file longer than it knows, and reads it again.
        self._heads.last_at, self._dirty, self._heads.tail = last.at, True, tail
        return Appended(group.events[0].seq, last.seq, group.events), tail

    def _compose(self, prepared: list[Prepared], tail: Tail) -> ComposedGroup:
        if any(item.long for item in prepared):
            self._find_texts(tail)
        return compose(prepared, self._circumstances(tail.seq + 1))

    def _find_texts(self, tail: Tail) -> None:
        """Collect the texts that the active segment holds, reading only what was written since the last call."""
        *file, offset = self._stored_upto
        if file != [tail.segment.first, tail.inode] or offset > tail.offset:
            self._stored, offset = {}, 0
        if offset < tail.offset:
            # Up to the tail: texts behind it are cut off before the group is written that would name them.
            self._stored.update(stored_texts(tail.segment, self._seed, offset, tail.offset))
        self._stored_upto = _end_of(tail)

    def _write(self, data: bytes, tail: Tail) -> int:
        """Cut off what an interrupted append left, and write the record of this and all bytes; return their number.

        If a full disk or a signal stops the write, remove the part that was written.
        """
        # Not before, because an append that is refused records nothing: others would write behind the cut first.
        self._cut(tail)
        if self._unrecorded is not None and self._unrecorded.after == tail.seq:
            data = lines.torn_line(self._unrecorded, self._seed) + data
        # A whole write is not taken back, because somebody may have read it.
        try:
            self._system.write(self._fd, data)
        except BaseException:
            with suppress(OSError):
                if os.fstat(self._fd).st_size < tail.offset + len(data):
                    self._system.truncate(self._fd, tail.offset)
            raise
        self._unrecorded = None
        return len(data)

    def _acknowledge(self, fd: int, tail: Tail, crc: str) -> None:
        """Sync the group, leave a receipt, and close the descriptor."""
        # Outside the lock, because writers that wait here share the disk's work instead of queueing for it.
        try:
            if not self._unsafe_no_sync:
                self.sync(fd)
                self._heads.leave_receipt(tail, crc)
        finally:
            os.close(fd)

    def _fail(self, error: OSError) -> None:
        """Stop all writers of the bank by a marker, because after one failed sync the next can't be trusted."""
        reason = f"a sync failed ({error.strerror or error}), so what was appended last may not be on disk"
        # Under the lock where that is free, which is then kept if no marker can be made.
        with suppress(LogError), self:
            reason = self._failure.put(reason)
        raise LogFailed(self._place, reason) from error

    def recover(self) -> bool:
        """Admit writers again to a log that was just verified; return whether they had been stopped.

        The last segment is written into a new file; those before it were synced before it began.
        """
        # Because after a failed sync the system counts pages as clean that never reached the disk: syncing again would
        # write nothing.
        if not self._failure.is_removable:
            return False
        with self:
            segment = all_segments(self._directory)[-1]
            most_bytes = limits.SEGMENT_BYTES + limits.GROUP_BYTES
            self._system.write_whole(segment.path, read_regular(segment.path, most_bytes))
            self._failure.remove()
        return True

    # ---------------------------------------------------------------- rolling

    def _roll(self, tail: Tail) -> Tail:
        """Close the active segment and begin the next. For the holder of the lock."""
        digest = self._heads.head(tail.seq).digest
        self._write(lines.sealed_line(tail.seq, digest, self._seed), tail)
        self.sync(self._fd)
        return self._open_next(tail.seq, digest)

    def sync(self, fd: int) -> None:
        """Wait until the file's bytes are on disk. Raises `LogFailed`, after which no writer may continue."""
        try:
            self._system.sync_data(fd)
        except OSError as error:
            self._fail(error)

    def _open_next(self, last: int, head: str) -> Tail:
        segment = Segment(segment_path(self._directory, last + 1), last + 1)
        line = lines.opened_line(self._reader.lineage, self._bank_id, segment.first, head, self._erased_before(last))
        # Whole, because a reader must never find a segment without its first line.
        self._system.write_whole(segment.path, line, like=all_segments(self._directory)[-1].path)
        self._reopen(segment)
        inode = os.fstat(self._fd).st_ino
        self._heads.durable = max(self._heads.durable, last)
        self._heads.note_digest((len(line), last, bytes.fromhex(head)), segment, inode)
        self._heads.last_at = self._heads.last_at or self._time_before(segment)
        tail = Tail(segment, inode, len(line), last, self._heads.last_at, 0, None)
        self._heads.tail = tail
        return tail

    def _erased_before(self, last: int) -> int:
        """Return the position of the last erasure up to the end of a segment."""
        # An erasure is always the last event of its segment.
        found = self._reader.line_at(last)
        if found is not None and type_of(found[1]) == "content_erased":
            return last
        segment = all_segments(self._directory)[-1]
        with opened(segment.path) as fd:
            return read_opened(segment, fd)[0].erased

    # ---------------------------------------------------------------- erasing

    def erase(self, what: Erasing, reason: str, by: str | None) -> Plan:
        """Erase as planned; return the plan, with the outcome in its report."""
        # Here, because few processes erase, and its modules take 4 ms of the 120 of a first search.
        from rbank_es.log import erasure
        from rbank_es.log.file.segment_rewrite import SegmentLines

        self.finish_erasure()
        with self._alone() as caches:
            tail = self._caught_up()
            self._cut(tail)  # what an interrupted append left may hold the words, too
            source = SegmentLines(self._directory, self._reader, self._texts)
            planned = erasure.plan(source, what, reason, by)
            if not planned.found and not planned.erasure.texts:
                return planned.carried_out(None, remove_remains(self._directory, self._system))
            remains = kept_remains(self._directory)
            prepared = self._prepare(erasure.records_of(planned, reason, by))
            job = ErasureJob.of(msgspec.structs.replace(item.event, id=item.id) for item in prepared)
            # From here on the erasure will be completed, by whoever writes next.
            self._system.write_whole(self._directory / ERASING, msgspec.json.encode(job))
            return planned.carried_out(self._carry_out(job, prepared, tail, caches), remains)

    def finish_erasure(self) -> None:
        """Complete an interrupted erasure, if there is one."""
        if os.path.lexists(self._erasing):
            with self._alone() as caches:
                job = ErasureJob.read(self._directory / ERASING)
                if job is not None:
                    self._carry_out(job, self._prepare(job.events()), self._caught_up(), caches)

    @contextmanager
    def _alone(self) -> Iterator[list[Path]]:
        """Hold the locks of the folders of derived files, and then that of the bank; give these folders."""
        # In this order, as everybody does who holds both: otherwise two processes could wait for each other.
        try:
            with ExitStack() as held:
                self._cache.found()
                caches = list[Path]()  # of this user, at any place of this bank
                for folder in caches_of(self._bank_id):
                    with suppress(FileNotFoundError):  # swept meanwhile, as that of a bank that is gone
                        held.enter_context(disk.locked(folder / DERIVED_LOCK, self._place))
                        caches.append(folder)
                held.enter_context(self)
                yield caches
        except OSError as error:
            raise LogUnavailable(self._place, "write to", error) from error

    def _carry_out(self, job: ErasureJob, prepared: list[Prepared], tail: Tail, caches: list[Path]) -> Appended:
        try:
            return self._erase_everywhere(job, prepared, tail, caches)
        except OSError as error:
            raise ErasureUnfinished(self._place, error) from error

    def _erase_everywhere(self, job: ErasureJob, prepared: list[Prepared], tail: Tail, caches: list[Path]) -> Appended:
        from rbank_es.log.file import segment_rewrite

        self._cut(tail)
        appended = self._known(prepared, tail)
        if appended is None:
            appended, tail = self._append(prepared, tail)
        self.sync(self._fd)
        # Roll, because readers rely on the active segment never being rewritten.
        if tail.seq >= tail.segment.first:
            tail = self._roll(tail)
        segment_rewrite.rewrite(self._directory, job, self._seed, self._system)
        # Only folders whose lock is held: in one that a copy has made meanwhile, its process may be writing.
        segment_rewrite.clear(self._directory, caches, self._system)
        with self.ids.lock:
            self.ids.forget()  # their index files were removed
        self._heads.leave_receipt(tail)
        self._system.remove(self._directory / ERASING)
        return appended

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Close files, and leave a receipt if anything was appended."""
        with self.lock:
            tail = self._heads.tail
            if self._dirty and tail is not None and tail.seq <= self._heads.durable:
                self._heads.leave_receipt(tail)  # with the head digest, which may have been computed meanwhile
            self._reader.receipts.close()
            self._close_files()

    def _close_files(self) -> None:
        # Forgotten before they are closed, as in `Receipts`.
        files = self._fd, self._lock_fd
        self._release()
        _close_all(files)

    def __del__(self) -> None:
        # As with any file of Python, forgetting to close does not leak.
        try:  # noqa: SIM105  at the interpreter's end `suppress` may be gone
            self._close_files()
        except Exception:
            pass

    def forget(self) -> None:
        """Close the files in a forked child: they must not be shared, nor the parent's locks with them."""
        self._close_files()
        self._reader.holder = None


def _refuse_other_names(fd: int, segment: Segment) -> None:
    """Raise OSError if the file has a second name, perhaps outside of the bank, which a write would change as well."""
    if os.fstat(fd).st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name (a hard link): copy the bank, and use the copy", segment.name)


def _end_of(tail: Tail) -> tuple[int, int, int]:
    return tail.segment.first, tail.inode, tail.offset


def _close_all(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        if fd >= 0:
            os.close(fd)
