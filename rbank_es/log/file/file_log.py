"""The `file:` engine: a directory of JSON Lines segments, one writer at a time, any number of readers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.errors import BadInput, BankExists, LogUnavailable
from rbank_es.events.event import Event, Ref
from rbank_es.log.file import erasure, hints, lines, segment_copy, system_calls, verification
from rbank_es.log.file.heads import Heads
from rbank_es.log.file.long_texts import Texts
from rbank_es.log.file.reader import Reader, opened
from rbank_es.log.file.segments import all_segments, list_segments, read_opened, segment_path
from rbank_es.log.file.writer import LOCK, Writer
from rbank_es.log.protocol import ANY, Appended, Erasing, Erasure, Expected, Head, Verification


class FileLog:
    """A log in a directory; see `EventLog` for what it promises. Safe for many processes and threads.

    `clock` returns UTC microseconds, `entropy` random bytes; both are there to be replaced where a log must come out
    the same every time. `calls` are the system calls, for fault injection. `unsafe_no_sync` gives up durability: an
    acknowledged event may be lost with the power.
    """

    def __init__(
        self,
        directory: Path,
        bank_id: str,
        *,
        clock: system_calls.Clock = system_calls.system_clock,
        entropy: system_calls.Entropy = os.urandom,
        calls: system_calls.System | None = None,
        unsafe_no_sync: bool = False,
    ) -> None:
        self.directory = directory
        self._bank_id = bank_id
        self._reader = Reader(directory, bank_id)
        self._texts = Texts(directory, bank_id)
        self._heads = Heads(directory, bank_id, self._reader)
        self._writer = Writer(
            directory,
            bank_id,
            self._reader,
            self._texts,
            self._heads,
            clock=clock,
            entropy=entropy,
            calls=calls or system_calls.System(),
            unsafe_no_sync=unsafe_no_sync,
        )

    @classmethod
    def create(cls, directory: Path, events: Sequence[Event] = (), **options: Any) -> FileLog:
        """Make a log that begins with these events: nobody ever sees it without them.

        Raises `BankExists`, `LogUnavailable`, and what `append` raises for events that can't be.
        """
        calls: system_calls.System = options.get("calls") or system_calls.System()
        try:
            missing = [place for place in (directory, *directory.parents) if not place.exists()]
            (directory / hints.FOLDER).mkdir(parents=True, exist_ok=True)
            for place in missing:
                calls.sync_directory(place.parent)
            with system_calls.locked(directory / LOCK, str(directory)):
                if list_segments(directory):
                    raise BankExists(str(directory))
                bank_id = options.get("entropy", os.urandom)(16).hex()
                log = cls(directory, bank_id, **options)
                first = lines.opened_line(bank_id, 1, lines.GENESIS.hex(), 0)
                calls.write_whole(segment_path(directory, 1), first + log._writer.first_group(events))
        except OSError as error:
            raise LogUnavailable(str(directory), "make a bank in", error) from error
        return log

    @classmethod
    def open(cls, directory: Path, **options: Any) -> FileLog:
        """Open a log. Raises `BankNotFound`, `LogCorruption`, `LogUnavailable`."""
        try:
            segments = all_segments(directory)
            with opened(segments[0].path) as fd:
                first, _ = read_opened(segments[0], fd)
        except OSError as error:
            raise LogUnavailable(str(directory), "read", error) from error
        return cls(directory, first.bank, **options)

    def copy(self, into: Path, upto: int, **options: Any) -> FileLog:
        """The log as it was at a position, in another directory: the same bank id, ids, times, texts and heads.

        Texts erased since are missing from it; if the event that says so is beyond the position, it doesn't `verify`.
        `options` go to the copy. Raises `BadInput` where something is there already, `LogCorruption`,
        `LogUnavailable`.
        """
        with self._reading():
            if into.exists() and any(into.iterdir()):
                raise BadInput(f"{into} is not empty; choose another directory")
        try:
            (into / hints.FOLDER).mkdir(parents=True, exist_ok=True)
            segment_copy.copy_segments(self.directory, into, upto, lines.seed_of(self._bank_id))
        except OSError as error:
            raise LogUnavailable(str(into), "make a copy in", error) from error
        return FileLog.open(into, **options)

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
        return self._heads.folder

    def new_id(self) -> str:
        """See `EventLog.new_id`."""
        return self._writer.new_id()

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """See `EventLog.append`."""
        return self._writer.append(events, expected)

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
        with self._reading():
            for batch in self._reader.batches(after, upto, types):
                if not wanted:
                    yield from batch.events
                    continue
                for event in batch.events:
                    named = event.__struct_config__.tag in wanted
                    yield self._texts.resolved(event, batch.segment) if named else event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None
    ) -> Iterator[bytes]:
        """See `EventLog.lines`."""
        with self._reading():
            for batch in self._reader.batches(after, upto, types):
                yield from batch.lines

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LogUnavailable(self.place, "read", error) from error

    def position(self) -> int:
        """See `EventLog.position`."""
        with self._reading():
            return self._heads.look().seq

    def head(self, at: int | None = None) -> Head:
        """See `EventLog.head`."""
        with self._reading():
            return self._heads.head(self.position() if at is None else at)

    def crc_at(self, seq: int) -> str | None:
        """See `EventLog.crc_at`."""
        with self._reading():
            found = self._reader.line_at(seq)
        return found[1].crc if found is not None else None

    def seq_of_id(self, event_id: str) -> int | None:
        """See `EventLog.seq_of_id`."""
        with self._reading():
            seq = self._writer.ids.seq_of(event_id)
        return seq if seq is not None and seq <= self.position() else None

    def text(self, ref: Ref) -> str | None:
        """See `EventLog.text`."""
        with self._reading():
            return self._texts.read(ref)

    def erasures(self) -> int:
        """See `EventLog.erasures`: the position of the last erasure, 0 for none."""
        segment = all_segments(self.directory)[-1]
        with self._reading(), opened(segment.path) as fd:
            return read_opened(segment, fd)[0].erased

    def erase(self, what: Erasing, *, reason: str = "", by: str | None = None, dry_run: bool = False) -> Erasure:
        """See `EventLog.erase`."""
        if dry_run:
            with self._reading():
                return erasure.plan(self.directory, self._reader, self._texts, what, f"{reason}\n{by or ''}").erasure
        return self._writer.erase(what, reason, by)

    def sync(self) -> None:
        """See `EventLog.sync`."""
        with self._reading(), opened(all_segments(self.directory)[-1].path) as fd:
            self._writer.sync(fd)

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        """See `EventLog.verify`. Where a sync had failed, a sound log is synced again and opened to writers."""
        with self._reading():
            seen = verification.verify(self.directory, self._bank_id, self._reader, noted)
        return msgspec.structs.replace(seen, cleared=True) if self._writer.recover() else seen

    def close(self) -> None:
        """See `EventLog.close`."""
        self._writer.close()

    def __enter__(self) -> FileLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
