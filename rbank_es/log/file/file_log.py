# ruff: noqa: D102  the methods without a docstring are documented in `EventLog` and `LogEngine`
"""The `file:` engine: a log is a directory of JSON Lines segments; one writer at a time, any number of readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event as Signal
from typing import Any

import msgspec

from rbank_es.errors import (
    BadInput,
    BankExists,
    BankNotFound,
    LogCorruption,
    LogUnavailable,
    PositionConflict,
)
from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log import ancestry, lines
from rbank_es.log.disk import LOCK, Receipts, System, locked
from rbank_es.log.file import related_banks, run_index
from rbank_es.log.file.bank_directory import directory_of, drafted, make_directory
from rbank_es.log.file.position_index import Heads, Ids
from rbank_es.log.file.reader import LineBatch, Reader
from rbank_es.log.file.run_index import RunIndex, Wanted
from rbank_es.log.file.segments import (
    Segment,
    Texts,
    all_segments,
    ancestors_of,
    identity_of,
    list_segments,
    read_opened,
    segment_of,
    segment_path,
)
from rbank_es.log.file.writer import Writer
from rbank_es.log.groups import Clock, Entropy, system_clock
from rbank_es.log.line_transfer import stored_upto
from rbank_es.log.lines import Head
from rbank_es.log.protocol import (
    ANY,
    DERIVED_LOCK,
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
from rbank_es.system.files import (
    BankCache,
    NotRegular,
    caches_of,
    is_scratch,
    opened,
    remove_temporary,
    temporary_folder,
)


class FileLog:
    """A log in a directory; see `EventLog` for its promises. Safe for many processes and threads.

    `lineage` is the id of the bank from which this one descends by forking; by default it is the first of its lineage.
    `clock` returns UTC microseconds, `entropy` random bytes; both can be replaced where a log must be reproducible.
    `calls` are the system calls, for fault injection. `unsafe_no_sync` gives up durability: an acknowledged event may
    be lost in a power cut.
    """

    def __init__(
        self,
        directory: Path,
        bank_id: str,
        lineage: str = "",
        *,
        clock: Clock = system_clock,
        entropy: Entropy = os.urandom,
        calls: System | None = None,
        unsafe_no_sync: bool = False,
    ) -> None:
        self.directory = directory
        self._bank_id = bank_id
        self._lineage = lineage or bank_id
        self._options: dict[str, Any] = {"clock": clock, "entropy": entropy, "calls": calls or System()}
        self._unsafe_no_sync = unsafe_no_sync
        self._cache = BankCache(bank_id, directory)
        self._receipts = Receipts(self._cache, bank_id)
        self._reader = Reader(directory, self._lineage, self._receipts)
        self._texts = Texts(directory, self._reader.seed)
        self._heads = Heads(directory, self._reader)
        self._ids = Ids(directory, self._reader, self._cache)
        self._receipts.add_witness(self._ids.indexed)
        self._run_index: RunIndex | None = None
        self._writing: Writer | None = None
        self._is_scratch = False

    @classmethod
    def create(cls, directory: Path, events: Sequence[Event] = (), **options: Any) -> FileLog:
        """Make a log that begins with these events. No reader ever sees it without them.

        Raises `BankExists`, `LogUnavailable`, and what `append` raises for events that it refuses.
        """
        calls: System = options.get("calls") or System()
        try:
            missing = [place for place in (directory, *directory.parents) if not place.exists()]
            make_directory(directory)
            for place in missing:  # a directory survives a power cut when its parent was synced
                calls.sync_directory(place.parent)
            with locked(directory / LOCK, str(directory)):
                if list_segments(directory):
                    raise BankExists(str(directory))
                bank_id = options.get("entropy", os.urandom)(16).hex()
                log = cls(directory, bank_id, **options)
                first = lines.opened_line(bank_id, bank_id, 1, lines.GENESIS.hex(), 0)
                calls.write_whole(segment_path(directory, 1), first + log._writer.first_group(events))
        except OSError as error:
            raise LogUnavailable(str(directory), "make a bank in", error) from error
        return log

    @classmethod
    def open(cls, directory: Path, **options: Any) -> FileLog:
        """Open a log. Raises `BankNotFound`, `LogCorruption`, `LogUnavailable`."""
        with _reading(str(directory)):
            lineage, bank_id = identity_of(directory)
        return cls(directory, bank_id, lineage, **options)

    def copy(self, upto: int, into: str | None = None) -> FileLog:
        from rbank_es.log.file import segment_copy

        place = directory_of(into) if into is not None else temporary_folder("copy") / "bank"
        with self._reading():
            if place.exists() and any(place.iterdir()):
                raise BadInput(f"{place} is not empty; choose another directory")
        try:
            make_directory(place)
            segment_copy.copy_segments(self.directory, place, upto, self._reader.seed, self._options["calls"])
        except OSError as error:
            raise LogUnavailable(str(place), "make a copy in", error) from error
        # A scratch copy does not survive its process anyway.
        return FileLog._made(place, is_scratch=into is None, unsafe_no_sync=into is None)

    @classmethod
    def _made(cls, place: Path, *, is_scratch: bool, **options: Any) -> FileLog:
        made = cls.open(place, **options)
        made._cache.remove()  # an earlier log in the same place may have been longer
        made._is_scratch = is_scratch
        return made

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> FileLog:
        from rbank_es.log.file import segment_copy

        ancestry.check_fork_point(self, upto)
        place = directory_of(into) if into is not None else temporary_folder("fork") / "bank"
        if self.owns(place.parent):
            raise BadInput(f"{place} is inside the bank's own directory; choose a place outside of it")
        with self._reading(), opened(all_segments(self.directory)[-1].path) as fd:
            self._writer.sync(fd)  # because a loss of power must not take from this log what the fork has
        made_id, calls = self._options["entropy"](16).hex(), self._options["calls"]
        with drafted(place, calls) as draft, _reading(str(place), "make a fork in"), self._reader.quiet():
            basis = segment_copy.take_over(self.directory, draft, upto, self._reader, self._heads, calls)
            head = Head(upto, basis.digest)
            events = ancestry.opening_events(self, head, made_id, basis.erased_texts, name=name or place.name, by=by)
            segment_copy.begin_fork(draft, basis, events, made_id, self._lineage, **self._options)
        made = FileLog.open(place, unsafe_no_sync=into is None)
        made._is_scratch = into is None
        for log in () if into is None else (self, made):
            related_banks.note_place(self._lineage, log.directory)
        return made

    def ancestors(self) -> tuple[Ancestor, ...]:
        with self._reading():
            return ancestors_of(self.directory)

    def relatives(self) -> tuple[Relative, ...]:
        return related_banks.known_relatives(self._lineage, self)

    def storage(self) -> Storage:
        with self._reading():
            each = [segment.path.lstat() for segment in all_segments(self.directory)]
        shared = [status.st_size for status in each if status.st_nlink > 1]
        return Storage(len(each), len(shared), sum(status.st_size for status in each), sum(shared))

    def moved_to(self, directory: Path) -> None:
        """Keep what was derived from the log, whose directory was just renamed. Open the log there to use it."""
        self._cache.move(directory)

    @property
    def _runs(self) -> RunIndex:
        # On first use: most logs are not read by run. Not by `cached_property`, for the reason given in `IdIndex`.
        if self._run_index is None:
            self._run_index = RunIndex(self._reader, self._heads, self._cache)
        return self._run_index

    @property
    def _writer(self) -> Writer:
        # On first use, too. Under a lock that a fork frees: a second writer would reset the tail during an append.
        with self._receipts.lock:
            if self._writing is None:
                parts = self.directory, self._bank_id, self._reader, self._texts, self._heads, self._ids, self._cache
                self._writing = Writer(*parts, unsafe_no_sync=self._unsafe_no_sync, **self._options)
            return self._writing

    @property
    def scheme(self) -> str:
        return "file"

    @property
    def bank_id(self) -> str:
        return self._bank_id

    @property
    def place(self) -> str:
        return str(self.directory)

    @property
    def derived_directory(self) -> Path:
        try:
            return self._cache.folder()
        except OSError as error:
            raise LogUnavailable(self.place, "keep what is derived from", error) from error

    def new_id(self) -> str:
        return self._writer.new_id()

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        return self._writer.append(events, expected)

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        wanted = frozenset(resolve)
        with self._reading():
            for batch in self._batches(after, upto, types, run):
                if not wanted:
                    yield from batch.events
                    continue
                with self._texts.resolving(batch.segment) as resolved:
                    for event in batch.events:
                        yield resolved(event) if event.__struct_config__.tag in wanted else event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        with self._reading():
            for batch in self._batches(after, upto, types, run):
                yield from batch.lines

    def stored(self, upto: int | None = None) -> Iterator[bytes]:
        from rbank_es.log.file import segment_copy

        end = self.head(upto).seq  # raises where there is none
        with self._reading():
            yield from stored_upto(segment_copy.stored_lines(self._reader), end, self._reader.seed)

    def _batches(
        self, after: int, upto: int | None, types: Collection[str] | None, run: str | None
    ) -> Iterator[LineBatch]:
        if run is None and (types is None or not self._is_sparse(after, upto, types)):
            return self._reader.batches(after, upto, types)
        return self._runs.batches(after, upto, types, run)

    def _is_sparse(self, after: int, upto: int | None, types: Collection[str]) -> bool:
        """Return whether few events between two positions are of these types, as far as the index knows."""
        head = self._heads.look().seq
        upto = head if upto is None else min(upto, head)
        wanted = Wanted(after, upto, frozenset(types))
        return upto - after >= run_index.SPARSE_EVENTS and self._runs.is_sparse(wanted)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with _reading(self.place):
            yield

    def position(self) -> int:
        with self._reading():
            return self._heads.look().seq

    def settled(self) -> int:
        return self.position()

    def mark(self, position: int) -> str | None:
        with self._reading():
            return self._reader.mark(position) if position else ""

    def head(self, at: int | None = None) -> Head:
        with self._reading():
            return self._heads.head(self.position() if at is None else at)

    def seq_of_id(self, event_id: str) -> int | None:
        with self._reading():
            return self._ids.find([event_id], self._heads.look()).get(event_id)

    def text(self, ref: Ref) -> str | None:
        with self._reading():
            return self._texts.read(ref)

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        """See `EventLog.wait`. On file systems without notification (NFS), every wait lasts until the timeout."""
        from watchfiles._rust_notify import RustNotify  # slow to load

        with RustNotify([str(self.directory)], False, False, 300, False, False) as watcher:
            # Compare after the watcher was made: a change in between would wake nobody.
            if self.position() > seen:
                return
            if watcher.watch(20, 10, int(timeout_s * 1000), stop) == "signal":
                raise KeyboardInterrupt

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Lease]:
        """See `EventLog.exclusive`. The lock ends with the process, however that ends."""
        if f"{name}.lock" == DERIVED_LOCK:
            raise BadInput(f"the name {name!r} is taken by the log itself; choose another")
        with ExitStack() as stack:
            try:
                # In the bank, because other users' processes are excluded as well.
                stack.enter_context(locked(self.directory / f"{name}.lock", self.place, wait_s=0))
            except OSError as error:
                raise LogUnavailable(self.place, "write to", error) from error
            yield Lease()

    def owns(self, path: Path) -> bool:
        """See `EventLog.owns`: the log owns its whole directory, and that of what is derived from it."""
        owned = (self.directory, self._cache.found() or self.directory)
        return any(path.resolve().is_relative_to(directory.resolve()) for directory in owned)

    def erasures(self) -> int:
        segment = all_segments(self.directory)[-1]
        # The first line of the last segment shows this, because an erasure always ends a segment.
        with self._reading(), opened(segment.path) as fd:
            return read_opened(segment, fd)[0].erased

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        from rbank_es.log import erasure
        from rbank_es.log.file import segment_check, segment_rewrite

        with self._reading():
            links = [(segment, segment.path.lstat().st_nlink) for segment in all_segments(self.directory)]
        if dry_run:
            with self._reading():
                source = segment_rewrite.SegmentLines(self.directory, self._reader, self._texts)
                planned = erasure.plan(source, what, reason, by)
                found = msgspec.structs.replace(planned.erasure, remains=segment_check.remains_of(self._reader))
                return self._with_relatives(found, links)
        planned = self._writer.erase(what, reason, by)
        if planned.erasure.appended is None and not planned.erasure.remains:
            return planned.erasure
        if rebuild is not None:
            rebuild()
        with self._reading():
            source = segment_rewrite.SegmentLines(self.directory, self._reader, self._texts)
            caches = {self.derived_directory, *caches_of(self._bank_id)}
            residue = segment_rewrite.residue_of(source, self.directory, caches, planned.sought)
        return self._with_relatives(msgspec.structs.replace(planned.erasure, residue=residue), links)

    def _with_relatives(self, found: Erasure, links: list[tuple[Segment, int]]) -> Erasure:
        """Return the report with the banks that may hold the texts, too; `links` has the links of segments before."""
        if not found.places:
            return found
        segments, numbers = zip(*links, strict=True)
        concerned = {segment_of(list(segments), place.seq) for place in found.places}
        return msgspec.structs.replace(
            found,
            relatives=ancestry.holders(self.relatives(), found.places),
            shared_parts=sum(numbers[index] > 1 for index in concerned),
        )

    def add_witness(self, witness: Callable[[], int]) -> None:
        self._receipts.add_witness(witness)

    def sync(self) -> None:
        with self._reading():
            tail = self._heads.look()
            with opened(all_segments(self.directory)[-1].path) as fd:
                self._writer.sync(fd)
            self._heads.leave_receipt(tail)

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        """See `EventLog.verify`. If a sync failed earlier, a sound log is synced again and admits writers."""
        from rbank_es.log.file.segment_check import verified

        with self._reading():
            try:
                seen = verified(self._reader, noted)
            except LogCorruption:
                # It may have been an erasure under way: once more, while no writer moves.
                with self._reader.quiet():
                    seen = verified(self._reader, noted)
        return msgspec.structs.replace(seen, cleared=True) if self._writer.recover() else seen

    def close(self) -> None:
        if self._writing is not None:
            self._writing.close()
        if self._is_scratch:
            self._cache.remove()
            remove_temporary(self.directory.parent)

    def __enter__(self) -> FileLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _reading(place: str, verb: str = "read") -> Iterator[None]:
    """Raise the error of the log for one of the system."""
    try:
        yield
    except NotRegular as error:
        raise LogCorruption(str(error.filename), str(error.strerror), "Remove it, or restore the file.") from error
    except OSError as error:
        raise LogUnavailable(place, verb, error) from error


class FileEngine:
    """The engine that keeps each log in a directory."""

    outlives_process = True

    def name_of(self, locator: str) -> str:
        return directory_of(locator).name

    def open(self, locator: str, **options: Any) -> FileLog:
        return FileLog.open(directory_of(locator), **options)

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> FileLog:
        """See `LogEngine.create`. A directory that holds files other than a log's remains raises `BankExists`."""
        directory = directory_of(locator)
        if fill is not None:
            return self._filled(directory, events, fill, options)
        with suppress(BankNotFound):
            log = FileLog.open(directory, **options)
            try:
                log.append(events, expected=EMPTY)
            except PositionConflict:
                raise BankExists(str(directory)) from None
            return log
        if directory.exists() and not directory.is_dir():
            raise BankExists(str(directory), "it is a file")
        if directory.is_dir() and any(
            path.suffix != ".lock" and path.name != LOCK and not is_scratch(path.name) for path in directory.iterdir()
        ):
            raise BankExists(str(directory), "the directory holds other files")
        return FileLog.create(directory, events, **options)

    def _filled(
        self, directory: Path, events: Sequence[Event], fill: Callable[[EventLog], object], options: dict[str, Any]
    ) -> FileLog:
        """Make the log in a draft directory, and give this its place when the log is complete."""
        calls = options.get("calls") or System()
        with drafted(directory, calls) as draft, FileLog.create(draft, events, **options) as log:
            fill(log)
        log.moved_to(directory)
        return FileLog.open(directory, **options)

    def receive(
        self, locator: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], **options: Any
    ) -> FileLog:
        from rbank_es.log.file.received_segments import received

        directory = temporary_folder("copy") / "bank" if locator is None else directory_of(locator)
        options |= {"unsafe_no_sync": True} if locator is None else {}
        with _reading(str(directory), "make a bank in"):
            received(directory, bank_id, ancestors, stored, options)
        return FileLog._made(directory, is_scratch=locator is None, **options)


ENGINE = FileEngine()
