"""The tables in which decisions look up what candidates state: a hash of each statement, and the texts of each fact.

By the hash, one look-up finds every candidate that may state the same as another. By the texts of its facts, a few find
those that are near. Both find too many rather than too few: the rule of likeness decides. So rows are of candidates,
not of states, and may be ahead of whoever asks.

Hashes and facts confirm guesses of a text. They are beside the text itself, in a file that an erasure makes again
without it; nothing else keeps them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from unicodedata import unidata_version
from zlib import crc32

from rbank_es.events.items import Item
from rbank_es.projections.projection import json_of

_TEXT_BITS, _FACT_BITS = 32, 31
_TEXT_MOST = (1 << _TEXT_BITS) - 1

STATEMENT_TABLES = {
    # `statement` is NULL for a text without words, and for one that an earlier candidate of its item has.
    "statements": "CREATE TABLE statements (text INTEGER PRIMARY KEY, statement INTEGER, facts INTEGER NOT NULL)",
    # `place`: the number of a fact, then that of a text that has it. As one key, which is written a tenth faster than
    # two columns are.
    "statement_facts": "CREATE TABLE statement_facts (place INTEGER PRIMARY KEY)",
}
"""The tables by name, with the statements that create them."""

STATEMENT_INDEXES = {"statements_statement": "statements (statement)"}

LIKENESS_RULE = f"likeness-2 of Unicode {unidata_version}"
"""The rule by which the rows were made: raise its version where any text has other facts than before.

Another Python may compose and fold letters otherwise. The rule itself, `rbank_es.law.likeness`, is imported where
it is used: its patterns take 30 ms to compile, and a command that reads needs none.
"""

_NEW = """
SELECT c.text, c.item, c.title, c.content, c.erased OR EXISTS (
    SELECT 1 FROM candidates o WHERE o.item = c.item AND o.text < c.text AND o.title = c.title
    AND o.content = c.content AND NOT o.erased
) FROM candidates c WHERE c.text > (SELECT coalesce(max(text), 0) FROM statements) ORDER BY c.text
"""
_SAME = """
SELECT DISTINCT c.item FROM statements s CROSS JOIN candidates c ON c.text = s.text WHERE s.statement = ?
"""
_HAVING = "SELECT count(*) FROM (SELECT 1 FROM statement_facts WHERE place BETWEEN ? AND ? LIMIT ?)"
_TEXTS_OF = f"""
SELECT p.place & {_TEXT_MOST} AS text FROM json_each(:facts) j
CROSS JOIN statement_facts p WHERE p.place BETWEEN j.value AND j.value + {_TEXT_MOST}
"""
_NEAR = f"""
SELECT DISTINCT c.item FROM (SELECT text, count(*) AS common FROM ({_TEXTS_OF}) GROUP BY text) f
CROSS JOIN statements s ON s.text = f.text CROSS JOIN candidates c ON c.text = f.text
WHERE (f.common + :lost) * :of >= :least * min(:size, s.facts)
"""
_ITEMS = "SELECT DISTINCT item FROM candidates WHERE text IN (SELECT value FROM json_each(?))"

_BATCH_TEXTS = 1_024
"""Texts whose facts are in memory together."""

_PLACES_KEPT = 65_536
"""Facts whose places are kept: new ones are few."""

_SHARED = 3
"""Facts that similar contents share with the rarest ones, as in `rare_words`."""

_COUNTED = 500
"""Texts of a fact that are counted: which facts are rarer among common ones matters little."""

_RANKED = 1_000
"""Facts of a text that are ranked, which takes a query for each: no lesson has more."""

_NO_TOKEN = ""
"""Stands for the tokens of a text that has none: two such texts are alike."""


def index_statements(connection: sqlite3.Connection, after: int, upto: int) -> None:
    """Take the statements of new candidates: see `Projection.indexers`."""
    rows = connection.execute(_NEW)
    while some := rows.fetchmany(_BATCH_TEXTS):
        from rbank_es.law.likeness import content_of, facts_of, statement_hash
        from rbank_es.law.statement_reader import read_statement

        statements, facts = list[tuple[int, int | None, int]](), list[int]()
        for text, id, title, content, known in some:
            if known:
                statements.append((text, None, 0))
                continue
            item = Item(id=id, title=title, content=content)
            near = facts_of(item)
            statements.append((text, statement_hash(item), len(near)))
            tokens = {token.stem for token in read_statement(content_of(item)).tokens()}
            facts += [place + text for place in _places(near.union(tokens or (_NO_TOKEN,)))]
        connection.executemany("INSERT INTO statements VALUES (?, ?, ?)", statements)
        connection.executemany("INSERT INTO statement_facts VALUES (?)", zip(facts))


def _places(facts: Iterable[str]) -> set[int]:
    """Return the places before the first text that has each fact. Facts that share a place are taken for one."""
    return set(map(_place, facts))


@lru_cache(_PLACES_KEPT)
def _place(fact: str) -> int:
    return crc32(fact.encode(errors="surrogatepass")) >> 32 - _FACT_BITS << _TEXT_BITS


class StatementRows:
    """The reader of these tables: a `StatementIndex` of the candidates up to a position."""

    def __init__(self, connection: sqlite3.Connection, position: int, believed: Callable[[], bool]) -> None:
        """Read through a connection as long as its file is believed."""
        self.position = position
        self._connection, self._believed, self._lost = connection, believed, False

    def same(self, item: Item) -> Collection[str] | None:
        """Return the ids of the items of which a candidate may state the same; None if the file can't be read."""
        from rbank_es.law.likeness import statement_hash

        return self._answer(lambda: self._ids(_SAME, (statement_hash(item),)))

    def like(self, tokens: frozenset[str], content_min: tuple[int, int]) -> Collection[str] | None:
        """Return the ids of the items of which a candidate may have such a Jaccard similarity to some tokens, which is
        above 0; None if the file can't be read."""
        return self._answer(lambda: self._ids(_ITEMS, (json_of(list(self._sharing(tokens, content_min))),)))

    def near(self, item: Item) -> Collection[str] | None:
        """Return the ids of the items of which a candidate may be near to an item; None if the file can't be read."""
        from rbank_es.law.likeness import TITLED_MIN, facts_of

        facts = facts_of(item)
        places, (least, of) = _places(facts), TITLED_MIN
        given = {"facts": json_of(sorted(places)), "lost": len(facts) - len(places), "size": len(facts)}
        return self._answer(lambda: self._ids(_NEAR, given | {"least": least, "of": of}))

    def _answer(self, look_up: Callable[[], Collection[str]]) -> Collection[str] | None:
        if self._lost:
            return None
        with suppress(sqlite3.Error):
            found = look_up()
            # After it, because somebody may have changed the file meanwhile.
            if self._believed():
                return found
        # For good, because to find that out again takes a while.
        self._lost = True
        return None

    def _ids(self, sql: str, parameters: tuple[object, ...] | Mapping[str, object]) -> Collection[str]:
        return [id for (id,) in self._connection.execute(sql, parameters)]

    def _sharing(self, tokens: frozenset[str], content_min: tuple[int, int]) -> Iterator[int]:
        """Yield the texts that share so many of the rarest of some tokens as similar ones do: see `rare_words`."""
        places = _places(tokens or (_NO_TOKEN,))
        numerator, denominator = content_min
        # Two tokens with one place count once.
        needed = max(1, len(places) - len(tokens) * (denominator - numerator) // denominator)
        shared = min(needed, _SHARED)
        # Any of so many will do.
        ranked = sorted(places, key=self._having) if len(places) <= _RANKED else list(places)
        rarest = ranked[: len(places) - needed + shared]
        common = Counter(text for (text,) in self._connection.execute(_TEXTS_OF, {"facts": json_of(rarest)}))
        return (text for text, count in common.items() if count >= shared)

    def _having(self, place: int) -> int:
        return int(self._connection.execute(_HAVING, (place, place + _TEXT_MOST, _COUNTED)).fetchone()[0])
