"""Search: what is found and in which order, what filters do, and that any text at all is a query."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadPolicy, BadSearch
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted, MemoriesForgotten
from rbank_es.events.items import Item
from rbank_es.policies import Bm25V1, query_words
from rbank_es.policies.words import any_of
from rbank_es.projections.read_models import ReadModels
from rbank_es.projections.view import View
from tests.effort import examples
from tests.fakes import FakeLog
from tests.strategies import stamped

Open = Callable[..., View]


def born(items: Sequence[Item], id: str = "e") -> list[Event]:
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    decisions = tuple(Decision(candidate=n, action="add", item=item.id) for n, item in enumerate(items))
    return [
        MemoriesExtracted(id=id, kind="success", heads=heads, candidates=texts),
        MemoriesConsolidated(extraction=id, policy="append-1", decisions=decisions),
    ]


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Open]:
    """Opens a view of a bank that holds the given items, then went through the given events."""
    opened: list[View] = []

    def hold(items: Sequence[Item], *events: Event) -> View:
        models = ReadModels.open(tmp_path / f"{len(opened)}.sqlite")
        models.catch_up(FakeLog(stamped([*born(items), *events])))
        opened.append(models.live())
        return opened[-1]

    yield hold
    for view in opened:
        view.close()


def item(title: str, content: str = "x", src: str = "success", **more: str) -> Item:
    return Item.make(title, content, src, **more)  # type: ignore[arg-type]


def ids(view: View, query: str, k: int = 10, **filters: str) -> list[str]:
    return [hit.id for hit in view.search(query, k, **filters)]  # type: ignore[arg-type]


def test_ties_are_broken_by_id_also_at_the_last_place(holding: Open) -> None:
    """Many items that score alike come in order of their ids, whatever order they came to the bank in."""
    names = [f"{number:03}" for number in range(200)]
    view = holding([item("the same taxa", id=name) for name in reversed(names)])
    assert ids(view, "taxa", 100) == names[:100]
    assert ids(view, "taxa", 3) == names[:3]
    assert ids(view, "taxa", 1) == names[:1]


def test_filters_find_the_few_that_fit_among_many_better_ones(holding: Open) -> None:
    """Polarity and role, each of which must be equal, and a domain; scores stay what they are without filters."""
    many = [item("taxa taxa", id=f"{n:03}") for n in range(300)]
    few = [
        item("taxa and other words", src="failure", domain="prov", role="planner", id="p"),
        item("taxa and some more words", src="failure", domain="uniprot", id="u"),
    ]
    view, strict = holding([*many, *few]), Bm25V1(domains="filter")
    assert ids(view, "taxa", polarity="failure") == ["p", "u"]
    assert ids(view, "taxa", polarity="failure", domain="prov", policy=strict) == ["p"]
    assert ids(view, "taxa", role="planner") == ["p"]
    assert ids(view, "taxa", domain="nowhere", policy=strict) == []
    alone = holding([*few, *many]).search("taxa", 2, polarity="failure")
    assert [hit.score for hit in view.search("taxa", 2, polarity="failure")] == [hit.score for hit in alone]


@pytest.mark.parametrize("level", [-1, 2**53])
def test_a_level_that_cannot_be_is_refused(holding: Open, level: int) -> None:
    with pytest.raises(BadSearch, match="is no level of a question"):
        holding([item("taxa", id="t")]).search("taxa", level=level)


@pytest.mark.parametrize("k", [0, -1, 101])
def test_a_number_of_hits_that_cannot_be_is_refused(holding: Open, k: int) -> None:
    """With the range in the message."""
    with pytest.raises(BadSearch, match="from 1 to 100"):
        holding([item("taxa")]).search("taxa", k)


def test_a_polarity_that_is_none_is_refused(holding: Open) -> None:
    """Rather than finding nothing. So is an unknown list of stop words."""
    view = holding([item("taxa")])
    with pytest.raises(BadSearch, match="'sucess' is no polarity: give one of success, failure"):
        view.search("taxa", 3, polarity="sucess")
    with pytest.raises(BadPolicy):
        view.search("taxa", 3, policy=Bm25V1(stop_words="klingon-1"))


@settings(max_examples=examples(300), deadline=None)
@given(query=st.text(st.characters(codec="utf-8"), max_size=60))
@example("\ufffe NEAR(")
@example("ǅ ß İ ﬁ ² ①")
@example("ा ் ⃠")
def test_no_text_at_all_makes_a_search_fail(query: str) -> None:
    """FTS5 takes every expression that a query becomes."""
    expression = any_of(query_words(query))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE f USING fts5(a, tokenize='porter unicode61')")
        connection.execute("INSERT INTO f VALUES (?)", (query,))
        if expression:
            connection.execute("SELECT rowid, bm25(f) FROM f WHERE f MATCH ?", (expression,)).fetchall()


def test_domains_and_roles_are_known_from_the_first_active_item_that_has_them(tmp_path: Path) -> None:
    """And stay known after its end; a candidate that never became an item makes nothing known."""
    first = [Item.make("one", "a", domain="units", role="planner", id="one"), Item.make("two", "b", id="two")]
    second = [Item.make("three", "c", domain="coast", id="three")]
    skipped, _ = born([Item.make("four", "d", domain="secret", id="four")], "skipped")
    events = [*born(first), MemoriesForgotten(ids=("one",), policy="bounded-1"), *born(second, "later"), skipped]
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(FakeLog(stamped(events)))
    known = {
        1: ([], []),
        2: (["units"], ["planner"]),
        3: (["units"], ["planner"]),
        6: (["coast", "units"], ["planner"]),
    }
    for position, (domains, roles) in known.items():
        with models.as_of(position) as view:
            assert (view.known("domain"), view.known("role")) == (domains, roles), position


def test_items_for_the_judge_are_never_found(holding: Open) -> None:
    """Principles and episodes serve the judge, however many there are and however well they fit."""
    judges = [item("taxa taxa", src=src, id=f"{src}{n:03}") for n in range(100) for src in ("principle", "episode")]
    assert ids(holding([*judges, item("taxa and more words than that", id="agent")]), "taxa", 5) == ["agent"]
