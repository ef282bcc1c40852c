"""Terms in prose and in queries: written in full, with a known prefix, or with one that the text declares."""

from __future__ import annotations

import pytest

from rbank_es.ontology.written_terms import written_terms

PREFIXES = {"e": "http://e.org/", "f": "http://f.org/"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("?x e:a/f:b ?y", ["http://e.org/a", "http://f.org/b"]),
        ("?x ^e:a|!f:b ?y", ["http://e.org/a", "http://f.org/b"]),
        ("?x (e:a/e:b)* ?y", ["http://e.org/a", "http://e.org/b"]),
        ("?x a <http://e.org/C> ; e:p ?y .", ["http://e.org/C", "http://e.org/p"]),
        ("PREFIX e: <http://other.org/>\nSELECT ?x { ?x e:p f:C }", ["http://other.org/p", "http://f.org/C"]),
        ("prefix g: <http://g.org#> ASK { ?x g:p 1 }", ["http://g.org#p"]),
        ("g:unknown, 12:30 and http://e.org/ alone", []),
        ("the names a and p without a prefix", []),
    ],
)
def test_a_query_names_terms_in_paths_and_with_its_own_prefixes(text: str, terms: list[str]) -> None:
    assert sorted(written_terms(text, PREFIXES, with_queries=True)) == sorted(terms)


def test_prose_has_no_paths_and_declares_nothing() -> None:
    assert written_terms("and/e:or PREFIX g: <http://g.org#> g:p", PREFIXES) == {"http://g.org#": "http://g.org#"}
