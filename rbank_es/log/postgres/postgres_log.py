# ruff: noqa: D102  the methods without a docstring are documented in `EventLog`
"""The log of a bank on a PostgreSQL server: appends in one round trip, leases, erasure, broken connections."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import msgspec
import psycopg
from psycopg import errors as states

from rbank_es import errors
from rbank_es.events import ContentErased
from rbank_es.events.event_envelope import Event
from rbank_es.limits import postgres_limits as limits
from rbank_es.log import groups
from rbank_es.log.groups import Clock, Entropy, Prepared
from rbank_es.log.postgres.postgres_rows import APPEND, AppendTerms, PostgresRows, append_values
from rbank_es.log.postgres.postgres_schema import BANK_GONE, HEAD_BEHIND, LEASE_TAKEN
from rbank_es.log.postgres.postgres_server import FLUSH, ConnectionLost, Server
from rbank_es.log.protocol import (
    ANY,
    EMPTY,
    NOT_REACHED,
    Ancestor,
    Appended,
    Erasing,
    Erasure,
    Expected,
    Lease,
    LogEngine,
    Relative,
    Storage,
)
from rbank_es.log.rows.line_rows import Access, ComposedRows, End, kinds_of
from rbank_es.log.rows.row_log import RowLog
from rbank_es.log.writer_errors import LeaseLost, LogBehind
from rbank_es.system.files import BankCache

_TABLES = "rbank.event, rbank.text"
_STANDING = "the server's write-ahead log until it is recycled, its replicas, its backups"


class PostgresLog(RowLog):
    """A log on a server; see `EventLog` for its promises. Safe for many machines, processes and threads."""

    scheme = "postgresql"

    def __init__(
        self,
        engine: LogEngine,
        server: Server,
        name: str,
        number: int,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        *,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.engine, self.server, self.number = engine, server, number
        place = f"{server.place}/{name}"
        super().__init__(bank_id, ancestors, place, BankCache(bank_id, place), clock, entropy)
        self._last: End | None = None
        self._is_contended = False
        self._leases: dict[str, int] = {}

    @contextmanager
    def rows(self, access: Access = "read") -> Iterator[PostgresRows]:
        writer = AppendTerms(self._acknowledged.seq, dict(self._leases), not self._is_contended)
        if access == "read":
            yield PostgresRows(self.server.execute, self.number, self.place, writer)
            return
        if access == "snapshot":
            self.server.execute("SELECT 1")  # a connection that a restart ended is made anew before the transaction
        with self._refusals(), self.server.transaction(access) as begun:
            yield PostgresRows(begun.execute, self.number, self.place, writer, begun)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise the error of a writer for one that `append` raised on the server."""
        try:
            yield
        except psycopg.DatabaseError as error:
            if error.sqlstate == LEASE_TAKEN:
                raise LeaseLost(self.place, ", ".join(self._leases)) from error
            if error.sqlstate == HEAD_BEHIND:
                raise LogBehind(self.place, self._last.seq if self._last else 0, self.derived_directory) from error
            if error.sqlstate == BANK_GONE:
                raise errors.BankNotFound(self.place) from error
            raise

    def relatives(self) -> tuple[Relative, ...]:
        known = {each.bank: Relative(each.bank, "", each.upto) for each in self.ancestors()}
        statement = "SELECT id, name, ancestors FROM rbank.bank WHERE name NOT LIKE '.%' AND no <> $1"
        for bank, name, chain in self.server.execute(statement, (self.number,)):
            place = f"{self.server.place}/{name}"
            shared = [upto for parent, upto in chain if parent == self.bank_id]
            if bank in known or shared:
                known[bank] = Relative(bank, place, shared[0] if shared else known[bank].shared)
        return tuple(known.values())

    def storage(self) -> Storage:
        statement = "SELECT coalesce(sum(octet_length(line)), 0)::bigint FROM rbank.event WHERE bank = $1"
        [(size,)] = self.server.execute(statement, (self.number,))
        return Storage(1, 0, size, 0)

    # ---------------------------------------------------------------- writing

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        prepared = self._prepared(events)
        groups.refuse_repeated_ids([item.id for item in prepared if item.event.id])
        sent = False

        def act() -> Appended:
            nonlocal sent
            # A connection that broke behind COMMIT: the ids, the writer's or drawn above, tell whether it came in.
            if sent:
                self._last = None
                if found := self._found(prepared):
                    return found
            sent = True
            return self._in_one_trip(prepared, expected) or self._in_two_trips(prepared, expected)

        return self.server.patiently(act)

    def _found(self, prepared: Sequence[Prepared]) -> Appended | None:
        """Return the group as the log has it if its append came in, behind a sync. Raises `DuplicateEvent`."""
        given = [
            msgspec.structs.replace(item, event=msgspec.structs.replace(item.event, id=item.id)) for item in prepared
        ]
        with self.rows() as rows:
            known = groups.known_group(given, rows.positions, partial(self._stored_at, rows))
            if known is None:
                return None
            self._flush(known.last, rows.digest(known.last))
        return msgspec.structs.replace(known, duplicate=False)

    def _in_one_trip(self, prepared: Sequence[Prepared], expected: int | Expected) -> Appended | None:
        """Append behind the head of this handle's last append. Return None where others wrote, or an id is known."""
        end = None if self._is_contended else self._last
        wanted = 0 if expected is EMPTY else expected
        if end is None or (expected is not ANY and wanted != end.seq):
            return None
        if any(isinstance(item.event, ContentErased) for item in prepared):
            return None
        with self.rows() as rows:
            composed = self._composed(prepared, end, rows.keys)
        writer = AppendTerms(end.seq, dict(self._leases), True)
        kinds = kinds_of(composed.appended.events)
        values = append_values(self.number, end, composed.events, composed.texts, kinds, writer)
        with suppress(states.UniqueViolation), self._refusals():
            if self.server.once(APPEND, values):
                return self._acknowledge(composed)
            self._is_contended = True
        return None

    def _in_two_trips(self, prepared: Sequence[Prepared], expected: int | Expected) -> Appended:
        """Lock the head row, then compose and append. Where writers contend, wait for the disk behind the lock."""
        with self.rows("write") as rows:
            recorded = self._recorded(rows, prepared, expected)
        if recorded.events:
            self._is_contended = self._last is not None and recorded.events[0].seq != self._last.seq + 1
        else:
            self._flush(recorded.appended.last, bytes.fromhex(self.head(recorded.appended.last).digest))
        return self._acknowledge(recorded)

    def _acknowledge(self, made: ComposedRows) -> Appended:
        if made.events:
            last = made.events[-1]
            self._last = End(last.seq, made.appended.events[-1].at, last.digest, None, ())
        return super()._acknowledge(made)

    def sync(self) -> None:
        """See `EventLog.sync`. A synced commit flushes all that came before it; a replica has only what was flushed."""
        if not self.server.is_replica:
            self.server.execute(f"SELECT {FLUSH}")

    def settled(self) -> int:
        if self.server.is_replica:
            return self.position()  # what it has was flushed where it comes from

        def act() -> int:
            head = self.head()
            self._flush(head.seq, bytes.fromhex(head.digest) if head.seq else None)
            return head.seq

        return self.server.patiently(act)

    def _flush(self, seq: int, digest: bytes | None) -> None:
        """Wait until the event at a position is on the server's disk. Raises `ConnectionLost` where it is not there.

        Between its commit and this statement the server may have crashed, and forgotten it.
        """
        statement = f"SELECT (SELECT digest FROM rbank.event WHERE bank = $1 AND seq = $2), {FLUSH}"
        if self.server.once(statement, (self.number, seq)) != digest or (seq and digest is None):
            raise ConnectionLost(self.place, RuntimeError("the server lost a commit that it had not yet written"))

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Lease]:
        """See `EventLog.exclusive`. After a crash of its holder, a name is free when the lease has run out."""
        taking = ("SELECT rbank.take_lease($1, $2, $3, $4)", (self.number, name, limits.LEASE_S, os.urandom(16)))
        number = self.server.patiently(lambda: self.server.once(*taking))
        if number is None:
            raise errors.LogBusy(self.place, 0)
        ended = threading.Event()
        keeper = threading.Thread(target=self._renew, args=(name, number, ended), daemon=True)
        self._leases[name] = number
        keeper.start()
        try:
            yield Lease(number)
        finally:
            ended.set()
            keeper.join()
            del self._leases[name]
            with suppress(errors.LogError, psycopg.Error):
                self._hold(name, number, 0)

    def _renew(self, name: str, number: int, ended: threading.Event) -> None:
        while not ended.wait(limits.LEASE_S / 3):
            with suppress(errors.LogError, psycopg.Error):
                if not self._hold(name, number, limits.LEASE_S):
                    return  # another took over: the next append says so

    def _hold(self, name: str, number: int, held_s: float) -> bool:
        values = (self.number, name, number, held_s)
        # Again on another connection where one broke, also when it is given back: who waits would wait for its end.
        [(held,)] = self.server.execute("SELECT rbank.renew_lease($1, $2, $3, $4)", values)
        return bool(held)

    def close(self) -> None:
        """See `EventLog.close`. Other logs of this database make connections anew."""
        self.server.close_idle()

    # ---------------------------------------------------------------- erasing

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        made = super().erase(what, reason=reason, by=by, dry_run=dry_run, rebuild=rebuild)
        return msgspec.structs.replace(made, not_reached=f"{_STANDING}, {NOT_REACHED}")

    def _require_erasable(self) -> None:
        statement = (
            "SELECT pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner), current_user FROM pg_class c"
            " WHERE c.oid = 'rbank.event'::regclass"
        )
        [(is_owner, owner, user)] = self.server.execute(statement)
        if not is_owner:
            raise errors.BadInput(
                f"erasing rewrites tables, which only {owner} may do; {user} may not. Connect as {owner}"
            )

    def _remove_old_rows(self) -> None:
        self.sync()  # where the commit was not waited for
        self.server.vacuum(_TABLES)  # a plain VACUUM leaves the bytes of rows in their pages
