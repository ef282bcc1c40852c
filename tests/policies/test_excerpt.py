"""Excerpts: within their budget, about the words, of whole sentences, and never through code."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.policies.excerpt import MARK, code_spans, excerpt
from tests.effort import examples, one_in

QUERY = (
    "PREFIX lt: <https://lights.example/ns#> SELECT ?l ?h WHERE { ?l lt:towerHeight ?h . FILTER(?h > 3) } "
    "ORDER BY DESC(?h) LIMIT 3"
)
LESSON = (
    "When asked for all things of a kind, first find the class. It is in the schema. 1. Determine its IRI. 2. Query "
    "with `SELECT ?x WHERE { ?x a lt:Light . }`. For heights of towers, use lt:towerHeight. Write " + QUERY + " and "
    "look. Then submit."
)


@pytest.mark.parametrize(
    ("words", "chars", "found"),
    [
        ((), 90, "When asked for all things of a kind, first find the class. It is in the schema.…"),
        (("zebra",), 90, "When asked for all things of a kind, first find the class. It is in the schema.…"),
        (("class",), 60, "When asked for all things of a kind, first find the class.…"),
        (("class",), 59, "When asked for all things of a kind, first find the class.…"),
        (("tower", "height"), 60, "…For heights of towers, use lt:towerHeight.…"),
        (("submit",), 20, "…Then submit."),
        (("limit", "order"), 170, f"…Write {QUERY} and look. Then submit."),
        (("light",), 60, "…2. Query with `SELECT ?x WHERE { ?x a lt:Light . }`.…"),
        (("light",), 20, "When asked for all…"),
        (("light",), 1000, LESSON),
    ],
)
def test_the_part_about_the_words_is_shown(words: tuple[str, ...], chars: int, found: str) -> None:
    assert excerpt(LESSON, words, chars) == found


def test_of_nothing_but_code_that_is_too_long_only_the_mark_is_left() -> None:
    assert excerpt(f"`{QUERY}`", ("tower",), 60) == MARK
    assert excerpt(QUERY, ("tower",), 60) == MARK
    assert excerpt(LESSON, (), 0) == ""


def test_code_is_what_backquotes_enclose_queries_and_groups_in_braces() -> None:
    text = "Use `a b`, ``c ` d``, ```\ne\n``` and FILTER NOT EXISTS { ?x a ?y { ?z } }, {never closed, `nor this"
    assert [text[start:end] for start, end in code_spans(text)] == [
        "`a b`",
        "``c ` d``",
        "```\ne\n```",
        "FILTER NOT EXISTS { ?x a ?y { ?z } }",
    ]


WORDS = st.sampled_from(("tower", "height", "towerHeight", "e.g.", "塔の高さ。", "Lights", "x" * 70, "\n", "\n\n"))
CODE = st.sampled_from(("`a b. C d`", QUERY, "{ ?x a ?y . ?y ?p ?z }", "```\nSELECT * { ?s ?p ?o }\n```"))
SENTENCES = st.lists(st.one_of(WORDS, WORDS, CODE), max_size=8).map(lambda words: " ".join(words) + ". ")
TEXTS = st.lists(SENTENCES, max_size=6).map("".join)
WANTED = st.lists(st.sampled_from(("tower", "height", "lights", "塔の高さ", "nothing")), max_size=3)


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS, WANTED, st.integers(0, 400))
def test_an_excerpt_is_a_part_of_the_text_within_its_budget_that_cuts_no_code(
    text: str, words: list[str], chars: int
) -> None:
    found = excerpt(text, words, chars)
    assert len(found) <= max(chars, 0)
    if len(text) <= chars:
        assert found == text
        return
    part = found.removeprefix(MARK).removesuffix(MARK)
    assert part in text
    places = [at for at in range(len(text)) if text.startswith(part, at)] if part else []
    spans = code_spans(text)
    assert not part or any(
        all(end <= at or at + len(part) <= start or at <= start and end <= at + len(part) for start, end in spans)
        for at in places
    )


@settings(max_examples=examples(100), deadline=None)
@given(st.text(), st.lists(st.text(max_size=5), max_size=3), st.integers(-1, 60))
def test_any_text_has_an_excerpt(text: str, words: list[str], chars: int) -> None:
    assert len(excerpt(text, words, chars)) <= max(chars, len(text) if len(text) <= chars else 0, 0)


HOSTILE = ["{}", "`", "````x", "{", "SELECT ", "PREFIX a: <b> ", "(", "} 1 1 1", "a. ", "aB_"]


@pytest.mark.parametrize("piece", one_in(3, HOSTILE))
def test_an_excerpt_of_a_hostile_text_takes_no_time(piece: str) -> None:
    text = piece * (2 * limits.EXCERPT_TEXT_CHARS // len(piece))
    begun = process_time()
    assert len(excerpt(text, [f"w{number}" for number in range(64)], 300)) <= 300
    assert process_time() - begun < 2
