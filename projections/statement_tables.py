"""The tables in which decisions look up what candidates state: a hash of each statement, and the texts of each fact.

By the hash, one look-up finds every candidate that may state the same as another. By the texts of its facts, a few find
those that are near. Both find too many rather than too few: the rule of likeness decides. So rows are of candidates,
not of states, and may be ahead of whoever asks.

Hashes and facts confirm guesses of a text. They are beside the text itself, in a file that an erasure makes again
without it; nothing else keeps them.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    # `place`: the number of a fact, then the first text of a block; `texts` has those of the block that have the fact,
    # 2 bytes each, from the first one on.
    "statement_facts": "CREATE TABLE statement_facts (place INTEGER PRIMARY KEY, texts BLOB NOT NULL)",
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
_ADD = """
INSERT INTO statement_facts VALUES (?, ?)
ON CONFLICT (place) DO UPDATE SET texts = CAST(texts || excluded.texts AS BLOB)
"""
_OF_FACTS = f"FROM json_each(?) j CROSS JOIN statement_facts p WHERE p.place BETWEEN j.value AND j.value + {_TEXT_MOST}"
_HAVING = f"SELECT j.value, sum(length(p.texts)) {_OF_FACTS} GROUP BY j.value"
_TEXTS_OF = f"SELECT p.place & {_TEXT_MOST}, p.texts {_OF_FACTS}"
_NEAR = """
SELECT DISTINCT c.item FROM json_each(:common) j CROSS JOIN statements s ON s.text = CAST(j.key AS INTEGER)
CROSS JOIN candidates c ON c.text = s.text WHERE (j.value + :lost) * :of >= :least * min(:size, s.facts)
"""
_ITEMS = "SELECT DISTINCT item FROM candidates WHERE text IN (SELECT value FROM json_each(?))"

BLOCK_TEXTS = 4096
"""Texts of a block: of 1e5 texts, 25 rows have those of a common fact, and an append writes 8 kB again at most."""

_BATCH_TEXTS = 1_024
"""Texts whose words are in memory together."""

BATCH_FACTS = 1_000_000
"""Facts of texts after which the rows are written: those of 4,096 texts are 150,000 as a rule."""

_PLACES_KEPT = 65_536
"""Facts whose places are kept: new ones are few."""

_SHARED = 4
"""Facts that similar contents share with the rarest ones, as in `rare_words`: with 3, nine times as many share them
that aren't similar, and to look one up takes as long as to count a thousand texts."""

_NO_TOKEN = ""
"""Stands for the tokens of a text that has none: two such texts are alike."""


def index_statements(connection: sqlite3.Connection, after: int, upto: int) -> None:
    """Take the statements of new candidates: see `Projection.indexers`."""
    facts = _FactWriter(connection)
    rows = connection.execute(_NEW)
    while some := rows.fetchmany(_BATCH_TEXTS):
        from rbank_es.law.likeness import content_of, facts_of, statement_hash
        from rbank_es.law.statement_reader import read_statement

        statements = list[tuple[int, int | None, int]]()
        for text, id, title, content, known in some:
            if known:
                statements.append((text, None, 0))
                continue
            item = Item(id=id, title=title, content=content)
            near = facts_of(item)
            statements.append((text, statement_hash(item), len(near)))
            tokens = {token.stem for token in read_statement(content_of(item)).tokens()}
            facts.add(text, _places(near.union(tokens or (_NO_TOKEN,))))
        connection.executemany("INSERT INTO statements VALUES (?, ?, ?)", statements)
    facts.write()


class _FactWriter:
    """The facts of texts that come in order of their numbers, gathered by block."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection
        self._block = self._gathered = 0
        self._texts: dict[int, array[int]] = {}

    def add(self, text: int, places: Collection[int]) -> None:
        """Note that a text has the facts of these places."""
        block, offset = divmod(text, BLOCK_TEXTS)
        if block != self._block or self._gathered > BATCH_FACTS:
            self.write()
            self._block = block
        self._gathered += len(places)
        for place in places:
            known = self._texts.get(place)
            if known is None:
                known = self._texts[place] = array("H")
            known.append(offset)

    def write(self) -> None:
        """Write what is gathered, behind what the rows have."""
        first = self._block * BLOCK_TEXTS
        rows = ((place + first, texts.tobytes()) for place, texts in sorted(self._texts.items()))
        self._run.executemany(_ADD, rows)
        self._texts.clear()
        self._gathered = 0


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
        given = {"lost": len(facts) - len(places), "size": len(facts), "least": least, "of": of}
        return self._answer(lambda: self._ids(_NEAR, given | {"common": json_of(dict(self._common(sorted(places))))}))

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
        having = dict(self._connection.execute(_HAVING, (json_of([*places]),)))
        rarest = sorted(places, key=lambda place: having.get(place, 0))[: len(places) - needed + shared]
        return (text for text, _ in self._common(rarest, shared))

    def _common(self, places: Sequence[int], least: int = 1) -> Iterator[tuple[int, int]]:
        """Yield each text that has so many of these facts at least, with their number."""
        blocks = defaultdict[int, list[bytes]](list)
        for first, texts in self._connection.execute(_TEXTS_OF, (json_of(places),)):
            blocks[first].append(texts)
        for first, found in blocks.items():
            # As a list, because of thousands of texts few have enough; counted at once, because each count costs 2 µs.
            common = Counter(array("H", b"".join(found)))
            yield from [(first + offset, count) for offset, count in common.items() if count >= least]
