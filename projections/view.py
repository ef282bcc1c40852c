"""Reading the read models as of a position: the same SQL for the present and for the past.

A view hides what came after its position. For every table the connection gets a temporary SQL view of the same name,
which shadows the table: it leaves out rows that began later, and shows rows that ended later as open. For every named
view it gets a temporary one with the same SQL, which then reads the shadows. Nothing is written to the file, and what
is appended to it later doesn't show: reading the past never disturbs the present, nor the other way round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import BadInput, ProjectionError
from rbank_es.events import PolicyChoice
from rbank_es.projections import ALL, VIEWS
from rbank_es.projections.engine import Table, Value
from rbank_es.projections.search import Filters, Found, Searcher

if TYPE_CHECKING:
    from rbank_es.policies.retrieval import RetrievalPolicy

# Spelled out, where other queries go through the shadows: a search needs no others, and is quicker without making them.
_RETRIEVAL_POLICY = """
SELECT name, version, settings FROM main.policy_choices
WHERE kind = 'retrieval' AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :seq)
"""
_WON = "SELECT run FROM verdicts WHERE purpose = 'learning' AND success AND to_seq IS NULL"


class View:
    """The bank as it was at `position`. Made by `ReadModels`; a context manager; may be used by several threads."""

    def __init__(self, connection: sqlite3.Connection, position: int) -> None:
        self.position = position
        self._connection = connection
        self._lock = RLock()
        self._searcher = Searcher(connection, position)
        self._shadowed = False

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, and of every temporary copy."""
        with self._lock:
            self._connection.close()

    def rows(self, view: str, /, **equal: Value) -> list[dict[str, Any]]:
        """The rows of a named view, as dicts by column; with `column=value`, those where all of these are equal.

        Raises `BadInput` for a view or column that doesn't exist, `ProjectionError` if the file can't be read.
        """
        if view not in VIEWS:
            raise BadInput(f"no view {view!r}; there are: {', '.join(VIEWS)}")
        columns = self.columns(view)
        unknown = [name for name in equal if name not in columns]
        if unknown:
            raise BadInput(f"{view} has no column {unknown[0]!r}; it has: {', '.join(columns)}")
        where = " AND ".join(f'"{name}" IS ?' for name in equal)
        with self._shadowing() as connection:
            found = connection.execute(f"SELECT * FROM {view}{' WHERE ' + where if where else ''}", (*equal.values(),))
            return [dict(zip(columns, row, strict=True)) for row in found]

    def columns(self, view: str) -> tuple[str, ...]:
        """The columns of a named view, in order."""
        with self._shadowing() as connection:
            return tuple(row[0] for row in connection.execute(f"SELECT * FROM {view} LIMIT 0").description)

    def item(self, id: str) -> dict[str, Any] | None:
        """The row of `items` with this id; None if the bank has no such item yet."""
        return next(iter(self.rows("items", id=id)), None)

    def items(self, state: str | None = None) -> list[dict[str, Any]]:
        """The rows of `items`, in order of birth; those in one state, where given."""
        rows = self.rows("items") if state is None else self.rows("items", state=state)
        return sorted(rows, key=lambda row: (row["born_seq"], row["id"]))

    def run(self, id: str) -> dict[str, Any] | None:
        """The row of `runs` with this id; None if no such run has begun yet."""
        return next(iter(self.rows("runs", run=id)), None)

    def usage(self) -> dict[str, tuple[int, int]]:
        """Uses and wins of every item that was ever used, known to the bank or not."""
        # Two scans and a set: quicker than letting SQLite look up the verdict of each use.
        uses: dict[str, int] = {}
        wins: dict[str, int] = {}
        with self._shadowing() as connection:
            won = {run for (run,) in connection.execute(_WON)}
            for item, run in connection.execute("SELECT item, run FROM uses"):
                uses[item] = uses.get(item, 0) + 1
                if run in won:
                    wins[item] = wins.get(item, 0) + 1
        return {item: (n, wins.get(item, 0)) for item, n in uses.items()}

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        polarity: str | None = None,
        domain: str | None = None,
        role: str | None = None,
        policy: RetrievalPolicy | None = None,
    ) -> list[Found]:
        """The active items that fit the words of `query`, best first, at most `k` (default: the policy's).

        `policy` is the one in force at this position, unless given.

        Any text is a query; FTS syntax in it is searched as plain words. Filters narrow what is returned and leave
        scores as they are. Items of sources `principle` and `episode` are never found. Ties are broken by item id.
        Raises `BadSearch` for a `k` or a polarity that can't be, `BadPolicy` if the policy in force is not known to
        this release.
        """
        filters = Filters(polarity=polarity, domain=domain, role=role)
        chosen = policy or self.retrieval_policy()
        with self._reading():
            return self._searcher.search(query, k, filters, chosen)

    def search_for_judge(self, query: str, k: int, source: str) -> list[Found]:
        """The active items of a source that only judges are given (`principle`, `episode`), found as `search` does.

        Agents get none of them, by no tool and in no context. Raises `BadSearch`, also for any other source.
        """
        if not k:
            return []
        chosen, filters = self.retrieval_policy(), Filters(judges_source=source)
        with self._reading():
            return self._searcher.search(query, k, filters, chosen)

    def retrieval_policy(self) -> RetrievalPolicy:
        """The retrieval policy in force; the default one where none was set. Raises `BadPolicy` for an unknown one."""
        from rbank_es.policies import RetrievalPolicy, policy_of

        with self._reading() as connection:
            row = connection.execute(_RETRIEVAL_POLICY, {"seq": self.position}).fetchone()
        if row is None:
            return RetrievalPolicy()
        name, version, settings = row
        chosen = {"kind": "retrieval", "name": name, "version": version, "settings": msgspec.json.decode(settings)}
        policy = policy_of(msgspec.convert(chosen, PolicyChoice))
        return policy if isinstance(policy, RetrievalPolicy) else RetrievalPolicy()

    @contextmanager
    def _shadowing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            if not self._shadowed:
                self._shadow(connection)
                self._shadowed = True
            yield connection

    def _shadow(self, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TEMP TABLE looking (seq INTEGER NOT NULL)")
        connection.execute("INSERT INTO looking VALUES (?)", (self.position,))
        for projection in ALL:
            for table in projection.tables:
                connection.execute(_shadow_of(table))
        for projection in ALL:
            for name, text in projection.views.items():
                connection.execute(f"CREATE TEMP VIEW {name} AS {text}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._connection
        except sqlite3.Error as error:
            raise ProjectionError(
                f"can't read the read models at position {self.position:,}: {error}; "
                "if they are damaged, run: rbank-es project BANK --rebuild"
            ) from error


def _shadow_of(table: Table) -> str:
    # A view takes no parameters, so the position stands in a table of one row; SQLite reads it once a statement.
    columns = ", ".join(f'"{name}"' for name in table.names if name != "to_seq")
    return f"""
    CREATE TEMP VIEW {table.name} AS
    SELECT {columns}, CASE WHEN to_seq > (SELECT seq FROM looking) THEN NULL ELSE to_seq END AS to_seq
    FROM main.{table.name} WHERE from_seq <= (SELECT seq FROM looking)
    """
