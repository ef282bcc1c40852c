"""Rows of the read models as of a position, with the same SQL for the present and for the past.

All later rows are hidden. For every table the connection gets a temporary SQL view of the same name, which shadows the
table: it leaves out rows that began later, and shows rows that ended later as open. For every named view it gets a
temporary one with the same SQL, which then reads the shadows. Nothing is written to the file, and rows appended to it
later don't show: reading the past never disturbs the present, nor the other way round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, ProjectionError, ProjectionTimeout
from rbank_es.projections import Projection, all_projections
from rbank_es.projections.paged_view import OF_RUN, PagedView, RowCondition, RowPage, Value, contains_all, parameters_of
from rbank_es.projections.projection import Table, paged_views, view_texts
from rbank_es.system.proportion import wilson_end

if TYPE_CHECKING:
    from rbank_es.policies import RetrievalPolicy
    from rbank_es.projections.stem_index import StemIndex
    from rbank_es.projections.vector_index import Cosines
    from rbank_es.projections.word_index import WordIndex

# Steps of SQLite's machine between two looks at the clock: about a millisecond.
PROGRESS_STEPS = 10_000

_STATE_ROWS = """
SELECT state, from_seq, CASE WHEN to_seq <= :seq THEN to_seq END FROM main.item_states
WHERE item = :item AND from_seq <= :seq ORDER BY from_seq
"""
# The rows at both positions of what has a row that began or ended between them.
_CHANGED = """
WITH rows AS (SELECT {key}, {column}, from_seq, to_seq FROM main.{table} WHERE {where}),
touched AS (
    SELECT {key}, max(seq) AS seq FROM (
        SELECT {key}, from_seq AS seq FROM rows WHERE from_seq > :since AND from_seq <= :seq
        UNION ALL SELECT {key}, to_seq FROM rows WHERE to_seq > :since AND to_seq <= :seq
    ) GROUP BY {key}
)
SELECT t.{key}, b.{column}, n.{column}, t.seq FROM touched t
LEFT JOIN rows b ON b.{key} = t.{key} AND b.from_seq <= :since AND (b.to_seq IS NULL OR b.to_seq > :since)
LEFT JOIN rows n ON n.{key} = t.{key} AND n.from_seq <= :seq AND (n.to_seq IS NULL OR n.to_seq > :seq)
WHERE b.{column} IS NOT n.{column} ORDER BY t.seq DESC, t.{key}
"""
_ACTIVE_CHANGES = """
SELECT seq, sum(change) FROM (
    SELECT from_seq AS seq, 1 AS change FROM main.item_states WHERE state = 'active' AND from_seq <= :seq
    UNION ALL SELECT to_seq, -1 FROM main.item_states WHERE state = 'active' AND to_seq <= :seq
) GROUP BY seq ORDER BY seq
"""


class ViewConnection:
    """A connection for the views of one position, which share its temporary tables. Closed with its last holder."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = RLock()
        self.shadowed = False
        self.prepared = False
        self.own_index = False
        self.words: WordIndex | None = None
        self.stems: StemIndex | None = None
        self.ranking: RetrievalPolicy | None = None
        self.cosines: dict[tuple[str, str], Cosines | None] = {}
        self._holders = 0

    def hold(self) -> ViewConnection:
        """Return this connection, which stays open until each holder released it."""
        with self.lock:
            self._holders += 1
        return self

    def release(self) -> None:
        """Close the connection unless others hold it. For its holders, each once."""
        with self.lock:
            self._holders -= 1
            if not self._holders:
                for words in (self.words, self.stems):
                    if words is not None:
                        words.close()
                self.connection.close()


class ViewRows:
    """The rows of a bank as they were at `position`. A context manager; may be used by several threads.

    `statement_s` bounds the seconds of each question; past it, `ProjectionTimeout` is raised. None: no bound.
    """

    statement_s: float | None = None

    def __init__(self, shared: ViewConnection, position: int) -> None:
        """Hold the connection until the view is closed."""
        self.position = position
        self._shared = shared.hold()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and drop every temporary copy, unless another view shares them."""
        with self._shared.lock:
            if not self._closed:
                self._closed = True
                self._shared.release()

    def rows(self, view: str, /, **equal: Value) -> list[dict[str, Any]]:
        """Return the rows of a named view, as dicts by column; with `column=value`, those where all are equal.

        Raises `BadInput` for a view or column that doesn't exist, `ProjectionError` if the file can't be read.
        """
        texts = view_texts()
        if view not in texts:
            raise BadInput(f"there is no view {view!r}; there are: {', '.join(texts)}")
        columns = self.columns(view)
        unknown = [name for name in equal if name not in columns]
        if unknown:
            raise BadInput(f"{view} has no column {unknown[0]!r}; it has: {', '.join(columns)}")
        where = " AND ".join(f'"{name}" IS :{name}' for name in equal)
        text = texts[view]
        # The view's own SQL for one run, because through the view all other runs would be counted too.
        source = f"({text.replace(OF_RUN, 'WHERE run = :run')})" if "run" in equal and OF_RUN in text else view
        with self._shadowing() as connection:
            found = connection.execute(f"SELECT * FROM {source}{' WHERE ' + where if where else ''}", equal)
            return [dict(zip(columns, row, strict=True)) for row in found]

    def spans(self, table: str, columns: Sequence[str]) -> list[tuple[Value, ...]]:
        """Return the rows of a table that began by the position, each with `from_seq` and `to_seq` last, in order.

        Rows that had ended by then are among them; one that ended later has a `to_seq` of None.
        Raises `BadInput` for a table or column that doesn't exist.
        """
        known = {each.name: each for projection in all_projections() for each in projection.tables}
        if table not in known:
            raise BadInput(f"there is no table {table!r}; there are: {', '.join(known)}")
        unknown = [name for name in columns if name not in known[table].names]
        if unknown:
            raise BadInput(f"{table} has no column {unknown[0]!r}; it has: {', '.join(known[table].names)}")
        names = ", ".join(f'"{name}"' for name in (*columns, "from_seq", "to_seq"))
        with self._shadowing() as connection:
            return connection.execute(f"SELECT {names} FROM {table} ORDER BY from_seq, {names}").fetchall()

    def columns(self, view: str) -> tuple[str, ...]:
        """Return the columns of a named view, in order."""
        with self._shadowing() as connection:
            return tuple(row[0] for row in connection.execute(f"SELECT * FROM {view} LIMIT 0").description)

    def page(
        self,
        view: str,
        conditions: Sequence[RowCondition] = (),
        *,
        sort: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> RowPage:
        """Return the rows of a view with pages under some conditions, in an order, behind a key, at most `limit`.

        `sort` is a column, with `-` before it for the largest value first; by default the latest row is first. Rows
        without a value are last, ties are the latest first. Raises `BadInput` for a view that has no pages, an unknown
        column or key.
        """
        paged = self._paged(view)
        sort = sort or f"-{paged.place}"
        with self._shadowing() as connection:
            conditions = self._with_keys(connection, paged, conditions)
            given = parameters_of(conditions)
            marks = {} if after is None else self._marks(connection, paged, sort, after)
            sql = paged.keys(conditions, sort, behind=after is not None)
            # One row more shows whether there are more. No view has so many that SQLite could not count them.
            wanted = -1 if limit is None else min(limit, limits.COUNT_MOST) + 1
            keys = [key for (key,) in connection.execute(sql, given | marks | {"limit": wanted})]
            shown = keys[:limit]
            (total,) = connection.execute(paged.count(conditions), given).fetchone()
            rows = self._listed(connection, paged, shown)
        return RowPage([rows[key] for key in shown], total, shown[-1] if len(shown) < len(keys) else None)

    def _with_keys(
        self, connection: sqlite3.Connection, paged: PagedView, conditions: Sequence[RowCondition]
    ) -> Sequence[RowCondition]:
        """Return the conditions, or where one is on texts, the condition on the keys that pass all of them.

        Texts are compared by Python, row by row: once for the page and the number of rows, rather than for each.
        """
        if all(each.test != "contains" for each in conditions):
            return conditions
        sql = paged.some((paged.key,), conditions, paged.key)
        keys = tuple(key for (key,) in connection.execute(sql, parameters_of(conditions)))
        return [RowCondition((paged.key,), "among", keys)]

    def pick(
        self, view: str, columns: Sequence[str], conditions: Sequence[RowCondition] = (), *, sort: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Return some columns of the rows of a view with pages, in an order as `page` has it; no others are computed.

        Raises as `page` does.
        """
        paged = self._paged(view)
        with self._shadowing() as connection:
            sql = paged.some(columns, conditions, sort or f"-{paged.place}")
            return connection.execute(sql, parameters_of(conditions)).fetchall()

    def _paged(self, view: str) -> PagedView:
        if view not in paged_views():
            raise BadInput(f"the view {view!r} has no pages; these have: {', '.join(paged_views())}")
        return paged_views()[view]

    def _marks(self, connection: sqlite3.Connection, paged: PagedView, sort: str, key: str) -> dict[str, Value]:
        row = connection.execute(paged.marks(sort), {"key": key}).fetchone()
        if row is None:
            raise BadInput(f"there is no {paged.key} {key!r} at position {self.position:,} to go on behind")
        return {f"v{number}": value for number, value in enumerate(row)}

    def _listed(self, connection: sqlite3.Connection, paged: PagedView, keys: list[str]) -> dict[str, dict[str, Any]]:
        found = connection.execute(paged.rows(), {"keys": msgspec.json.encode(keys).decode()}).fetchall()
        # SQLite's JSON ends a text at U+0000, so a row with such a key isn't among those listed.
        found += [row for key in keys if "\0" in key for row in connection.execute(paged.row(), {"key": key})]
        rows = (dict(zip(paged.fields, row, strict=True)) for row in found)
        return {row[paged.key]: row for row in rows}

    def item(self, id: str) -> dict[str, Any] | None:
        """Return the row of `items` with this id; None if the bank has no such item yet."""
        return next(iter(self.rows("items", id=id)), None)

    def items(self, state: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of `items`, in order of birth; those in one state, where given."""
        rows = self.rows("items") if state is None else self.rows("items", state=state)
        return sorted(rows, key=lambda row: (row["born_seq"], row["id"]))

    def run(self, id: str) -> dict[str, Any] | None:
        """Return the row of `runs` with this id; None if no such run has begun yet."""
        return next(iter(self.rows("runs", run=id)), None)

    def ids(self, kind: str, beginning: str, at_most: int) -> list[str]:
        """Return the ids of `run` or `item` that begin so, in their order, at most that many."""
        table = {"run": "run_starts", "item": "item_states"}[kind]
        # A range, because it uses the key of the table; no character comes after the last one of Unicode.
        sql = f"SELECT DISTINCT {kind} FROM {table} WHERE {kind} >= ? AND {kind} < ? ORDER BY {kind} LIMIT ?"
        with self._shadowing() as connection:
            return [id for (id,) in connection.execute(sql, (beginning, beginning + "\U0010ffff", at_most))]

    def item_history(self, item: str) -> list[dict[str, Any]]:
        """Return the states of an item in order: {state, from, to}, to None for the one at the position."""
        spans: list[dict[str, Any]] = []
        with self._reading() as connection:
            for state, begin, end in connection.execute(_STATE_ROWS, {"item": item, "seq": self.position}):
                # An item that only changes, such as its domains, goes on in its state.
                if spans and (spans[-1]["state"], spans[-1]["to"]) == (state, begin):
                    spans[-1]["to"] = end
                else:
                    spans.append({"state": state, "from": begin, "to": end})
        return spans

    def changed_states(self, since: int) -> list[tuple[str, str | None, str | None, int]]:
        """Return (item, state then, state now, position of the last change) of the items whose state is another one
        than at a position, the latest first; None before birth."""
        return self._changed(_CHANGED.format(table="item_states", key="item", column="state", where="TRUE"), since)

    def changed_verdicts(self, since: int) -> list[tuple[str, str | None, str | None, int]]:
        """Return (run, verdict then, verdict now, position) of the runs whose standing verdict for learning is another
        one than at a position, the latest first; None without one."""
        where = "purpose = 'learning'"
        return self._changed(_CHANGED.format(table="verdicts", key="run", column="verdict", where=where), since)

    def _changed(self, sql: str, since: int) -> list[tuple[str, str | None, str | None, int]]:
        with self._reading() as connection:
            return connection.execute(sql, {"since": since, "seq": self.position}).fetchall()

    def active_changes(self) -> list[tuple[int, int]]:
        """Return the positions at which the number of active items changed, in order, each with the change."""
        with self._reading() as connection:
            return connection.execute(_ACTIVE_CHANGES, {"seq": self.position}).fetchall()

    @contextmanager
    def _bounded(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        if self.statement_s is None:
            yield connection
            return
        end = monotonic() + self.statement_s
        connection.set_progress_handler(lambda: monotonic() > end, PROGRESS_STEPS)
        try:
            yield connection
        finally:
            connection.set_progress_handler(None, 0)

    @contextmanager
    def _shadowing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            if not self._shared.shadowed:
                self._shadow(connection)
                self._shared.shadowed = True
            yield connection

    def _shadow(self, connection: sqlite3.Connection) -> None:
        connection.create_function("contains_all", 2, contains_all, deterministic=True)
        connection.create_function("wilson_end", 3, wilson_end, deterministic=True)
        shadow(connection, self.position, all_projections())
        for projection in all_projections():
            for name, text in projection.views.items():
                connection.execute(f"CREATE TEMP VIEW {name} AS {text}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        begin = monotonic()
        try:
            with self._shared.lock:
                if self._closed:
                    raise sqlite3.ProgrammingError("the view is closed")
                with self._bounded(self._shared.connection) as connection:
                    yield connection
        except UnicodeEncodeError:
            raise BadInput("half a character (a lone surrogate) is in no bank; leave it out") from None
        except sqlite3.Error as error:
            if self.statement_s is not None and "interrupted" in str(error):
                raise ProjectionTimeout(self.statement_s, monotonic() - begin) from error
            raise ProjectionError(
                f"can't read the read models at position {self.position:,}: {error}; "
                "if they are damaged, run: rbank-es project BANK --rebuild"
            ) from error


def shadow(connection: sqlite3.Connection, position: int, projections: Iterable[Projection]) -> None:
    """Hide the later rows of some projections' tables from a connection."""
    # In the temporary schema, which is in memory and private to this connection.
    connection.execute("CREATE TEMP TABLE looking (seq INTEGER NOT NULL)")
    connection.execute("INSERT INTO looking VALUES (?)", (position,))
    for projection in projections:
        for table in projection.tables:
            connection.execute(_shadow_of(table))


def _shadow_of(table: Table) -> str:
    # A view takes no parameters, so the position is in a table of one row; SQLite reads it once a statement.
    columns = ", ".join(f'"{name}"' for name in table.names if name != "to_seq")
    return f"""
    CREATE TEMP VIEW {table.name} AS
    SELECT {columns}, CASE WHEN to_seq > (SELECT seq FROM looking) THEN NULL ELSE to_seq END AS to_seq
    FROM main.{table.name} WHERE from_seq <= (SELECT seq FROM looking)
    """
