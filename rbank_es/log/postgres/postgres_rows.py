# ruff: noqa: D102  the methods without a docstring are documented in `Rows`
"""The statements for the rows of one bank on a server; see `Rows`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from rbank_es.errors import BankNotFound
from rbank_es.limits import postgres_limits as limits
from rbank_es.log import lines
from rbank_es.log.postgres.postgres_server import Transaction
from rbank_es.log.rows.line_rows import End, LineRow, TextRow

Execute = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

LOCK_HEAD = "SELECT * FROM rbank.lock_head($1, $2, $3, $4)"
APPEND = f"SELECT rbank.append({', '.join(f'${number}' for number in range(1, 20))})"


class AppendTerms(NamedTuple):
    """What each append of a handle carries: the position that it remembers, its leases, when it waits for the disk.

    `synced`: in the commit; else it is acknowledged after a sync of its own.
    """

    remembered: int
    leases: Mapping[str, int]
    synced: bool


def append_values(
    bank: int,
    end: End,
    events: Sequence[LineRow],
    texts: Sequence[TextRow],
    kinds: Collection[str],
    writer: AppendTerms,
) -> list[object]:
    """Return the arguments of `APPEND` for rows behind an end; None for an array that is mostly empty."""
    return [
        bank,
        end.seq,
        end.digest,
        lines.event_of(events[-1].line).at,
        [UUID(row.id) for row in events],
        [row.type for row in events],
        [row.run for row in events],
        [row.digest for row in events],
        [row.line for row in events],
        [row.key for row in texts] or None,
        [row.seq for row in texts] or None,
        [row.number for row in texts] or None,
        [row.digest for row in texts] or None,
        [row.line for row in texts] or None,
        [*kinds],
        [*writer.leases] or None,
        [*writer.leases.values()] or None,
        writer.synced,
        int(limits.HEAD_WAIT_S * 1000),
    ]


class PostgresRows:
    """The rows of a bank. In a transaction that writes, the head row is locked by `end`."""

    def __init__(
        self, execute: Execute, bank: int, place: str, writer: AppendTerms, begun: Transaction | None = None
    ) -> None:
        self._execute, self._bank, self._place, self._writer = execute, bank, place, writer
        self._begun = begun
        self._end: End | None = None
        self._known = dict[int, bytes | None]()

    def _one(self, statement: str, *values: object) -> Any:
        rows = self._execute(statement, values)
        return rows[0][0] if rows else None

    def position(self) -> int:
        found = self._one("SELECT seq FROM rbank.bank WHERE no = $1", self._bank)
        if found is None:
            raise BankNotFound(self._place)
        return int(found)

    def end(self) -> End:
        milliseconds = (int(limits.HEAD_WAIT_S * 1000), int(limits.STANDSTILL_S * 1000))
        locked = self._execute(LOCK_HEAD, (self._bank, self._writer.remembered, *milliseconds))
        [(seq, at, digest, kinds, line, remembered)] = locked
        self._known[self._writer.remembered] = remembered
        self._end = End(seq, at, digest, line, kinds)
        return self._end

    def lines(
        self, after: int, upto: int, types: Collection[str] | None, run: str | None, most: int
    ) -> Sequence[tuple[int, bytes]]:
        where, values = "bank = $1 AND seq > $2 AND seq <= $3", list[object]((self._bank, after, upto))
        if types is not None:
            values.append(list(types))
            where += f" AND type = ANY(${len(values)})"
        if run is not None:
            values.append(run)
            where += f" AND run = ${len(values)}"
        return self._execute(f"SELECT seq, line FROM rbank.event WHERE {where} ORDER BY seq LIMIT {most}", values)

    def page(self, after: int, most: int) -> Sequence[LineRow]:
        found = self._execute(
            "SELECT seq, id::text, type, run, digest, line FROM rbank.event WHERE bank = $1 AND seq > $2"
            " ORDER BY seq LIMIT $3",
            (self._bank, after, most),
        )
        return [LineRow(*row) for row in found]

    def texts(self, after: int, upto: int) -> Iterable[tuple[int, bytes]]:
        where = "bank = $1 AND seq > $2 AND seq <= $3 ORDER BY seq, number"
        return self._execute(f"SELECT seq, line FROM rbank.text WHERE {where}", (self._bank, after, upto))

    def digest(self, seq: int) -> bytes | None:
        if seq not in self._known:
            self._known[seq] = self._one("SELECT digest FROM rbank.event WHERE bank = $1 AND seq = $2", self._bank, seq)
        return self._known[seq]

    def positions(self, ids: Sequence[str]) -> dict[str, int]:
        statement = "SELECT id::text, seq FROM rbank.event WHERE bank = $1 AND id = ANY($2)"
        return dict(self._execute(statement, (self._bank, [UUID(each) for each in ids])))

    def text(self, key: str) -> bytes | None:
        found: bytes | None = self._one("SELECT line FROM rbank.text WHERE bank = $1 AND key = $2", self._bank, key)
        return found

    def keys(self, digests: Collection[bytes]) -> dict[bytes, str]:
        statement = "SELECT digest, key FROM rbank.text WHERE bank = $1 AND digest = ANY($2)"
        return dict(self._execute(statement, (self._bank, list(digests))))

    def erasures(self) -> int:
        return int(self._one("SELECT epoch FROM rbank.bank WHERE no = $1", self._bank) or 0)

    def add(self, events: Sequence[LineRow], texts: Sequence[TextRow], kinds: Collection[str]) -> None:
        end = self._end or self.end()
        assert self._begun is not None  # rows are added in a transaction that writes
        # It is sent with the COMMIT. The head row is locked, so the head can't be elsewhere.
        self._begun.leave(APPEND, append_values(self._bank, end, events, texts, kinds, self._writer))
        self._begun.flushes = not self._writer.synced
        last = events[-1]
        self._end = End(last.seq, "", last.digest, last.line, kinds)

    def rewrite(self, events: Sequence[tuple[int, bytes]], texts: Sequence[tuple[str, bytes]]) -> None:
        self._execute(
            "UPDATE rbank.event e SET line = w.line FROM unnest($1::bigint[], $2::bytea[]) w(seq, line)"
            " WHERE e.bank = $3 AND e.seq = w.seq",
            ([seq for seq, _ in events], [line for _, line in events], self._bank),
        )
        # Without a digest: a text that is appended again is stored again, under another key.
        self._execute(
            "UPDATE rbank.text t SET line = w.line, digest = NULL FROM unnest($1::text[], $2::bytea[]) w(key, line)"
            " WHERE t.bank = $3 AND t.key = w.key",
            ([key for key, _ in texts], [line for _, line in texts], self._bank),
        )
