"""The items of a bank in memory: found without SQLite as SQLite finds them, or not at all."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from random import Random
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from rbank_es.events.items import Item
from rbank_es.law import ItemState
from rbank_es.policies import Bm25V1, Bm25V2, Filters
from rbank_es.policies.words import words_of
from rbank_es.projections.in_memory_items import ActiveItems
from rbank_es.projections.tokenizer import Tokenizer, fts_ddl
from tests.effort import examples

WORDS = (
    "count",
    "counts",
    "counted",
    "river",
    "rivers",
    "café",
    "cafe\u0301",
    "x_y",
    "sql",
    "the",
    "Ⅷ",
    "日本",
    "ﬁt",
    "a",
    "Don't",
    "e-mail\0box",
    "ponies",
    "sky",
    "generalisations" * 6,
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
SOURCES = st.sampled_from(("success", "failure", "success", "principle"))


class BySql(ActiveItems):
    """An index that leaves everything to SQL."""

    def best(self, words: object, k: int, filters: Filters) -> None:
        """Find nothing."""


def entry(item: Item, **facts: Any) -> ItemState:
    return ItemState(item=item, born_seq=1, extraction="e", rank=(1, 0), **facts)


@st.composite
def entries(draw: st.DrawFn) -> ItemState:
    tags = draw(st.lists(st.sampled_from(WORDS), max_size=2))
    title, content = f"{draw(TEXTS)} {draw(st.integers(0, 9))}", f"{draw(TEXTS)} z"
    item = Item.make(title, content, draw(SOURCES), desc=draw(TEXTS), tags=tags)  # type: ignore[arg-type]
    domains = tuple(draw(st.lists(st.sampled_from(("", "units", "coast")), max_size=2, unique=True)))
    state = draw(st.sampled_from(("active", "active", "active", "forgotten")))
    return entry(item, state=state, domains=domains)


CHANGES = st.lists(st.one_of(entries(), entries(), entries(), st.integers(0, 30)), min_size=6, max_size=40)
FILTERS = st.builds(
    Filters, polarity=st.sampled_from((None, None, "success", "failure")), ontology=st.sampled_from((None, "units"))
)
POLICIES = st.sampled_from((Bm25V1(), Bm25V2(), Bm25V1(domains="none"), Bm25V2(stop_words="none", floor=0.5)))


@settings(max_examples=examples(200), deadline=None)
@given(CHANGES, st.lists(st.tuples(TEXTS, st.integers(1, 5), FILTERS, POLICIES), min_size=1, max_size=6), st.data())
def test_hits_are_those_of_sqlite_bit_for_bit(
    changes: list[ItemState | int], searches: list[tuple[str, int, Filters, Bm25V1]], data: st.DataObject
) -> None:
    with closing(ActiveItems(lambda _: (0, 0))) as quick, closing(BySql(lambda _: (0, 0))) as slow:
        known: list[str] = []
        for query, k, filters, policy in searches:
            some = data.draw(st.integers(len(changes) // 2, len(changes)))
            for change in changes[:some]:
                if isinstance(change, int):
                    update = (known[change % len(known)], None) if known else None
                else:
                    update = (change.item.id, change)
                    known.append(change.item.id)
                for index in (quick, slow):
                    index.update([update] if update else [])
            del changes[:some]
            expected = policy.choose(query, k, filters, slow)
            assert policy.choose(query, k, filters, quick) == expected
            told = quick.best(policy.words(query), k, filters) is not None
            event(f"told without SQL: {told}, hits: {min(len(expected.hits), 3)}")


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=4, max_size=4), max_size=6), TEXTS)
def test_tokens_are_those_of_the_full_text_index(texts: list[list[str]], query: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(fts_ddl("items_fts", ""))
    connection.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(items_fts, 'instance')")
    for number, columns in enumerate([*texts, [query, "", "", ""]]):
        connection.execute(
            'INSERT INTO items_fts (rowid, title, "desc", content, tags) VALUES (?, ?, ?, ?, ?)', (number, *columns)
        )
    expected: list[Counter[str]] = [Counter() for _ in range(len(texts) + 1)]
    for token, number in connection.execute("SELECT term, doc FROM tokens"):
        expected[number][token] += 1
    with closing(Tokenizer()) as tokenizer:
        assert [*tokenizer.counted(["\n".join(columns) for columns in texts])] == expected[:-1]
        assert [*tokenizer.counted([query])] == expected[-1:]
        tokens = tokenizer.tokens(words_of(query))
        assert tokens is None or Counter(tokens) == expected[-1]


def test_behind_the_best_that_a_filter_drops_the_next_best_is_found() -> None:
    """Of hits that were scored beyond those asked for, better ones may be missing: a filter must not choose them."""
    chance = Random(5)
    words = [f"w{n}" for n in range(30)]
    items = [
        Item.make(
            f"{' '.join(chance.choices(words, k=chance.randint(1, 4)))} u{n}",
            " ".join(chance.choices(words, k=chance.randint(1, 3))),
            "success" if chance.random() < 0.6 else "failure",
        )
        for n in range(300)
    ]
    told = 0
    for some in (items[start : start + 20] for start in range(0, 300, 20)):
        with closing(ActiveItems(lambda _: (0, 0))) as quick, closing(BySql(lambda _: (0, 0))) as slow:
            for index in (quick, slow):
                index.update((item.id, entry(item)) for item in some)
            for polarity in ("success", "failure") * 15:
                query, filters = " ".join(chance.sample(words, 7)), Filters(polarity=polarity)
                best = quick.best(Bm25V1().words(query), 1, filters)
                assert best is None or best == Bm25V1().rank(query, 1, filters, slow)
                told += best is not None
    assert told > 200
