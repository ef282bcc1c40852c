"""Word relevance: its definition, against SQLite's own bm25() and against numbers worked out by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.policies.word_relevance import Document, Formula, QueryWord, rank_documents, terms_of
from rbank_es.projections.builder import in_memory
from rbank_es.projections.tokenizer import Tokenizer, fts_ddl
from tests.effort import examples

Row = tuple[str, str, str, str]


def document(title: str, content: str = "", parts: str = "") -> Document:
    title_, content_, parts_ = (Counter(text.split()) for text in (title, content, parts))
    return Document((title_, Counter(), content_, Counter()), parts_)


def ranked(words: Sequence[tuple[str, float]], formula: Formula, **documents: Document) -> list[tuple[str, float]]:
    query = [QueryWord(*word) for word in words]
    found = rank_documents(query, [[word.word] for word in query], formula, 10, documents, documents)
    return [(hit.id, hit.score) for hit in found.hits]


def test_a_score_is_what_the_formula_says() -> None:
    """Two documents of 2 and 4 words; the query word is once in a title that weighs 3, and twice in a content."""
    formula = Formula(k1=0.8, b=0.5, columns=(3, 2, 1, 1))
    found = ranked([("lamp", 0.5)], formula, one=document("lamp post"), two=document("", "lamp lamp and more"))
    idf = math.log(1 + 0.5 / 2.5)
    one = 0.5 * idf * (3 * 1.8) / (3 + 0.8 * (0.5 + 0.5 * 2 / 3))
    two = 0.5 * idf * (2 * 1.8) / (2 + 0.8 * (0.5 + 0.5 * 4 / 3))
    assert found == [("one", pytest.approx(one)), ("two", pytest.approx(two))]


def test_parts_count_where_they_weigh_and_lengthen_nothing() -> None:
    held = {"whole": document("towerheight", parts="tower height"), "other": document("tree")}
    query = [("tower", 1.0)]
    assert ranked(query, Formula(), **held) == []
    [(id, score)] = ranked(query, Formula(parts=0.5), **held)
    assert (id, score) == ("whole", pytest.approx(math.log(1 + 1.5 / 1.5) * (0.5 * 2.2) / (0.5 + 1.2)))


def test_stems_that_coincide_count_once_with_the_greatest_weight_at_the_first_place() -> None:
    words = [QueryWord("being", 0.4), QueryWord("lamps", 1.0), QueryWord("lamp", 0.5), QueryWord("be", 1.0)]
    tokens = [["be"], ["lamp"], ["lamp"], ["be"]]
    assert terms_of(words, tokens) == [("be", 0, 1.0), ("lamp", 1, 1.0)]
    documents = {"a": document("be lamp"), "b": document("lamp"), "c": document("tree")}
    found = rank_documents(words, tokens, Formula(), 10, documents, documents)
    assert [(hit.id, hit.matched) for hit in found.hits] == [("a", (0, 1, 2, 3)), ("b", (1, 2))]
    assert found.idf == (pytest.approx(math.log(1 + 2.5 / 1.5)), pytest.approx(math.log(1 + 1.5 / 2.5)), 0.0, 0.0)


WORDS = st.sampled_from(("lamp", "lamps", "tower", "towerHeight", "the", "café", "of", "x_y"))
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), min_size=1, max_size=12)
WEIGHTS = st.sampled_from((0.5, 1.0, 2.0, 3.0))


@settings(max_examples=examples(100), deadline=None)
@given(ROWS, st.tuples(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS), st.lists(WORDS, min_size=1, max_size=4, unique=True))
def test_with_sqlites_idf_scores_are_those_of_bm25_in_sqlite(
    rows: list[Row], weights: tuple[float, float, float, float], query: list[str]
) -> None:
    """Words whose stems coincide are left out: SQLite counts them once each."""
    with closing(Tokenizer()) as tokenizer:
        words = list({read: word for word, read in zip(query, tokenizer.read(query), strict=True)}.values())
        words = [word for word in words if "_" not in word]  # two tokens: a phrase in SQLite
        documents = {str(number): each for number, each in enumerate(tokenizer.documents(rows))}
        tokens = tokenizer.read(words)
    formula = Formula(idf="sqlite", columns=weights)
    found = rank_documents([QueryWord(word, 1.0) for word in words], tokens, formula, 100, documents, documents)
    # By id, because sums in another order of addition may part what ties.
    assert {hit.id: pytest.approx(-hit.score) for hit in found.hits} == dict(by_sqlite(rows, weights, words))


def by_sqlite(rows: list[Row], weights: tuple[float, ...], words: list[str]) -> list[tuple[str, float]]:
    if not words:
        return []
    with closing(in_memory()) as connection:
        connection.execute(fts_ddl("found", ""))
        connection.executemany(
            "INSERT INTO found (rowid, title, desc, content, tags) VALUES (?, ?, ?, ?, ?)",
            [(number, *row) for number, row in enumerate(rows)],
        )
        expression = " OR ".join(f'"{word}"' for word in words)
        scored = connection.execute(
            "SELECT rowid, bm25(found, ?, ?, ?, ?) FROM found WHERE found MATCH ?", (*weights, expression)
        ).fetchall()
    return [(str(number), score) for number, score in sorted(scored, key=lambda hit: (round(hit[1], 12), str(hit[0])))]
