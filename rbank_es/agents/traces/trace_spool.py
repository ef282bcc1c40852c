"""The spool of traces: facts of spans that a server took, in the user's own data directory, until the bank has them.

One SQLite file a bank, beside the spool of its hooks. What `add` has returned from is on the disk. A span that comes
twice is one; a trace that is taken in leaves, and whatever of it comes later joins its run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from errno import EPERM
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

import msgspec

from rbank_es.agents.spool import spool_of
from rbank_es.agents.traces.span_facts import SpanFacts
from rbank_es.agents.traces.trace_run import is_due, is_sure
from rbank_es.errors import CannotWrite
from rbank_es.limits.otlp_limits import OTLP_INTAKE_TRACES, OTLP_LOCK_S, OTLP_SPOOL_BYTES
from rbank_es.system.files import kind_of, make_private

Which = Literal["due", "rooted", "all"]
_NAME = "traces.sqlite3"
_TABLES = """
CREATE TABLE IF NOT EXISTS trace (id TEXT PRIMARY KEY, heard_s REAL NOT NULL, rooted INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS span (
    trace TEXT NOT NULL, span TEXT NOT NULL, part TEXT NOT NULL, ended_ns INTEGER NOT NULL, facts BLOB NOT NULL,
    UNIQUE (trace, span, part)
);
"""
# As `weight_of` chooses between two spans with the same id.
_ADD_SPAN = """
INSERT INTO span VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ended_ns = excluded.ended_ns, facts = excluded.facts
WHERE (excluded.ended_ns, excluded.facts) > (span.ended_ns, span.facts)
"""
_ADD_TRACE = """
INSERT INTO trace VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET heard_s = excluded.heard_s, rooted = max(trace.rooted, excluded.rooted)
"""


class WaitingFacts(NamedTuple):
    """The facts of traces that are due, and the rows that hold them; how many traces wait, and rows can't be read."""

    facts: list[SpanFacts]
    rows: list[tuple[str, str, str, bytes]]
    waiting: int
    unreadable: int


def trace_spool(place: str) -> TraceSpool | None:
    """Return the spool of the bank at a place if there is one."""
    path = spool_of(place).folder / _NAME
    return TraceSpool(place) if kind_of(path) == "a file" else None


class TraceSpool:
    """The spool of the bank at a place. Safe for any number of threads and processes."""

    def __init__(self, place: str) -> None:
        """Open it; make it where there is none. Raises `CannotWrite` where it may be another user's, OSError."""
        beside = spool_of(place)
        path = make_private(beside.folder) / _NAME
        if beside.obstacle() is not None or kind_of(path) not in (None, "a file"):
            raise CannotWrite(str(path), OSError(EPERM, "it may be another user's"))
        self._lock = Lock()
        self._base = _opened(path)

    def add(self, facts: Iterable[SpanFacts], now_s: float) -> None:
        """Put facts on the disk, all or none. Raises sqlite3.Error, also where the spool is full."""
        spans, traces = list[tuple[str, str, str, int, bytes]](), dict[str, bool]()
        for each in facts:
            spans.append((*each.key, each.ended_ns, msgspec.json.encode(each, order="sorted")))
            traces[each.trace] = traces.get(each.trace, False) or is_sure(each)
        with self._lock, self._base:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany(_ADD_SPAN, spans)
            self._base.executemany(_ADD_TRACE, ((trace, now_s, rooted) for trace, rooted in traces.items()))

    def due(self, now_s: float, is_known: Callable[[str], bool], which: Which = "due") -> WaitingFacts:
        """Return the facts of traces that are due, the ones heard of longest ago first, and not of too many.

        `is_known`: the bank has the run of a trace. Those that are `rooted`, or `all`, are due however late they came.
        """
        with self._lock:
            traces = self._base.execute("SELECT id, heard_s, rooted FROM trace ORDER BY heard_s").fetchall()
            due = [
                id
                for id, heard_s, rooted in traces
                if which == "all"
                or (which == "rooted" and rooted)
                or _is_due(id, now_s - heard_s, bool(rooted), is_known)
            ]
            rows = list[tuple[str, str, str, bytes]]()
            for id in due[:OTLP_INTAKE_TRACES]:
                rows += self._base.execute("SELECT trace, span, part, facts FROM span WHERE trace = ?", (id,))
        facts = [found for row in rows if (found := _decoded(row[3])) is not None]
        return WaitingFacts(facts, rows, len(traces) - len(due), len(rows) - len(facts))

    def forget(self, rows: Sequence[tuple[str, str, str, bytes]]) -> None:
        """Remove rows that are in the bank; one that changed meanwhile stays. Raises sqlite3.Error."""
        with self._lock, self._base:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany("DELETE FROM span WHERE trace = ? AND span = ? AND part = ? AND facts = ?", rows)
            told = [(id,) for id in {row[0] for row in rows}]
            rest = "DELETE FROM trace WHERE id = ? AND NOT EXISTS (SELECT 1 FROM span WHERE span.trace = trace.id)"
            self._base.executemany(rest, told)

    def size(self) -> tuple[int, int, float]:
        """Return how many traces and spans wait, and when the first of them was heard of last; 0 for none."""
        with self._lock:
            traces, since_s = self._base.execute("SELECT count(*), min(heard_s) FROM trace").fetchone()
            (spans,) = self._base.execute("SELECT count(*) FROM span").fetchone()
        return int(traces), int(spans), float(since_s or 0.0)

    def empty_journal(self) -> None:
        """Leave no words of what was forgotten in the file's journal. Raises sqlite3.Error."""
        with self._lock:
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()


def _decoded(facts: object) -> SpanFacts | None:
    """Return the facts of a row; None for what no release wrote that has this one's facts."""
    try:
        return msgspec.json.decode(facts, type=SpanFacts) if isinstance(facts, bytes) else None
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _opened(path: Path) -> sqlite3.Connection:
    base = sqlite3.connect(path, timeout=OTLP_LOCK_S, isolation_level=None, check_same_thread=False)
    # FULL, because a commit must be on the disk before the sender is told so; the bytes of what was told are zeroed.
    base.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;" + _TABLES)
    (page_bytes,) = base.execute("PRAGMA page_size").fetchone()
    base.execute(f"PRAGMA max_page_count = {OTLP_SPOOL_BYTES // page_bytes}")
    return base


def _is_due(trace: str, quiet_s: float, rooted: bool, is_known: Callable[[str], bool]) -> bool:
    if is_due(rooted=rooted, quiet_s=quiet_s):
        return True
    # Late spans of a run that the bank has need no root.
    return not rooted and is_due(rooted=True, quiet_s=quiet_s) and is_known(trace)
