# ruff: noqa: D102  the methods without a docstring are documented in `EventLog`
"""The log of an engine that keeps lines in rows: all but the statements, which are in `Rows`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from threading import Event as Signal
from typing import Self

import msgspec

from rbank_es import errors, limits
from rbank_es.events.codec import resolved, type_of, unknown_types
from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log import ancestry, erasure, groups, lines
from rbank_es.log.disk import locked
from rbank_es.log.erasure_residue import ResidueSearch, clear_derived
from rbank_es.log.groups import Clock, Entropy, Prepared
from rbank_es.log.line_transfer import checked_groups, fork_beginnings, fork_lines, stored_upto
from rbank_es.log.lines import Head
from rbank_es.log.protocol import (
    ANY,
    DERIVED_LOCK,
    Ancestor,
    Appended,
    Erasing,
    Erasure,
    EventLog,
    Expected,
    Lease,
    LogEngine,
    Relative,
    Storage,
    Verification,
)
from rbank_es.log.rows.acknowledged_head import AcknowledgedHead
from rbank_es.log.rows.line_rows import Access, ComposedRows, End, RowBatch, Rows, group_rows, kinds_of, refuse_unknown
from rbank_es.log.verification import LogCheck
from rbank_es.system.files import BankCache

_POLL_S = (0.005, 0.5)
"""Seconds between two looks for news: at first, and at most."""


class RowLog:
    """A log in rows; see `EventLog` for its promises. A subclass gives transactions, locks, and sizes."""

    scheme: str
    engine: LogEngine
    page_rows = 500  # that are read at once

    def __init__(
        self, bank_id: str, ancestors: Sequence[Ancestor], place: str, cache: BankCache, clock: Clock, entropy: Entropy
    ) -> None:
        self._bank_id, self._ancestors, self._place = bank_id, tuple(ancestors), place
        self._clock, self._entropy, self._cache = clock, entropy, cache
        self.seed = lines.seed_of(ancestry.lineage_of(self))
        self._acknowledged = AcknowledgedHead(cache, place)

    def rows(self, access: Access = "read") -> AbstractContextManager[Rows]:
        """Give the rows in a transaction, which is committed at the end of the `with` or leaves no trace.

        A `write` excludes other writers of the bank, a `snapshot` sees nothing of them.
        """
        raise NotImplementedError

    def storage(self) -> Storage:
        raise NotImplementedError

    def exclusive(self, name: str) -> AbstractContextManager[Lease]:
        raise NotImplementedError

    @property
    def bank_id(self) -> str:
        return self._bank_id

    @property
    def place(self) -> str:
        return self._place

    @property
    def derived_directory(self) -> Path:
        return self._cache.folder()

    def ancestors(self) -> tuple[Ancestor, ...]:
        return self._ancestors

    def relatives(self) -> tuple[Relative, ...]:
        return tuple(Relative(each.bank, "", each.upto) for each in self._ancestors)

    def owns(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.derived_directory.resolve())

    def new_id(self) -> str:
        return groups.new_id(self._clock, self._entropy)

    # ---------------------------------------------------------------- reading

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        for line in self.lines(after=after, upto=upto, types=types, run=run):
            event = lines.event_of(line)
            yield resolved(event, self.text) if type_of(event) in resolve else event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        if types is not None and (strange := unknown_types(types)):
            raise errors.UnknownEvent(min(strange), None, None)
        end = self.position() if run is not None else limits.COUNT_MOST
        end = end if upto is None else min(end, upto)
        while after < end:
            with self.rows() as rows:
                page = rows.lines(after, end, types, run, self.page_rows)
            for after, line in page:
                yield self._sound(after, line)
            if len(page) < self.page_rows and run is not None:
                return
            if not page:
                return

    def _sound(self, seq: int, line: bytes) -> bytes:
        if not lines.is_intact(line, self.seed) or lines.seq_of(line) != seq:
            raise errors.LogCorruption(f"{self.place}, position {seq:,}", "bytes were changed or lost")
        return line

    def stored(self, upto: int | None = None) -> Iterator[bytes]:
        end = self.head(upto).seq  # raises where there is none
        return stored_upto(self._all_lines(), end, self.seed)

    def _all_lines(self) -> Iterator[bytes]:
        after = 0
        while True:
            with self.rows("snapshot") as rows:
                page = rows.page(after, self.page_rows)
                texts = dict[int, list[bytes]]()
                for seq, line in rows.texts(after, page[-1].seq) if page else ():
                    texts.setdefault(seq, []).append(line)
            for row in page:
                yield from texts.get(row.seq, ())
                yield self._sound(row.seq, row.line)
            if not page:
                return
            after = page[-1].seq

    def position(self) -> int:
        with self.rows() as rows:
            return rows.position()

    def settled(self) -> int:
        return self.position()

    def head(self, at: int | None = None) -> Head:
        with self.rows() as rows:
            seq = rows.position() if at is None else at
            digest = rows.digest(seq) if seq else lines.GENESIS
        if digest is None:
            raise errors.LogCorruption(self.place, f"position {seq:,} is missing", "")
        return Head(seq, digest.hex())

    def mark(self, position: int) -> str | None:
        if not position:
            return ""
        with self.rows() as rows:
            digest = rows.digest(position)
        return None if digest is None else digest.hex()

    def seq_of_id(self, event_id: str) -> int | None:
        with self.rows() as rows:
            return rows.positions([event_id]).get(event_id)

    def text(self, ref: Ref) -> str | None:
        with self.rows() as rows:
            return self._text(rows, ref)

    def _text(self, rows: Rows, ref: Ref) -> str | None:
        line = rows.text(ref.key)
        if line is None:
            raise errors.LogCorruption(self.place, f"the text {ref.key[:12]}… is missing")
        try:
            return lines.read_text(line, self.seed)
        except ValueError as error:
            raise errors.LogCorruption(self.place, f"the text {ref.key[:12]}…: {error}") from None

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        end, (pause_s, most_s) = time.monotonic() + timeout_s, _POLL_S
        while self.position() <= seen and (left := end - time.monotonic()) > 0 and not (stop and stop.is_set()):
            time.sleep(min(pause_s, left))
            pause_s = min(pause_s * 1.5, most_s)

    # ---------------------------------------------------------------- writing

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        prepared = self._prepared(events)
        with self.rows("write") as rows:
            made = self._recorded(rows, prepared, expected)
        return self._acknowledge(made)

    def _prepared(self, events: Sequence[Event]) -> list[Prepared]:
        return groups.prepare_new(events, self._clock, self._entropy, self._holds, self.text)

    def _holds(self, ref: Ref) -> bool:
        with self.rows() as rows:
            return rows.text(ref.key) is not None

    def _recorded(self, rows: Rows, prepared: Sequence[Prepared], expected: int | Expected) -> ComposedRows:
        """Store a group behind the end, or return where it is already. For the holder of a `write` transaction."""
        end = self._end(rows)
        if known := groups.known_group(prepared, rows.positions, partial(self._stored_at, rows)):
            return ComposedRows(known, (), ())
        groups.refuse_erasure_records(prepared)
        groups.check_expected(self.place, expected, end.seq)
        return self._store(rows, prepared, end)

    def _end(self, rows: Rows) -> End:
        """Return the end of the log, if it is one that this release and this writer may write behind."""
        end = rows.end()
        refuse_unknown(end)
        self._acknowledged.require(rows.digest)
        return end

    def _stored_at(self, rows: Rows, seq: int) -> tuple[Event, Event]:
        event = lines.event_of(rows.lines(seq - 1, seq, None, None, 1)[0][1])
        return event, resolved(event, partial(self._text, rows))

    def _store(self, rows: Rows, prepared: Sequence[Prepared], end: End) -> ComposedRows:
        composed = self._composed(prepared, end, rows.keys)
        rows.add(composed.events, composed.texts, kinds_of(composed.appended.events))
        return composed

    def _composed(
        self, prepared: Sequence[Prepared], end: End, keys: Callable[[Collection[bytes]], dict[bytes, str]]
    ) -> ComposedRows:
        digests = groups.text_digests(prepared)
        at = groups.time_after(self._clock(), end.at)
        salt = partial(groups.new_salt, self._entropy)
        now = groups.Circumstances(end.seq + 1, at, end.seq, self.seed, keys(digests) if digests else {}, salt)
        composed = groups.compose(prepared, now)
        events, texts = group_rows(composed, end)
        return ComposedRows(Appended(end.seq + 1, events[-1].seq, composed.events), events, texts)

    def _acknowledge(self, made: ComposedRows) -> Appended:
        """Remember the head behind a group that is durable, so that a log without it is refused."""
        if made.events and made.events[-1].seq > self._acknowledged.seq:
            self._acknowledged.note(Head(made.events[-1].seq, made.events[-1].digest.hex()))
        return made.appended

    def take(self, stored: Iterable[bytes]) -> None:
        """Store the lines of another log, each checked, in this empty one. Raises `LogCorruption`, `UnknownEvent`."""
        with self.rows("write") as rows:
            batch = RowBatch(rows)
            for group in checked_groups(self._bank_id, self._ancestors, stored, batch.has):
                batch.add(group)
            batch.store()

    def add_witness(self, witness: Callable[[], int]) -> None:
        pass

    def sync(self) -> None:
        pass

    # ---------------------------------------------------------------- checking and erasing

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        seq, place = 0, ""
        begun = fork_beginnings(self._bank_id, self._ancestors)
        with self.rows("snapshot") as rows:
            check = LogCheck(
                self.seed,
                noted,
                lambda reason: errors.LogCorruption(f"{self.place}, {place}", reason),
                lambda key: rows.text(key) is not None,
            )
            while page := rows.page(seq, self.page_rows):
                texts = list(rows.texts(seq, page[-1].seq))
                for row in page:
                    while texts and texts[0][0] <= row.seq:
                        line = texts.pop(0)[1]
                        place = f"text {lines.key_of_text(line)[:12]}…"
                        check.line(line)
                    seq, place = row.seq, f"position {row.seq:,}"
                    if seq in begun:
                        check.begin_fork(begun[seq])
                    check.line(row.line)
                    if (seq, row.id, row.digest) != (check.seq, lines.id_of(row.line), check.digest):
                        raise check.damage("what is stored beside the line is not of it")
            place = f"position {seq:,}"
            if rows.position() != check.seq:
                raise check.damage(f"the log ends at {rows.position():,}, and its last event is at {check.seq:,}")
        check.finish(erasing=False)
        head = Head(check.seq, check.digest.hex())
        return Verification(head=head, events=head.seq, texts=check.texts, erased=check.erased, noted=tuple(noted))

    def erasures(self) -> int:
        with self.rows() as rows:
            return rows.erasures()

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        if not dry_run:
            self._require_erasable()
        with (
            locked(self.derived_directory / DERIVED_LOCK, self.place),
            self.rows("snapshot" if dry_run else "write") as rows,
        ):
            planned = erasure.plan(RowSource(self, rows), what, reason, by)
            if planned.found:
                holders = ancestry.holders(self.relatives(), planned.erasure.places)
                planned = planned._replace(erasure=msgspec.structs.replace(planned.erasure, relatives=holders))
            if dry_run:
                return planned.erasure
            if not planned.found and not planned.erasure.texts:
                return planned.carried_out(None, {}).erasure
            records = erasure.records_of(planned, reason, by)
            made = self._store(rows, self._prepared(records), self._end(rows))
            planned = planned.carried_out(made.appended, {})
            # First what the next erasure of the same words would not find again, should a signal interrupt this one.
            clear_derived(self.derived_directory)
            self._rewrite(rows, erasure.Targets.of(records))
        self._acknowledge(made)
        self._remove_old_rows()
        if rebuild is not None:
            rebuild()
        search = ResidueSearch(planned.sought)
        with self.rows("snapshot") as rows:
            search.look_through_lines(self.place, (block for _, block in RowSource(self, rows).blocks("")))
        search.look_through_files(self.derived_directory)
        return msgspec.structs.replace(planned.erasure, residue=search.residue())

    def _rewrite(self, rows: Rows, targets: erasure.Targets) -> None:
        lines_at = ((seq, rows.lines(seq - 1, seq, None, None, 1)[0][1]) for seq in targets.paths)
        rows.rewrite(
            [(seq, targets.erased_line(line, self.seed)[:-1]) for seq, line in lines_at],
            [(key, lines.text_erased_line(key, self.seed)[:-1]) for key in targets.keys],
        )

    def _require_erasable(self) -> None:
        """Raise what keeps this user from an erasure, before anything is changed."""

    def _remove_old_rows(self) -> None:
        """Remove the bytes of rows that an erasure rewrote, where the database keeps them."""

    # ---------------------------------------------------------------- copies and forks

    def copy(self, upto: int, into: str | None = None) -> EventLog:
        return self._branch(into, self._bank_id, self._ancestors, self.stored(upto))

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> EventLog:
        made_id = self._entropy(16).hex()
        begun = fork_lines(self, upto, made_id, name=name, by=by, clock=self._clock, entropy=self._entropy)
        return self._branch(into, made_id, begun.ancestors, begun.stored)

    def _branch(
        self, into: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes]
    ) -> EventLog:
        return self.engine.receive(into, bank_id, ancestors, stored, clock=self._clock, entropy=self._entropy)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RowSource:
    """The lines of a log, as erasure searches them: all in one part."""

    def __init__(self, log: RowLog, rows: Rows) -> None:
        self.seed, self._log, self._rows = log.seed, log, rows

    def parts(self) -> Collection[str]:
        return ("",)

    def line_at(self, seq: int) -> tuple[str, bytes] | None:
        found = self._rows.lines(seq - 1, seq, None, None, 1) if seq > 0 else ()
        return ("", found[0][1]) if found else None

    def lines_with(self, part: str, needle: bytes) -> Iterator[bytes]:
        return (line for _, line in self.blocks(part) if needle in line)

    def blocks(self, part: str) -> Iterator[tuple[str, bytes]]:
        seq = 0
        while page := self._rows.page(seq, self._log.page_rows):
            yield from (("a long text", line) for _, line in self._rows.texts(seq, page[-1].seq))
            yield from ((f"position {row.seq}", row.line) for row in page)
            seq = page[-1].seq

    def text(self, ref: Ref, part: str) -> str | None:
        return self._log._text(self._rows, ref)
